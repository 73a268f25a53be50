"""The controller's rights are those of the stack's scheduler and no more."""

from typing import Any

from muster.components.gang_authority import manager_cluster_rules
from muster.model.stack import Scheduler


def granted(scheduler: Scheduler) -> dict[tuple[str, str], set[str]]:
    """(group, resource) -> verbs."""
    found: dict[tuple[str, str], set[str]] = {}
    rules: list[dict[str, Any]] = manager_cluster_rules(scheduler)
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                found.setdefault((group, resource), set()).update(rule["verbs"])
    return found


def test_pods_are_changed_only_where_kai_schedules_and_never_made() -> None:
    """A pod that can never pass is deleted, and made anew by KubeRay."""
    follow = {"list", "watch"}
    assert granted(Scheduler.KUEUE)["", "pods"] == follow | {"delete"}
    assert granted(Scheduler.KAI)["", "pods"] == follow | {"get", "patch", "delete"}


def test_pods_are_made_only_where_nodes_are_held() -> None:
    rules: list[dict[str, Any]] = manager_cluster_rules(Scheduler.KUEUE, holds=True)
    verbs = {verb for rule in rules if "pods" in rule["resources"] for verb in rule["verbs"]}
    assert verbs == {"get", "list", "watch", "create", "delete"}


def test_neither_scheduler_gives_rights_on_the_other_ones_kinds() -> None:
    groups = {scheduler: {group for group, _ in granted(scheduler)} for scheduler in Scheduler}
    assert "scheduling.run.ai" not in groups[Scheduler.KUEUE]
    assert "kueue.x-k8s.io" not in groups[Scheduler.KAI]


def test_with_kueue_a_ray_cluster_is_changed_for_its_claims_alone() -> None:
    rights = {key: verbs for key, verbs in granted(Scheduler.KUEUE).items() if key[0] == "ray.io"}
    assert rights == {("ray.io", "rayclusters"): {"get", "patch"}}


def test_queues_are_never_written() -> None:
    assert granted(Scheduler.KAI)["scheduling.run.ai", "queues"] == {"list", "watch"}
