"""The controller's rights are those of the stack's scheduler and no more."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from muster.components.gang_authority import manager_cluster_rules, taint_rules
from muster.config import load
from muster.model.capacity import Gangs
from muster.model.names import CHANNEL_DEVICE_CLASS
from muster.model.stack import Scheduler, Stack
from muster.model.tenancy import TenancyMode
from tests.integration.accounts import registered
from tests.unit.model.model_stacks import parsed
from tests.unit.model.test_device_classes import text_of

_KARPENTER: Final = Path("tests/karpenter/stack.yaml")
_STACK: Final = load(Path("tests/integration/kueue_api/stack.yaml"))


def granted(scheduler: Scheduler) -> dict[tuple[str, str], set[str]]:
    """(group, resource) -> verbs."""
    found: dict[tuple[str, str], set[str]] = {}
    rules: list[dict[str, Any]] = manager_cluster_rules(scheduler)
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                found.setdefault((group, resource), set()).update(rule["verbs"])
    return found


def test_pods_are_changed_only_where_kai_schedules() -> None:
    """A pod that can never pass is deleted, and made anew by KubeRay. With Kueue pods are created in dry
    runs, to which a policy holds the account (tests/integration/tenancy/test_own_account.py).
    """
    follow = {"list", "watch"}
    assert granted(Scheduler.KUEUE)["", "pods"] == follow | {"create", "delete"}
    assert granted(Scheduler.KAI)["", "pods"] == follow | {"get", "patch", "delete"}


def test_a_pod_of_ours_is_read_again_where_nodes_are_held() -> None:
    rules: list[dict[str, Any]] = manager_cluster_rules(Scheduler.KUEUE, holds=True)
    verbs = {verb for rule in rules if "pods" in rule["resources"] for verb in rule["verbs"]}
    assert verbs == {"get", "list", "watch", "create", "delete"}


def test_pods_are_read_again_only_where_those_without_quota_are_deleted() -> None:
    stacks = {mode: replace(_STACK, tenancy=replace(_STACK.tenancy, mode=mode)) for mode in TenancyMode}
    reads = {mode: _manager_reads(stack) for mode, stack in stacks.items()}
    assert [mode for mode, found in reads.items() if found] == [TenancyMode.ENFORCE]


def _manager_reads(stack: Stack) -> bool:
    """Whether the stack's manager may read one pod, and is told to."""
    items = registered(stack)
    (role,) = (
        each for each in items if each["kind"] == "ClusterRole" and "manager" in each["metadata"]["name"]
    )
    (program,) = (
        each for each in items if each["kind"] == "Deployment" and "manager" in each["metadata"]["name"]
    )
    may = any("pods" in rule["resources"] and "get" in rule["verbs"] for rule in role["rules"])
    arguments = program["spec"]["template"]["spec"]["containers"][0]["args"]
    assert may is any(each.startswith("--delete-without-quota=") for each in arguments)
    return may


@pytest.mark.parametrize(
    ("classes", "makes_domains"), [({CHANNEL_DEVICE_CLASS: "uncounted"}, True), ({}, False)]
)
def test_compute_domains_are_made_where_the_stack_maps_the_class_of_channels(
    classes: dict[str, str], makes_domains: bool
) -> None:
    stack = parsed(text_of(classes))
    rules = [rule for listed in _roles(stack).values() for rule in listed]
    verbs = {verb for rule in rules if "computedomains" in rule["resources"] for verb in rule["verbs"]}
    assert verbs == ({"get", "list", "watch", "create"} if makes_domains else set())
    programs = [
        each["spec"]["template"]["spec"] for each in registered(stack) if each["kind"] == "Deployment"
    ]
    flags = [flag for program in programs for flag in program["containers"][0]["args"]]
    assert ("--compute-domains" in flags) is makes_domains


def test_neither_scheduler_gives_rights_on_the_other_ones_kinds() -> None:
    groups = {scheduler: {group for group, _ in granted(scheduler)} for scheduler in Scheduler}
    assert "scheduling.run.ai" not in groups[Scheduler.KUEUE]
    assert "kueue.x-k8s.io" not in groups[Scheduler.KAI]


def test_with_kueue_a_ray_cluster_is_changed_for_its_claims_alone() -> None:
    rights = {key: verbs for key, verbs in granted(Scheduler.KUEUE).items() if key[0] == "ray.io"}
    assert rights == {("ray.io", "rayclusters"): {"get", "patch"}}


def test_queues_are_never_written() -> None:
    assert granted(Scheduler.KAI)["scheduling.run.ai", "queues"] == {"list", "watch"}


def test_an_up_that_leaves_placeholders_takes_their_rights_as_whole_resources() -> None:
    """The engine deletes those at the end, when no node has our taint any more."""
    stack = load(_KARPENTER)
    before = _roles(stack)
    after = _roles(replace(stack, pools=tuple(replace(pool, gangs=Gangs.NONE) for pool in stack.pools)))
    taken = before.keys() - after.keys()
    assert {key: before[key] for key in after} == after
    assert [rule for key in taken for rule in before[key] if "nodes" in rule["resources"]] == taint_rules()


def _roles(stack: Stack) -> dict[tuple[str, str], list[dict[str, Any]]]:
    made = (each for each in registered(stack) if each["kind"] in ("Role", "ClusterRole"))
    return {(each["kind"], each["metadata"]["name"]): each["rules"] for each in made}
