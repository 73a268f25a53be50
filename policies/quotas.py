"""Quotas: guarantees that the hardware can keep, and no team that owns a whole pool.

Checks the registered queues, so that a hand-written ClusterQueue counts as well. The capacity of a pool
comes from the stack's description.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from pulumi_policy import EnforcementLevel, Severity

from muster.live.snapshot.kueue import read_groups
from muster.model import names
from muster.model.kueue import FlavorQuota
from muster.model.quotas import is_unlimited
from muster.policies.registered import Item
from muster.policies.rule import Case, Finding, Rule, Threshold

_DOCS: Final = "https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/"
_SHARE: Final = {"type": "number", "minimum": 0, "maximum": 1}


def sums(case: Case) -> Iterator[Finding]:
    """The GPUs guaranteed of a pool, over all queues, against what the pool can have. A quota without a bound
    is no guarantee.
    """
    if case.stack is None:
        return
    pools = {pool.flavor: pool for pool in case.stack.pools}
    guaranteed: dict[str, int] = defaultdict(int)
    for item in case.registered.items("ClusterQueue", "Cohort"):
        for flavor in _gpus(item):
            pool = pools.get(flavor.name)
            if pool is not None and not is_unlimited(pool, flavor.gpus):
                guaranteed[flavor.name] += flavor.gpus
    for pool in case.stack.pools:
        most = pool.max_gpus * case.settings["overcommit"]
        if pool.is_gpu and guaranteed[pool.flavor] > most:
            had = f"{guaranteed[pool.flavor]:g} GPUs, it has {pool.max_gpus} (allowed {most:g})"
            yield Finding(f"pool {pool.name}: queues are guaranteed {had}.")


def kai_sums(case: Case) -> Iterator[Finding]:
    """The same for KAI's Queues: those without a parent hold what their subtrees may count on."""
    top = [item for item in case.registered.items("Queue") if not item.spec.get("parentQueue")]
    if case.stack is None or not top:
        return
    has = sum(pool.max_gpus for pool in case.stack.pools)
    quotas = [float((item.spec.get("resources") or {}).get("gpu", {}).get("quota", 0)) for item in top]
    guaranteed = sum(quota for quota in quotas if quota > 0)
    most = has * case.settings["overcommit"]
    if guaranteed > most:
        yield Finding(
            f"top-level Queues are guaranteed {guaranteed:g} GPUs, the pools have {has} (allowed {most:g})."
        )


def _both_sums(case: Case) -> Iterator[Finding]:
    yield from sums(case)
    yield from kai_sums(case)


def share(case: Case) -> Iterator[Finding]:
    """How much of a pool one queue is guaranteed."""
    pools = {pool.flavor: pool for pool in case.stack.pools} if case.stack else {}
    for item in case.registered.items("ClusterQueue"):
        for flavor in _gpus(item):
            pool = pools.get(flavor.name)
            if pool is not None and flavor.gpus > pool.max_gpus * case.settings["maxShare"]:
                has = f"is guaranteed {flavor.gpus:g}"
                if is_unlimited(pool, flavor.gpus):
                    has = "has a quota without a bound"
                yield Finding(
                    f"{item.label} {has} of the {pool.max_gpus} GPUs "
                    f"of {flavor.name}; one queue may have {case.settings['maxShare']:.0%}.",
                    item.urn,
                )


def borrowing(case: Case) -> Iterator[Finding]:
    """A queue in a cohort that may borrow GPUs without limit takes all that is idle, and others wait to
    reclaim. A CPU pool has none to lend: Kueue wants every resource of a group for each of its flavors.
    """
    without = {pool.flavor for pool in case.stack.pools if not pool.is_gpu} if case.stack else set()
    for item in case.registered.items("ClusterQueue"):
        if not item.spec.get("cohortName"):
            continue
        for flavor in _gpus(item):
            is_limited = any(
                each.borrowing is not None for each in flavor.resources if each.name in names.DEVICE_RESOURCES
            )
            if not is_limited and flavor.name not in without:
                yield Finding(f"{item.label} borrows GPUs of {flavor.name} without limit.", item.urn)


def concurrency(case: Case) -> Iterator[Finding]:
    """Variants of one Workload and Muster's check, which asks for nodes for each of them."""
    for item in case.registered.items("ClusterQueue"):
        checks = (item.spec.get("admissionChecksStrategy") or {}).get("admissionChecks") or []
        if "concurrentAdmissionPolicy" in item.spec and any(
            check.get("name") == names.ADMISSION_CHECK for check in checks
        ):
            yield Finding(
                f"{item.label} has concurrentAdmissionPolicy beside check {names.ADMISSION_CHECK}, which "
                "would ask for nodes for each variant.",
                item.urn,
            )


def _gpus(item: Item) -> Iterator[FlavorQuota]:
    """The flavors of which the object counts GPUs or TPU chips: a flavor has one of them, and 0 of others."""
    for group in read_groups(item.body):
        for flavor in group.flavors:
            if any(each.name in names.DEVICE_RESOURCES for each in flavor.resources):
                yield flavor


# Priorities: one order for the organisation, below the values that Kubernetes reserves.

_KINDS: Final = ("WorkloadPriorityClass", "PriorityClass")
_PRIORITY_DOCS: Final = "https://kueue.sigs.k8s.io/docs/concepts/workload_priority_class/"


def order(case: Case) -> Iterator[Finding]:
    """Values are distinct, in the order that the organisation set, and below the ceiling."""
    for kind in _KINDS:
        values = {str(item.body["metadata"]["name"]): item for item in case.registered.items(kind)}
        if kind == "PriorityClass":
            for own in (names.OWN_PRIORITY_CLASS, names.PLACEHOLDER_PRIORITY_CLASS):
                values.pop(own, None)  # No work has them.
        by_value: dict[int, list[str]] = defaultdict(list)
        for name, item in values.items():
            value = int(item.body.get("value", 0))
            by_value[value].append(name)
            if value > case.settings["ceiling"]:
                yield Finding(
                    f"{item.label} has the value {value}, above {case.settings['ceiling']}.", item.urn
                )
        for value, same in by_value.items():
            if len(same) > 1:
                yield Finding(
                    f"{kind} {', '.join(sorted(same))} have the same value {value}: neither starts first."
                )
        known = [name for name in case.settings["order"] if name in values]
        for above, below in pairwise(known):
            if int(values[above].body["value"]) <= int(values[below].body["value"]):
                yield Finding(f"{kind} {above} has to be above {below}.", values[above].urn)


def top(case: Case) -> Iterator[Finding]:
    """How many teams may use the highest priority. If all may, it has no meaning."""
    if case.stack is None or not case.stack.priorities:
        return
    highest = case.stack.priorities[0].name
    may = [team.name for _, team in case.stack.teams() if not team.priorities or highest in team.priorities]
    total = sum(1 for _ in case.stack.teams())
    if total > 1 and len(may) > total * case.settings["maxShare"]:
        yield Finding(f"{len(may)} of {total} teams may use the highest priority {highest}.")


RULES: Final = (
    Rule(
        name="quota-sums",
        description="The quotas of a GPU pool sum to no more than the pool can have.",
        why=(
            "A guarantee above what the pool can have holds for no team: work within its quota would wait "
            "for ever."
        ),
        judge=_both_sums,
        severity=Severity.HIGH,
        remediation="lower quotas under muster:departments, or raise the pool's maxNodes.",
        url=_DOCS,
        thresholds={"overcommit": Threshold(1.0, {"type": "number", "minimum": 0.1, "maximum": 10})},
    ),
    Rule(
        name="quota-share",
        description="No single queue is guaranteed more than a share of a GPU pool.",
        why=(
            "Other teams could use the rest of the pool only by borrowing, and would lose it to every "
            "reclaim."
        ),
        judge=share,
        severity=Severity.MEDIUM,
        level=EnforcementLevel.ADVISORY,
        remediation="lower the team's quota and let it borrow, or raise maxShare in the pack's config.",
        url=_DOCS,
        thresholds={"maxShare": Threshold(0.8, _SHARE)},
    ),
    Rule(
        name="quota-limits",
        description="Borrowing of GPUs has a limit.",
        why=(
            "A queue that may borrow without a limit takes all that is idle, and the owners wait until it is"
            " reclaimed."
        ),
        judge=borrowing,
        severity=Severity.MEDIUM,
        level=EnforcementLevel.ADVISORY,
        remediation="write how much the team may borrow of each GPU pool.",
        url="https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/#borrowinglimit",
    ),
    Rule(
        name="quota-variants",
        description="No queue of Muster's check admits a Workload in several flavors at once.",
        why=(
            "Kueue makes one Workload for each variant, and Muster's check would request nodes for each of "
            "them."
        ),
        judge=concurrency,
        severity=Severity.HIGH,
        remediation="remove concurrentAdmissionPolicy, or write muster:gangAdmission: {mode: builtin}.",
        url=_DOCS,
    ),
    Rule(
        name="priority-order",
        description="Priorities have different values, in the organisation's order, below the ceiling.",
        why=(
            "Priorities with the same value do not preempt each other. Values above the ceiling are for "
            "the pods of "
            "the cluster itself."
        ),
        judge=order,
        severity=Severity.HIGH,
        remediation="change the values under muster:priorities.",
        url=_PRIORITY_DOCS,
        thresholds={
            "order": Threshold([], {"type": "array", "items": {"type": "string"}}),
            "ceiling": Threshold(1_000_000, {"type": "integer", "maximum": 1_000_000_000}),
        },
    ),
    Rule(
        name="priority-top",
        description="Not every team may use the highest priority.",
        why="If every team may use the highest priority, it has no meaning.",
        judge=top,
        severity=Severity.LOW,
        level=EnforcementLevel.ADVISORY,
        remediation="list `priorities:` of the teams that need only lower ones.",
        url=_PRIORITY_DOCS,
        thresholds={"maxShare": Threshold(0.5, {"type": "number", "minimum": 0, "maximum": 1})},
    ),
)
