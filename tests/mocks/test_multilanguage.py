"""The component provider without an engine: its schema, what it reads, and what it registers."""

import json
import re
from pathlib import Path
from typing import Any, Final

import pulumi
import pytest
import yaml

from muster import config
from muster.components.bundle import BundleProvider
from muster.components.multilanguage.host import PACKAGE, Provider
from muster.components.queues import Queues as PythonQueues
from muster.components.queues import QueuesArgs as PythonQueuesArgs
from tests.mocks.recorder import Program, run, secret

ROOT: Final = Path(__file__).parents[2]
TEAMS: Final = ROOT / "examples" / "library" / "queues-alone" / "teams.yaml"
BUNDLE: Final = "muster:k8s:Bundle"


def sections() -> dict[str, Any]:
    """The example's stack, as the engine hands it over: every number is floating."""
    described = yaml.safe_load(TEAMS.read_text())["config"]
    found: dict[str, Any] = json.loads(json.dumps(described), parse_int=float)
    return {key.removeprefix("muster:"): value for key, value in found.items()}


def construct(stack: dict[str, Any]) -> Any:
    inputs: Any = {"stack": stack, "kubeconfig": "{}", "kubeContext": "shared"}
    return Provider().construct("queues", f"{PACKAGE}:index:Queues", inputs)


def queues(stack: dict[str, Any]) -> Program:
    """What the host registers for a program's `muster-components:Queues`."""
    return run(lambda: construct(stack))


def test_the_schema_documents_every_section_of_a_stack() -> None:
    schema = json.loads(Provider().schema or "")
    assert schema["resources"].keys() == {f"{PACKAGE}:index:Platform", f"{PACKAGE}:index:Queues"}
    documented = schema["types"][f"{PACKAGE}:index:Stack"]["properties"]
    program = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())["config"]
    # A program has a language of its own to share values.
    assert {f"muster:{name}" for name in documented} == program.keys() - {"muster:extends"}
    assert all(each["description"] for each in documented.values())
    for resource in schema["resources"].values():
        assert all(each["description"] for each in resource["inputProperties"].values())


def test_a_value_of_the_stack_that_a_resource_makes_is_refused() -> None:
    def from_another_resource() -> Any:
        stack = sections()
        # An Output needs the event loop of a running program.
        stack["departments"]["research"]["teams"]["team-a"]["quota"]["l4"] = pulumi.Output.from_input(4)
        return construct(stack)

    with pytest.raises(pulumi.InputPropertiesError) as caught:
        run(from_another_resource)
    ((where, reason),) = refused(caught.value)
    assert where == "stack.departments.research.teams.team-a.quota.l4"
    assert reason.startswith("comes from another resource")


def test_every_violation_names_its_property_and_its_fix() -> None:
    stack = sections()
    stack["pools"]["l4"]["maxNodes"] = -1.0
    stack["priorities"] = {"Not A Name": 1.0}
    with pytest.raises(pulumi.InputPropertiesError) as caught:
        queues(stack)
    found = dict(refused(caught.value))
    assert "stack.pools.l4.maxNodes" in found
    assert any(each.startswith("stack.priorities") for each in found)
    assert all(" Fix: " in each for each in found.values())


def refused(problem: pulumi.InputPropertiesError) -> list[tuple[str, str]]:
    """The properties that the program sees refused, and why: the engine prints these without a traceback."""
    return [(each["property_path"], each["reason"]) for each in problem.errors or ()]


def test_the_examples_of_the_documentation_are_stacks() -> None:
    text = (ROOT / "docs" / "library.md").read_text()
    blocks = [yaml.safe_load(each) for each in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)]
    described = [each["resources"]["queues"]["properties"]["stack"] for each in blocks]
    assert described
    for stack in described:
        assert bundles(queues(json.loads(json.dumps(stack), parse_int=float)))


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
