"""A team's `kueue:` section: what of it goes together, and what needs something else of the stack."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from muster.model import names
from muster.model.kueue import (
    UNCOUNTED,
    AdmissionMode,
    BorrowPreemption,
    CohortOptions,
    Fungibility,
    Group,
    KueueOptions,
    Migration,
    PoolOptions,
    QueueOptions,
    Search,
    Selector,
    SelectorOperator,
)
from muster.model.kueue.queue_groups import other_resources
from muster.model.kueue.tree import Node, TreeBuilder
from muster.model.programs import Program
from muster.model.queues import Allowance, Amount, Department, Queueing, Reclaim, Team
from muster.model.stack import Stack
from muster.model.violations import Violation, at, suggestion
from muster.render.kueue.cluster import strategy
from muster.validation.kueue.flavors import QUALIFIED_NAME
from muster.validation.kueue.object_names import cohort_path, queue_path
from muster.validation.paths import department_path, explicit_keys, team_path

# The fields of a stack that only Kueue supports, with their config paths.
#     fields_of(stack)  -> config path -> field name, in the order of the file's sections
# A stack uses a field when it has another value than its default. Under another scheduler each of them is a
# violation, so that none is ignored silently.

Options = PoolOptions | CohortOptions | QueueOptions | KueueOptions


def fields_of(stack: Stack) -> dict[str, str]:
    """Config path of every used field -> the field's name."""
    found: dict[str, str] = {}
    for pool in stack.pools:
        found |= _used(at("muster:pools", pool.name, "kueue"), pool.kueue)
        if pool.resources:
            found[at("muster:pools", pool.name, "resources")] = "resources"
        if pool.machine.labels:
            found[at("muster:pools", pool.name, "node", "labels")] = "labels"
    for above, department in stack.walk():
        chain = (*above, department)
        found |= _amounts(department_path(chain), department.allowance)
        found |= _used(at(department_path(chain), "kueue"), department.kueue)
        for team in department.teams:
            found |= _amounts(team_path(chain, team), team.allowance)
            found |= _used(at(team_path(chain, team), "kueue"), team.kueue)
    return found | _used("muster:kueue", stack.kueue)


def _amounts(place: str, allowance: Allowance) -> dict[str, str]:
    """Resources other than CPU, memory and GPUs."""
    shares = {"quota": allowance.quota, "borrow": allowance.borrow.pools, "lend": allowance.lend.pools}
    return {
        at(place, key, pool, "resources"): "resources"
        for key, pools in shares.items()
        for pool, share in pools.items()
        if isinstance(share, Amount) and share.others
    }


def _used(place: str, options: Options) -> dict[str, str]:
    return {at(place, key): key for key in explicit_keys(options, type(options)())}


# The device classes that Kueue maps to a quota (`muster:kueue.deviceClasses`).
# The figures are those of Kueue's own check of its configuration, without which it does not start.
# Source: https://github.com/kubernetes-sigs/kueue/tree/v0.19.2/pkg/config/validation.go, read 2026-11-27.

_PATH: Final = "muster:kueue.deviceClasses"
_MOST_RESOURCES: Final = 16
_MOST_CLASSES: Final = 8


def claim_rules(stack: Stack) -> list[Violation]:
    return [*_claims_counts(stack), *_names(stack)]


def _claims_counts(stack: Stack) -> Iterator[Violation]:
    classes = Counter(stack.kueue.device_classes.values())
    if len(classes) > _MOST_RESOURCES:
        message = f"has {len(classes)} resources; Kueue takes {_MOST_RESOURCES}."
        yield Violation(_PATH, message, "count several classes as one resource.")
    for resource, count in classes.items():
        if count > _MOST_CLASSES:
            message = f"maps {count} classes to {resource}; Kueue takes {_MOST_CLASSES}."
            yield Violation(_PATH, message, "remove some of them.")


def _names(stack: Stack) -> Iterator[Violation]:
    counted = _with_quota(stack)
    for name, resource in stack.kueue.device_classes.items():
        path = at(_PATH, name)
        if not QUALIFIED_NAME.match(name):
            message = f"{name!r} is not the name of a DeviceClass."
            yield Violation(path, message, "write one of `kubectl get deviceclass`.")
        if resource != UNCOUNTED and resource not in counted:
            message = f"no team has quota of {resource}, so Kueue would admit no claim of the class."
            fix = suggestion(resource, (UNCOUNTED, *counted), noun="resource with quota")
            yield Violation(path, message, fix)


def _with_quota(stack: Stack) -> list[str]:
    """The devices of pools, and whatever a team names besides CPU and memory."""
    found = [pool.device for pool in stack.pools if pool.is_gpu]
    for _, team in stack.owners():
        found += other_resources(team.allowance)
        found += [name for group in team.kueue.resource_groups for name in group.covered_resources]
    return sorted({*found} - {"cpu", "memory", names.UNCOUNTED_DEVICES})


# How many of everything Kueue takes: judged on what is rendered, so that nothing is counted twice.
# The figures are the CRDs' `maxItems` and those of pkg/webhooks/clusterqueue_webhook.go.

MOST_GROUPS: Final = 16
MOST_FLAVORS: Final = 64
MOST_RESOURCES: Final = 64
MOST_PAIRS: Final = 512
MOST_IN_ALL: Final = 256
_FEWER: Final = "use fewer, or split the team."


def count_rules(stack: Stack) -> list[Violation]:
    """Every limit of counts of Cohorts and ClusterQueues."""
    builder, found = TreeBuilder(stack), list[Violation]()
    for above, department in stack.walk():
        cohort = builder.department(above, department)
        found += _counts(cohort_path((*above, department)), cohort.groups if cohort else ())
    is_bounded = len(stack.pools) <= MOST_FLAVORS and not any(pool.resources for pool in stack.pools)
    for chain, team in stack.owners():
        # Any other has the pools' flavors with two or three resources each: nothing to count.
        if not is_bounded or team.kueue.resource_groups or other_resources(team.allowance):
            found += _counts(queue_path(chain, team), builder.team(chain[-1], team).groups)
    return found


def _counts(path: str, groups: Sequence[Group]) -> Iterator[Violation]:
    flavors = [len(group.flavors) for group in groups]
    resources = [len(group.covered_resources) for group in groups]
    pairs = [sum(len(flavor.resources) for flavor in group.flavors) for group in groups]
    for what, count, most in (
        ("resource groups", len(groups), MOST_GROUPS),
        ("flavors in a resource group", max(flavors, default=0), MOST_FLAVORS),
        ("resources in a resource group", max(resources, default=0), MOST_RESOURCES),
        ("pairs of flavor and resource in a resource group", max(pairs, default=0), MOST_PAIRS),
        ("flavors", sum(flavors), MOST_IN_ALL),
        ("covered resources", sum(resources), MOST_IN_ALL),
    ):
        if count > most:
            yield Violation(path, f"has {count} {what}; Kueue takes {most}.", _FEWER)


MOST_CONCURRENT: Final = 16
# A namespace's own name, which only the API server writes.
_OWN_NAME: Final = "kubernetes.io/metadata.name"
_Chain = tuple[Department, ...]


def queue_rules(stack: Stack) -> list[Violation]:
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
