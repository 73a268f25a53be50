"""A team's `kueue:` section: what of it goes together, and what needs something else of the stack."""

from collections.abc import Iterator
from typing import Final

from muster.model import names
from muster.model.kueue import (
    AdmissionMode,
    BorrowPreemption,
    Fungibility,
    Migration,
    Search,
    Selector,
    SelectorOperator,
)
from muster.model.kueue.tree import Node, TreeBuilder
from muster.model.programs import Program
from muster.model.queues import Department, Queueing, Reclaim, Team
from muster.model.stack import Stack
from muster.model.violations import Violation, at, suggestion
from muster.render.kueue.checks import strategy
from muster.validation.kueue.config_paths import queue_path

MOST_CONCURRENT: Final = 16
# A namespace's own name, which only the API server writes.
_OWN_NAME: Final = "kubernetes.io/metadata.name"
_Chain = tuple[Department, ...]


def queue_rules(stack: Stack) -> list[Violation]:
    """Every rule about a team's fields of a ClusterQueue."""
    builder = TreeBuilder(stack)
    return [violation for chain, team in stack.teams() for violation in _queue(stack, builder, chain, team)]


def _queue(stack: Stack, builder: TreeBuilder, chain: _Chain, team: Team) -> Iterator[Violation]:
    path, said = queue_path(chain, team), team.kueue
    yield from _borrowing(stack, path, team)
    yield from _usage(stack, path, team, builder.owner(team))
    if said.fungibility is not None:
        yield from _fungibility(at(path, "flavorFungibility"), said.fungibility)
    if said.concurrent_admission is not None:
        node = builder.team(chain[-1], team)
        yield from _concurrent(stack, node, team, at(path, "concurrentAdmissionPolicy"))
    if said.namespace_selector is not None:
        yield from _selector(at(path, "namespaceSelector"), said.namespace_selector)


def _borrowing(stack: Stack, path: str, team: Team) -> Iterator[Violation]:
    said = team.kueue.borrow_within_cohort
    place = at(path, "borrowWithinCohort")
    if said.policy is BorrowPreemption.NEVER:
        if said.max_priority_threshold is not None:
            message = "bounds a preemption that `policy: Never` does not allow."
            yield Violation(at(place, "maxPriorityThreshold"), message, "remove it, or write LowerPriority.")
        return
    if stack.is_weighted:
        message = "cannot go with fair sharing, which a `weight` somewhere in the stack switches on."
        yield Violation(at(place, "policy"), message, "remove it, or remove every `weight`.")
    if team.preemption.reclaim is Reclaim.NEVER:
        message = "a team that preempts in order to borrow also reclaims, but `reclaim` is never."
        yield Violation(at(place, "policy"), message, "write `preemption: {reclaim: any}`, or remove it.")
    lowest = min((priority.value for priority in stack.priorities), default=0)
    if said.max_priority_threshold is not None and said.max_priority_threshold < lowest:
        message = (
            f"{said.max_priority_threshold} is below every priority of the stack, so no work is preempted."
        )
        yield Violation(
            at(place, "maxPriorityThreshold"), message, f"write {lowest} or more.", level="warning"
        )


def _usage(stack: Stack, path: str, team: Team, owner: Team) -> Iterator[Violation]:
    """`owner`: the team whose queue it uses."""
    is_usage = owner.kueue.admission_mode is AdmissionMode.USAGE_BASED
    if is_usage and owner == team and stack.kueue.usage_sharing is None and stack.installs(Program.KUEUE):
        message = "needs to know how usage counts."
        fix = "write `muster:kueue: {admissionFairSharing: {usageHalfLifeTime: 168h}}`."
        yield Violation(at(path, "admissionScope"), message, fix)
    for queue in team.kueue.local_queues:
        if queue.weight is not None and not is_usage:
            message = "a LocalQueue's weight counts only where LocalQueues are ordered by usage."
            fix = "write `admissionScope: {admissionMode: UsageBasedAdmissionFairSharing}`, or remove it."
            yield Violation(at(path, "localQueues", queue.name, "weight"), message, fix)


def _fungibility(path: str, said: Fungibility) -> Iterator[Violation]:
    both = {said.when_can_borrow, said.when_can_preempt} == {Search.TRY_NEXT}
    if said.preference is not None and not both:
        message = "chooses among flavors, so every flavor has to be tried."
        fix = "write TryNextFlavor for whenCanBorrow and whenCanPreempt, or remove it."
        yield Violation(at(path, "preference"), message, fix)


def _concurrent(stack: Stack, node: Node, team: Team, path: str) -> Iterator[Violation]:
    policy = team.kueue.concurrent_admission
    if policy is None:
        return
    flavors = [flavor.name for flavor in node.flavors]
    checks = strategy(stack, flavors, team.kueue.admission_checks)
    if any(check.name == names.ADMISSION_CHECK for check in checks):
        yield Violation(
            path,
            "cannot go with Muster's check of this queue's pools: Kueue activates the variants that lose "
            "again, which the check takes for a person's wish to try once more.",
            "remove it, or write `muster:gangAdmission: {mode: builtin}`.",
        )
    if len(node.groups) > 1:
        yield Violation(path, "takes one resource group.", "remove `resourceGroups`, or it.")
    if len(flavors) > MOST_CONCURRENT:
        message = f"takes {MOST_CONCURRENT} flavors, and the queue has {len(flavors)}."
        yield Violation(path, message, "give the team fewer pools, or remove it.")
    if team.queueing is Queueing.STRICT:
        yield Violation(path, "cannot go with `queueing: strict`.", "write `queueing: best-effort`.")
    last = policy.last_acceptable_flavor
    if last is None:
        return
    place, pools = at(path, "lastAcceptableFlavorName"), [pool.name for pool in stack.pools]
    if policy.mode is not Migration.TRY_PREFERRED:
        yield Violation(
            place, f"belongs to mode {Migration.TRY_PREFERRED}.", "remove it, or change the mode."
        )
    named = stack.pool(last)
    if (named.flavor if named else last) not in flavors:
        fix = suggestion(last, [pool for pool in pools if pool in flavors], noun="quota of a pool")
        yield Violation(place, f"{last!r} is no pool of this queue.", fix)


def _selector(path: str, selector: Selector) -> Iterator[Violation]:
    for index, each in enumerate(selector.match_expressions):
        wants = each.operator in (SelectorOperator.IN, SelectorOperator.NOT_IN)
        if wants is not bool(each.values):
            message = f"{each.operator} {'needs' if wants else 'takes no'} values."
            yield Violation(at(path, "matchExpressions", index), message, "correct `values`.")
    keys = {*selector.match_labels, *(each.key for each in selector.match_expressions)}
    if keys - {_OWN_NAME} or not keys:
        message = "any user who may label a namespace can put it into this queue."
        yield Violation(path, message, f"select by {_OWN_NAME}, which users cannot change.", level="warning")
