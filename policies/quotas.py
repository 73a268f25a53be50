"""Quotas: guarantees that the hardware can keep, and no team that owns a whole pool.

Checks the registered queues, so that a hand-written ClusterQueue counts as well. The capacity of a pool
comes from the stack's description.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from pulumi_policy import EnforcementLevel, Severity

from muster.live.kueue_tree import read_groups
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
)
