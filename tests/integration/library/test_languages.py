"""Programs in other languages, through the component provider: the real engine and the real Kueue."""

import json
import os
import subprocess
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests import built
from tests.clouds.engine import ROOT, Workspace
from tests.integration.library.world import Cluster, Engine, configure

_SWITCH: Final = "MUSTER_TYPESCRIPT"
_FOLDER: Final = ROOT / "components" / "provider"
_EXECUTABLE: Final = _FOLDER / "bin" / "pulumi-resource-muster-components"
_COMPONENTS: Final = {"muster-components:index:Platform", "muster-components:index:Queues"}


def test_the_same_queues_as_from_python(cluster: Cluster, engine: Engine) -> None:
    """As an SDK of any language registers them: a remote component, which the provider builds."""
    made = engine("remote")
    configure(made, kubeconfig=cluster.kubeconfig("shared"), context="shared")
    made.up()
    assert cluster.queues() == {"team-a", "team-b"}
    made.preview("--expect-no-changes")
    made.destroy()


def test_a_program_in_yaml_gets_the_same_queues(cluster: Cluster, engine: Engine) -> None:
    made = with_program(engine("yaml-queues"), "pulumi-language-yaml")
    configure(made, kubeconfig=cluster.kubeconfig("shared"), context="shared")
    made.up()
    assert cluster.queues() == {"team-a", "team-b"}
    assert outputs(made) == {"queueNames": {"team-a": "team-a", "team-b": "team-b"}}
    made.preview("--expect-no-changes")
    made.destroy()
    assert not cluster.queues()


def test_a_mistake_names_its_property_and_no_line_of_muster(engine: Engine) -> None:
    made = with_program(engine("yaml-queues"), "pulumi-language-yaml")
    project = made.project / "Pulumi.yaml"
    project.write_text(project.read_text().replace("machine: g2-standard-8, maxNodes: 8", "maxNodes: -1"))
    configure(made, kubeconfig="{}", context="shared")
    output = made.preview(fails=True).output
    assert "property stack.pools.l4.maxNodes with value" in output
    assert "property stack.pools.l4.machine has a problem: is missing" in output
    assert ".py" not in output


@pytest.mark.parametrize("plugin", [_FOLDER, _EXECUTABLE], ids=["folder", "executable"])
def test_pulumi_package_gets_the_schema_with_any_python_on_path(engine: Engine, plugin: Path) -> None:
    made = engine("remote")
    made.environment.pop("PULUMI_PYTHON_CMD")
    schema = json.loads(made.cli("package", "get-schema", str(plugin)))
    assert schema["resources"].keys() == _COMPONENTS


def test_a_yaml_program_uses_what_package_add_wrote(cluster: Cluster, engine: Engine) -> None:
    made = with_program(engine("yaml-queues"), "pulumi-language-yaml")
    project = made.project / "Pulumi.yaml"
    described = yaml.safe_load(project.read_text())
    described["plugins"]["providers"] = [
        each for each in described["plugins"]["providers"] if each["name"] == "muster"
    ]
    project.write_text(yaml.safe_dump(described))
    made.cli("package", "add", "../../../components/provider")
    configure(made, kubeconfig=cluster.kubeconfig("shared"), context="shared")
    made.up()
    assert cluster.queues() == {"team-a", "team-b"}
    made.destroy()


@pytest.mark.skipif(
    not os.environ.get(_SWITCH),
    reason=f"TypeScript needs npm's registry: `muster local build --only` its two programs, then {_SWITCH}=1",
)
def test_a_program_in_typescript_gets_the_same_queues(cluster: Cluster, engine: Engine) -> None:
    """Its SDK is made by the generator of `pulumi package add`, and installed by the same command of npm."""
    made = with_program(engine("typescript-queues"), "pulumi-language-nodejs")
    with_program(made, "pulumi-sdk-nodejs")
    schema = made.cli("package", "get-schema", str(_EXECUTABLE))
    in_project(made, "pulumi-sdk-nodejs", "sdks/muster-components", standard_input=schema)
    in_project(made, "npm", "install", "--no-fund", "--no-audit")
    in_project(made, "npm", "add", "@pulumi/muster-components@file:sdks/muster-components")
    in_project(made, "npx", "tsc", "--noEmit")
    configure(made, kubeconfig=cluster.kubeconfig("shared"), context="shared")
    made.up()
    assert cluster.queues() == {"team-a", "team-b"}
    assert outputs(made) == {"queueNames": {"team-a": "team-a", "team-b": "team-b"}}
    made.preview("--expect-no-changes")
    made.destroy()


def outputs(made: Workspace) -> dict[str, object]:
    return dict(json.loads(made.cli("stack", "output", "--json", "--stack", made.stack)))


def in_project(made: Workspace, *command: str, standard_input: str = "") -> None:
    done = subprocess.run(
        command,
        cwd=made.project,
        env=made.environment,
        input=standard_input,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}"


def with_program(made: Workspace, name: str) -> Workspace:
    """The workspace with a program on PATH that is built on demand."""
    program = built.program(name) or built.absent(name, build=f"muster local build --only {name}")
    made.environment["PATH"] = f"{program.parent}:{made.environment['PATH']}"
    return made
