"""Quotas: guarantees that the hardware can keep, and no team that owns a whole pool.

Checks the registered queues, so that a hand-written ClusterQueue counts as well. The capacity of a pool
comes from the stack's description.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pulumi_policy import EnforcementLevel, Severity

from muster.model import names
from muster.model.quantities import parse_quantity
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
    guaranteed: dict[str, float] = defaultdict(float)
    for item in case.registered.items("ClusterQueue", "Cohort"):
        for flavor, gpus in _gpus(item).items():
            nominal, pool = gpus.get("nominalQuota", 0), pools.get(flavor)
            if pool is not None and not is_unlimited(pool, int(nominal)):
                guaranteed[flavor] += nominal
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
        for flavor, gpus in _gpus(item).items():
            pool, nominal = pools.get(flavor), gpus.get("nominalQuota", 0)
            if pool is not None and nominal > pool.max_gpus * case.settings["maxShare"]:
                has = f"is guaranteed {nominal:g}"
                if is_unlimited(pool, int(nominal)):
                    has = "has a quota without a bound"
                yield Finding(
                    f"{item.label} {has} of the {pool.max_gpus} GPUs "
                    f"of {flavor}; one queue may have {case.settings['maxShare']:.0%}.",
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
        for flavor, gpus in _gpus(item).items():
            if "borrowingLimit" not in gpus and flavor not in without:
                yield Finding(f"{item.label} borrows GPUs of {flavor} without limit.", item.urn)


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


def _gpus(item: Item) -> dict[str, Mapping[str, float]]:
    """The figures of the GPU resource by flavor."""
    groups = item.spec.get("resourceGroups") or []
    flavors = [flavor for group in groups for flavor in group.get("flavors") or []]
    return {flavor["name"]: found for flavor in flavors if (found := _figures(flavor)) is not None}


def _figures(flavor: Mapping[str, Any]) -> dict[str, float] | None:
    """A flavor has GPUs or TPU chips; of the other the queue has 0 there."""
    found: dict[str, float] = {}
    devices = [each for each in flavor.get("resources") or [] if each.get("name") in names.DEVICE_RESOURCES]
    for resource in devices:
        for key, value in resource.items():
            if key != "name":
                found[key] = found.get(key, 0.0) + float(parse_quantity(str(value)))
    return found if devices else None


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
