"""Reads a team's `kueue:` section."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from muster.config import bounds
from muster.config.kueue.groups import parse_groups
from muster.model.kueue import (
    AdmissionMode,
    BorrowPreemption,
    BorrowWithinCohort,
    CheckUse,
    ConcurrentAdmission,
    Expression,
    Fungibility,
    LocalQueue,
    Migration,
    Preference,
    QueueOptions,
    Search,
    Selector,
    SelectorOperator,
    StopPolicy,
)
from muster.model.queues import Bound
from muster.model.section import Section, describe_value

_UNSAID: Final = -(2**63)


def parse_queue(section: Section) -> QueueOptions:
    """The `kueue:` section of a team."""
    known = QueueOptions()
    if section.is_empty:
        return known
    options = QueueOptions(
        cluster_queue=section.text("clusterQueue"),
        local_queues=section.each("localQueues", _local_queue),
        namespace_selector=_selector(section),
        stop_policy=section.choice("stopPolicy", StopPolicy, known.stop_policy) or known.stop_policy,
        fungibility=_fungibility(section),
        borrow_within_cohort=_borrow(section.section("borrowWithinCohort")),
        admission_mode=_scope(section),
        admission_checks=_checks(section),
        concurrent_admission=_concurrent(section),
        resource_groups=parse_groups(section),
    )
    section.close()
    return options


def _local_queue(section: Section, name: str) -> LocalQueue:
    weight = section.integer("weight", _UNSAID, **bounds.SHARE)
    queue = LocalQueue(
        name=name,
        namespaces=section.words("namespaces") if section.has("namespaces") else None,
        stop_policy=section.choice("stopPolicy", StopPolicy, StopPolicy.NONE) or StopPolicy.NONE,
        weight=None if weight == _UNSAID else weight,
    )
    section.get("namespaces")
    section.close()
    return queue


def _selector(above: Section) -> Selector | None:
    if not above.has("namespaceSelector"):
        return None
    section = above.section("namespaceSelector")
    selector = Selector(
        match_labels=MappingProxyType(section.texts("matchLabels")),
        match_expressions=section.list("matchExpressions", _expression),
    )
    section.close()
    return selector


def _expression(section: Section) -> Expression | None:
    key, operator = section.text("key", required=True), section.choice("operator", SelectorOperator)
    values = section.words("values")
    section.close()
    return None if key is None or operator is None else Expression(key=key, operator=operator, values=values)


def _fungibility(above: Section) -> Fungibility | None:
    if not above.has("flavorFungibility"):
        return None
    section, known = above.section("flavorFungibility"), Fungibility()
    preference = section.choice("preference", Preference) if section.has("preference") else None
    found = Fungibility(
        when_can_borrow=section.choice("whenCanBorrow", Search, known.when_can_borrow)
        or known.when_can_borrow,
        when_can_preempt=section.choice("whenCanPreempt", Search, known.when_can_preempt)
        or known.when_can_preempt,
        preference=preference,
    )
    section.get("preference")
    section.close()
    return found


def _borrow(section: Section) -> BorrowWithinCohort:
    threshold = section.integer("maxPriorityThreshold", _UNSAID, **bounds.ANY)
    found = BorrowWithinCohort(
        policy=section.choice("policy", BorrowPreemption, BorrowPreemption.NEVER) or BorrowPreemption.NEVER,
        max_priority_threshold=None if threshold == _UNSAID else threshold,
    )
    section.close()
    return found


def _scope(above: Section) -> AdmissionMode | None:
    if not above.has("admissionScope"):
        return None
    section = above.section("admissionScope")
    mode = section.choice("admissionMode", AdmissionMode)
    section.close()
    return mode


def _checks(above: Section) -> tuple[CheckUse, ...]:
    """`{budget: [l4]}`, or `{budget: all}` for every flavor."""
    section = above.section("admissionChecks")
    found = []
    for name, value in section.items():
        if value == Bound.ALL:
            found.append(CheckUse(name=name))
        elif isinstance(value, Sequence) and not isinstance(value, str | Mapping) and value:
            found.append(CheckUse(name=name, pools=section.words(name)))
        else:
            section.note(
                name,
                f"is {describe_value(value)}.",
                "write `all`, or the pools that it applies to: [l4, h100].",
            )
    return tuple(found)


def _concurrent(above: Section) -> ConcurrentAdmission | None:
    if not above.has("concurrentAdmissionPolicy"):
        return None
    section = above.section("concurrentAdmissionPolicy")
    mode = section.choice("mode", Migration)
    last = section.text("lastAcceptableFlavorName")
    section.close()
    return None if mode is None else ConcurrentAdmission(mode=mode, last_acceptable_flavor=last)
