"""The component provider without an engine: its schema, what it reads, and what it registers."""

import json
from pathlib import Path
from typing import Any, Final

import pulumi
import pytest
import yaml
from pulumi.provider.experimental.component import ComponentProvider

from muster import config
from muster.components.bundle import BundleProvider
from muster.components.multilanguage.platform import Platform
from muster.components.multilanguage.queues import Queues
from muster.components.multilanguage.stack import PACKAGE, Stack, read_stack
from muster.components.queues import Queues as PythonQueues
from muster.components.queues import QueuesArgs as PythonQueuesArgs
from muster.errors import MusterError
from tests.mocks.recorder import Program, run, secret

ROOT: Final = Path(__file__).parents[2]
TEAMS: Final = ROOT / "examples" / "library" / "queues-alone" / "teams.yaml"
BUNDLE: Final = "muster:k8s:Bundle"


def sections() -> Stack:
    """The example's stack, as the engine hands it over: every number is floating."""
    described = yaml.safe_load(TEAMS.read_text())["config"]
    found: Any = json.loads(json.dumps(described), parse_int=float)
    names = {"gangAdmission": "gang_admission"}
    plain = {key.removeprefix("muster:"): value for key, value in found.items()}
    mapped: Any = {names.get(key, key): value for key, value in plain.items()}
    return mapped  # type: ignore[no-any-return]  # as the host maps it


def test_the_schema_documents_every_section_of_a_stack() -> None:
    schema = json.loads(ComponentProvider([Platform, Queues], PACKAGE, None, "1.0.0").schema or "")
    assert schema["resources"].keys() == {f"{PACKAGE}:index:Platform", f"{PACKAGE}:index:Queues"}
    documented = schema["types"][f"{PACKAGE}:index:Stack"]["properties"]
    program = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())["config"]
    assert {f"muster:{name}" for name in documented} == program.keys()
    assert all(each["description"] for each in documented.values())
    for resource in schema["resources"].values():
        assert all(each["description"] for each in resource["inputProperties"].values())


def test_a_stack_is_what_its_file_describes() -> None:
    read: list[object] = []
    run(lambda: read.append(read_stack(sections())))
    assert read == [config.load(TEAMS)]


def test_a_value_of_the_stack_that_a_resource_makes_is_refused() -> None:
    def program() -> None:
        stack = sections()
        stack["departments"]["research"]["teams"]["team-a"]["quota"]["l4"] = pulumi.Output.from_input(4)
        read_stack(stack)

    where = r"departments\.research\.teams\.team-a\.quota\.l4 comes from another resource"
    with pytest.raises(MusterError, match=where):
        run(program)


def bundles(program: Program) -> dict[str, Any]:
    return {each.name: each.inputs["manifests"] for each in program.of(BUNDLE)}


def test_the_queues_are_those_of_the_python_component() -> None:
    def ours() -> None:
        provider = BundleProvider("bundles", kubeconfig="{}", context="c")
        PythonQueues("queues", PythonQueuesArgs(stack=config.load(TEAMS), provider=provider))

    program = run(
        lambda: Queues("queues", {"stack": sections(), "kubeconfig": "{}", "kube_context": "shared"})
    )
    assert bundles(run(ours)).items() <= bundles(program).items()
    provider = program.one("pulumi:providers:muster", "queues-bundles")
    assert secret(provider.inputs["kubeconfig"]) == "{}"
    for bundle in program.of(BUNDLE):
        assert provider.urn in bundle.provider
