"""The component provider without an engine: its schema, what it reads, and what it registers."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pulumi
import pytest
import yaml
from pulumi.provider.experimental.component import ComponentProvider
from pulumi.provider.server import ComponentInitError

from muster import config
from muster.components.bundle import BundleProvider
from muster.components.multilanguage.platform import Platform
from muster.components.multilanguage.queues import Queues
from muster.components.multilanguage.stack import PACKAGE
from muster.components.queues import Queues as PythonQueues
from muster.components.queues import QueuesArgs as PythonQueuesArgs
from muster.errors import MusterError
from tests.mocks.recorder import Program, run, secret

ROOT: Final = Path(__file__).parents[2]
TEAMS: Final = ROOT / "examples" / "library" / "queues-alone" / "teams.yaml"
BUNDLE: Final = "muster:k8s:Bundle"


def sections() -> dict[str, Any]:
    """The example's stack, as the engine hands it over: every number is floating."""
    described = yaml.safe_load(TEAMS.read_text())["config"]
    found: dict[str, Any] = json.loads(json.dumps(described), parse_int=float)
    return {key.removeprefix("muster:"): value for key, value in found.items()}


def host() -> ComponentProvider:
    """The SDK's own host, which the plugin starts."""
    return ComponentProvider([Platform, Queues], PACKAGE, None, "1.0.0")


def construct(stack: dict[str, Any]) -> Any:
    inputs: Any = {"stack": stack, "kubeconfig": "{}", "kubeContext": "shared"}
    return host().construct("queues", f"{PACKAGE}:index:Queues", inputs)


def queues(stack: dict[str, Any]) -> Program:
    """What the host registers for a program's `muster-components:Queues`."""
    return run(lambda: construct(stack))


def test_the_schema_documents_every_section_of_a_stack() -> None:
    schema = json.loads(host().schema or "")
    assert schema["resources"].keys() == {f"{PACKAGE}:index:Platform", f"{PACKAGE}:index:Queues"}
    documented = schema["types"][f"{PACKAGE}:index:Stack"]["properties"]
    program = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())["config"]
    assert {f"muster:{name}" for name in documented} == program.keys()
    assert all(each["description"] for each in documented.values())
    for resource in schema["resources"].values():
        assert all(each["description"] for each in resource["inputProperties"].values())


def test_a_value_of_the_stack_that_a_resource_makes_is_refused() -> None:
    def from_another_resource() -> Any:
        stack = sections()
        # An Output needs the event loop of a running program.
        stack["departments"]["research"]["teams"]["team-a"]["quota"]["l4"] = pulumi.Output.from_input(4)
        return construct(stack)

    where = r"departments\.research\.teams\.team-a\.quota\.l4 comes from another resource"
    with pytest.raises(ComponentInitError) as caught:
        run(from_another_resource)
    assert isinstance(caught.value.inner, MusterError)
    assert re.search(where, str(caught.value.inner))


def test_a_violation_names_its_place_and_its_fix() -> None:
    stack = sections()
    stack["pools"]["l4"]["maxNodes"] = -1.0
    with pytest.raises(ComponentInitError) as caught:
        queues(stack)
    assert "muster:pools.l4.maxNodes" in str(caught.value.inner)


def bundles(program: Program) -> dict[str, Any]:
    return {each.name: each.inputs["manifests"] for each in program.of(BUNDLE)}


def test_the_queues_are_those_of_the_python_component() -> None:
    def ours() -> None:
        provider = BundleProvider("bundles", kubeconfig="{}", context="c")
        PythonQueues("queues", PythonQueuesArgs(stack=config.load(TEAMS), provider=provider))

    program = queues(sections())
    assert bundles(run(ours)).items() <= bundles(program).items()
    provider = program.one("pulumi:providers:muster", "queues-bundles")
    assert secret(provider.inputs["kubeconfig"]) == "{}"
    for bundle in program.of(BUNDLE):
        assert provider.urn in bundle.provider
