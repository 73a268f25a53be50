"""The examples of examples/library, applied by the real engine to a real API server with the real Kueue."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from muster.config import load
from muster.local import envtest
from muster.local.envtest import ControlPlane
from muster.local.envtest.kueue import define
from muster.render import kueue
from tests import built
from tests.clouds.charts import offline
from tests.clouds.engine import ROOT, Workspace, workspace
from tests.last_build import last_build

_CHART: Final = "kueue-chart"
_NEEDED: Final = (
    ("etcd", "kube-apiserver", "kube-controller-manager", "kueue"),
    ("kueue-crds", "provisioningrequest-crd", _CHART),
)
_EXAMPLES: Final = ROOT / "examples" / "library"
_KUEUE: Final = "/apis/kueue.x-k8s.io/v1beta2"
_IMAGE: Final = f"registry.test/gang-admission@sha256:{'ab' * 32}"


@dataclass(slots=True)
class _Cluster:
    plane: ControlPlane
    folder: Path

    def names(self, path: str) -> set[str]:
        return {each["metadata"]["name"] for each in self.plane.call("GET", path)["items"]}

    def kubeconfig(self, context: str) -> str:
        """A kubeconfig whose only context, the current one, has this name."""
        config: dict[str, Any] = yaml.safe_load(self.plane.kubeconfig().read_text())
        (entry,) = config["contexts"]
        return json.dumps({**config, "contexts": [{**entry, "name": context}], "current-context": context})


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Cluster]:
    programs = built.programs(*_NEEDED)
    built.tools()
    folder = tmp_path_factory.mktemp("library")
    with envtest.control_plane(folder, programs) as plane:
        define(plane, programs)
        config = kueue.manager_config(load(_EXAMPLES / "queues-alone" / "teams.yaml"))
        with (
            envtest.controllers(
                plane,
                programs,
                ("garbage-collector-controller", "namespace-controller", "resourcequota-controller"),
            ),
            envtest.kueue(plane, programs, config=config, chart=programs.assets[_CHART]),
        ):
            yield _Cluster(plane, folder)


Engine = Callable[..., Workspace]


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """A new stack of a program, which lies as deep below the checkout as the examples do."""
    for name in ("muster", "components", "policies"):
        (tmp_path / name).symlink_to(ROOT / name)
    programs = tmp_path / "examples" / "library"
    shutil.copytree(_EXAMPLES, programs)
    for name in ("cluster", "remote"):
        shutil.copytree(Path(__file__).parent / name, programs / name)

    def of(name: str, *, state: Path | None = None, **environment: str) -> Workspace:
        known = {"PYTHONPATH": str(ROOT), "PULUMI_PYTHON_CMD": str(ROOT / ".venv" / "bin" / "python")}
        if state is not None:
            known["PULUMI_BACKEND_URL"] = state.as_uri()
        return workspace(tmp_path / f"engine-{name}", programs / name, "test", {**known, **environment})

    return of


def configure(made: Workspace, **values: str) -> None:
    for key, value in values.items():
        made.cli("config", "set", "--secret", "--stack", made.stack, key, value)


def test_queues_alone_go_into_a_cluster_of_another_program(cluster: _Cluster, engine: Engine) -> None:
    kubeconfig = cluster.folder / "other-program"
    kubeconfig.write_text(cluster.kubeconfig("shared"))
    other = engine("cluster", CLUSTER_KUBECONFIG=str(kubeconfig), CLUSTER_CONTEXT="shared")
    other.up()
    ours = engine("queues-alone", state=other.folder / "state")
    configure(ours, clusterStack="organization/cluster/test")
    ours.preview()
    assert not cluster.names(f"{_KUEUE}/clusterqueues")

    ours.up()
    assert cluster.names(f"{_KUEUE}/clusterqueues") == {"team-a", "team-b"}
    assert json.loads(ours.cli("stack", "output", "--json", "--stack", ours.stack)) == {
        "queueNames": {"team-a": "team-a", "team-b": "team-b"}
    }
    ours.preview("--expect-no-changes")
    ours.destroy()
    assert not cluster.names(f"{_KUEUE}/clusterqueues")


def test_own_objects_come_after_the_queues_and_go_before_them(cluster: _Cluster, engine: Engine) -> None:
    made = engine("own-objects")
    configure(made, kubeconfig=cluster.kubeconfig("shared"))
    created = [step.name for step in made.up().changes if step.op == "create"]
    assert created.index("team-a") < created.index("nightly")
    assert "nightly" in cluster.names(f"{_KUEUE}/localqueues")
    deleted = [step.name for step in made.destroy().changes if step.op == "delete"]
    assert deleted.index("nightly") < deleted.index("team-a")


def test_the_state_of_the_last_build_previews_as_no_change(cluster: _Cluster, tmp_path: Path) -> None:
    """The queues of its program, applied by its own code."""
    kubeconfig = cluster.plane.kubeconfig()
    environment = {
        "SWITCH_STACK": str(_EXAMPLES / "queues-alone" / "teams.yaml"),
        "SWITCH_KUBECONFIG": str(kubeconfig),
    }
    before = last_build(tmp_path / "before")
    program = Path("tests/integration/kai/program")
    made = workspace(
        tmp_path / "engine", before / program, "switch", {**environment, "PYTHONPATH": str(before)}
    )
    made.up()
    made.project = ROOT / program
    made.environment["PYTHONPATH"] = str(ROOT)
    made.preview("--expect-no-changes")
    made.destroy()


def test_what_a_person_deleted_is_put_back_by_the_next_up(cluster: _Cluster, tmp_path: Path) -> None:
    """A team's namespace with all that is in it, and a flavor that Kueue holds while queues name it."""
    kubeconfig = cluster.plane.kubeconfig()
    environment = {
        "SWITCH_STACK": str(_EXAMPLES / "queues-alone" / "teams.yaml"),
        "SWITCH_KUBECONFIG": str(kubeconfig),
        "PYTHONPATH": str(ROOT),
    }
    made = workspace(tmp_path / "engine", ROOT / "tests/integration/kai/program", "switch", environment)
    made.up()
    space, flavor = "/api/v1/namespaces/team-a", f"{_KUEUE}/resourceflavors/l4"
    before = {path: cluster.plane.call("GET", path)["metadata"]["uid"] for path in (space, flavor)}
    for path in before:
        cluster.plane.call("DELETE", path)

    previewed = made.preview()
    assert "no longer in the cluster: Namespace team-a, " in previewed.output
    assert {(step.op, step.name) for step in previewed.changes} == {
        ("update", "team-a"),
        ("update", "queues-flavors"),
    }
    made.up()
    for path, uid in before.items():
        found = cluster.plane.call("GET", path)["metadata"]
        assert found["uid"] != uid
        assert "deletionTimestamp" not in found
    assert "default" in cluster.names(f"{_KUEUE}/namespaces/team-a/localqueues")
    made.up("--expect-no-changes")
    made.destroy()


def test_two_platforms_in_one_program_do_not_collide(
    cluster: _Cluster, engine: Engine, tmp_path: Path
) -> None:
    made = engine("two-platforms")
    charts = offline(tmp_path)
    for name in ("research", "production"):
        file = made.project / f"{name}.yaml"
        described = yaml.safe_load(file.read_text())
        described["config"] |= {"muster:image": _IMAGE, "muster:charts": {"path": str(charts)}}
        file.write_text(yaml.safe_dump(described))
        configure(made, **{f"{name}Kubeconfig": cluster.kubeconfig(name)})

    created = [(step.type, step.name) for step in made.preview().changes if step.op == "create"]
    assert len(created) == len(set(created))
    teams = {name for type_, name in created if type_ == "muster:k8s:Bundle" and name.endswith("team-a")}
    assert teams == {"research-queues-team-a", "production-queues-team-a"}
    installed = {name for type_, name in created if type_ == "kubernetes:helm.sh/v3:Release"}
    assert {"research-kueue", "production-kueue"} <= installed


def test_a_program_in_another_language_gets_the_same_queues(cluster: _Cluster, engine: Engine) -> None:
    """As its SDK registers them: a remote component, which the provider builds."""
    made = engine("remote")
    configure(made, kubeconfig=cluster.kubeconfig("shared"), context="shared")
    made.up()
    assert cluster.names(f"{_KUEUE}/clusterqueues") == {"team-a", "team-b"}
    made.preview("--expect-no-changes")
    made.destroy()


@pytest.mark.skipif(shutil.which("pulumi-language-yaml") is None, reason="no YAML host on PATH")
def test_a_program_in_yaml_gets_the_same_queues(cluster: _Cluster, engine: Engine) -> None:
    made = engine("yaml-queues")
    configure(made, kubeconfig=cluster.kubeconfig("shared"), context="shared")
    made.up()
    assert cluster.names(f"{_KUEUE}/clusterqueues") == {"team-a", "team-b"}
    made.destroy()


def test_pulumi_package_gets_the_schema_of_the_provider(engine: Engine) -> None:
    made = engine("remote")
    plugin = ROOT / "components" / "provider" / "bin" / "pulumi-resource-muster-components"
    schema = json.loads(made.cli("package", "get-schema", str(plugin)))
    assert schema["resources"].keys() == {
        "muster-components:index:Platform",
        "muster-components:index:Queues",
    }
