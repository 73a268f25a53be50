"""What is rendered is what Kueue's own definitions accept."""

import re
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings

from muster.model import gangpolicy
from muster.model.kueue import ConcurrentAdmission, Migration
from muster.model.queues import Allowance
from muster.model.stack import GangAdmission, GangMode, Stack
from muster.render import gang, kueue
from tests.length import examples
from tests.unit.model.go_modules import KUEUE, source_of
from tests.unit.model.kueue_files import definitions, rendered
from tests.unit.model.model_stacks import stacks, two_teams
from tests.unit.model.openapi_check import mistakes


@settings(max_examples=examples(60))
@given(stacks())
def test_every_object_of_every_stack_fits_its_definition(some: Stack) -> None:
    schemas = definitions()
    for mode in GangMode:
        for item in rendered(replace(some, gang_admission=GangAdmission(mode=mode))):
            if item["kind"] not in schemas:
                continue  # What tenancy puts beside the queue: tests/integration/tenancy applies it for real.
            assert item["apiVersion"] == "kueue.x-k8s.io/v1beta2"
            assert mistakes(item, schemas[item["kind"]]) == []


def test_the_check_itself_sees_what_is_wrong() -> None:
    (flavor, *_) = kueue.flavors(two_teams(Allowance()))
    flavor["spec"] = {"nodeLabel": {}, "nodeTaints": [{"key": "a"}]}
    found = mistakes(flavor, definitions()["ResourceFlavor"])
    assert any("nodeLabel: is unknown" in mistake for mistake in found)
    assert any("effect" in mistake for mistake in found)


@given(stacks())
def test_the_gang_policy_fits_its_own_definition(some: Stack) -> None:
    (version,) = gangpolicy.crd()["spec"]["versions"]
    assert mistakes(gang.policy(some), version["schema"]["openAPIV3Schema"]) == []


_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.M | re.S)
_FIELD = re.compile(r"^\t(?:(\w+)\s+)?([\w\[\]*.]+)\s+`json:\"([\w]*)(,inline)?[^`]*`", re.M)


@cache
def _go_structs(text: str) -> dict[str, dict[str, str]]:
    """struct -> JSON name -> Go type, inlined structs resolved."""
    raw = {name: _FIELD.findall(body) for name, body in _STRUCT.findall(text)}

    def fields(name: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for _, go_type, json_name, inline in raw.get(name, []):
            if inline:
                found |= fields(go_type)
            elif json_name:
                found[json_name] = go_type.lstrip("*")
        return found

    return {name: fields(name) for name in raw}


def _unknown(value: Any, go_type: str, structs: dict[str, dict[str, str]], path: str) -> list[str]:
    if isinstance(value, dict) and go_type in structs:
        known = structs[go_type]
        found = [f"{path}.{key}" for key in value if key not in known]
        for key in value.keys() & known.keys():
            found += _unknown(value[key], known[key], structs, f"{path}.{key}")
        return found
    return []


@pytest.mark.parametrize("weight", [None, 2])
def test_every_field_of_the_manager_configuration_exists(weight: int | None) -> None:
    """Kueue decodes its configuration strictly: an unknown field is a manager that does not start."""
    text = source_of(KUEUE, "apis/config/v1beta2/configuration_types.go").read_text(encoding="utf-8")
    structs = _go_structs(text)
    structs["Configuration"] |= {"apiVersion": "string", "kind": "string"}
    config = kueue.manager_config(two_teams(Allowance(weight=weight)))
    assert _unknown(config, "Configuration", structs, "") == []
    assert _unknown({"waitForPodsReady": {"enable": True}}, "Configuration", structs, "") == [
        ".waitForPodsReady.enable"
    ]


def test_feature_gates_of_the_manager_configuration_exist() -> None:
    text = source_of(KUEUE, "pkg/features/kube_features.go").read_text(encoding="utf-8")
    known = set(re.findall(r'^\t\w+ featuregate\.Feature = "(\w+)"', text, re.M))
    stack = two_teams(Allowance())
    (department,) = stack.departments
    settings = replace(
        department.teams[0].kueue, concurrent_admission=ConcurrentAdmission(mode=next(iter(Migration)))
    )
    teams = (replace(department.teams[0], kueue=settings), *department.teams[1:])
    gates = kueue.manager_config(replace(stack, departments=(replace(department, teams=teams),)))[
        "featureGates"
    ]
    assert gates
    assert gates.keys() <= known


def test_frameworks_are_jobs_and_ray_alone_and_nothing_is_blocked_or_retried_for_ever() -> None:
    config = kueue.manager_config(two_teams(Allowance()))
    assert config["integrations"]["frameworks"] == [
        "batch/job",
        "ray.io/rayjob",
        "ray.io/raycluster",
        "ray.io/rayservice",
    ]
    assert config["managedJobsNamespaceSelector"] == {
        "matchExpressions": [{"key": "muster.dev/team", "operator": "Exists"}]
    }
    ready = config["waitForPodsReady"]
    assert ready["blockAdmission"] is False
    assert ready["timeout"].endswith("s")
    assert ready["requeuingStrategy"]["backoffLimitCount"] > 0
