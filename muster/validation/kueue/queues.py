"""A team's `kueue:` section: what of it goes together, and what needs something else of the stack.

Sharing: limits of children compared with their parents, teams without a Cohort, and written groups.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from muster.model import names
from muster.model.kueue import (
    POOL_RESOURCES,
    UNCOUNTED,
    AdmissionMode,
    BorrowPreemption,
    CohortOptions,
    FlavorQuota,
    Fungibility,
    Group,
    KueueOptions,
    Migration,
    PoolOptions,
    QueueOptions,
    Search,
    Selector,
    SelectorOperator,
    replaces_pools,
)
from muster.model.kueue.tree import Node, TreeBuilder, in_pool_unit, other_resources, to_tree
from muster.model.names import QUALIFIED_NAME
from muster.model.pools import Pool
from muster.model.programs import Program
from muster.model.quantities import Millicores, format_cpu
from muster.model.queues import Allowance, Amount, Department, Limit, Queueing, Reclaim, Team
from muster.model.quotas import NOTHING, Resources, borrowing, resources
from muster.model.stack import Stack
from muster.model.violations import Violation, at, suggestion
from muster.render.kueue.cluster import strategy
from muster.validation.identities import department_path, explicit_keys, team_path
from muster.validation.kueue.flavors import cohort_path, queue_path

_Chain = tuple[Department, ...]


def sharing_rules(stack: Stack) -> list[Violation]:
    return [*_alone(stack), *_above(stack)]


def _alone(stack: Stack) -> Iterator[Violation]:
    """Kueue refuses a borrowing or lending limit on a ClusterQueue without a cohort."""
    for above, department in stack.walk():
        if department.kueue.exists:
            continue
        chain = (*above, department)
        path = cohort_path(chain, "cohort")
        if above or department.departments:
            message = "only a top-level department without departments can be without a Cohort."
            yield Violation(path, message, "remove it, or move the department.")
        if department.allowance != Allowance():
            message = "a quota or limit of the department needs a Cohort."
            yield Violation(path, message, "remove it, or give the quota to the teams.")
        for team in department.owners:
            said = team.allowance
            for key, limit in (("borrow", said.borrow), ("lend", said.lend)):
                if limit.pools or limit.otherwise is not None:
                    message = f"{team.name} has no cohort to {key} in."
                    fix = "remove it, or remove `cohort: none` of the department."
                    yield Violation(at(team_path(chain, team), key), message, fix)


def _above(stack: Stack) -> Iterator[Violation]:
    """A child cannot borrow more than its parents let through."""
    tree = to_tree(stack)
    brought = {pool.name: tree.sums(pool.name) for pool in stack.pools}
    for above, department in stack.walk():
        chain = (*above, department)
        if not all(each.kueue.exists for each in chain):
            continue
        yield from _child(stack, brought, department_path(chain), above, department)
        for team in department.owners:
            yield from _child(stack, brought, team_path(chain, team), chain, team)


_Brought = Mapping[str, Mapping[str, Resources]]
"""pool -> team or department -> what it and all below it bring."""


def _child(
    stack: Stack, brought: _Brought, path: str, above: _Chain, owner: Department | Team
) -> Iterator[Violation]:
    for name, share in owner.allowance.borrow.pools.items():
        pool = stack.pool(name)
        if pool is None or not isinstance(share, Amount) or not above:
            continue
        most = _passing(brought[name], above, pool, owner.name)
        wanted = in_pool_unit(pool, resources(pool, share))
        if 0 < most < wanted:
            message = (
                f"borrows up to {_format_units(pool, wanted)}, and no more than "
                f"{_format_units(pool, most)} can ever come "
                f"through {above[-1].name}."
            )
            fix = f"write {_format_units(pool, most)}, or let the departments above borrow more."
            yield Violation(at(path, "borrow", name), message, fix, level="warning")


def _passing(brought: Mapping[str, Resources], above: _Chain, pool: Pool, child: str) -> int:
    """The most that a child can get: at each department the quota of the others below it, plus what the
    department itself may borrow. Lending limits are ignored; they only lower the bound.
    """
    bounds = []
    for depth, department in enumerate(above):
        others = in_pool_unit(pool, brought[department.name]) - in_pool_unit(pool, brought[child])
        limit = borrowing(pool, department.allowance, is_team=False) if depth else NOTHING
        if limit is not None:
            bounds.append(others + in_pool_unit(pool, limit))
    return min(bounds)


def _format_units(pool: Pool, count: int) -> str:
    return str(count) if pool.is_gpu else format_cpu(Millicores(count))


# Resource groups that are written out: coveredResources against flavors, limits against quota.


def group_rules(stack: Stack) -> list[Violation]:
    found: list[Violation] = []
    for above, department in stack.walk():
        path = cohort_path((*above, department), "resourceGroups")
        groups, allowance = department.kueue.resource_groups, department.allowance
        found += _groups(stack, path, groups, allowance, can_share=bool(above), is_queue=False)
        if groups and not department.kueue.exists:
            message = "there is no Cohort to hold them."
            found.append(Violation(path, message, "remove `cohort: none`, or move them to the teams."))
    for chain, team in stack.teams():
        path = queue_path(chain, team, "resourceGroups")
        can_share = chain[-1].kueue.exists
        groups = team.kueue.resource_groups
        found += _groups(stack, path, groups, team.allowance, can_share=can_share, is_queue=True)
    return found


def _groups(
    stack: Stack, path: str, groups: Iterable[Group], allowance: Allowance, *, can_share: bool, is_queue: bool
) -> Iterator[Violation]:
    groups = tuple(groups)
    resources: dict[str, str] = {}
    flavors: dict[str, str] = {}
    known = [flavor.name for flavor in stack.kueue.flavors]
    if replaces_pools(groups):
        known += [pool.flavor for pool in stack.pools]
        yield from _counted_twice(path, allowance)
    else:
        devices = [pool.device for pool in stack.pools if pool.is_gpu]
        others = [name for pool in stack.pools for name in pool.resources]
        counted = (*POOL_RESOURCES, *devices, *others, *other_resources(allowance))
        resources = dict.fromkeys(counted, "the pools' own group")
        flavors = {pool.flavor: "the pools' own group" for pool in stack.pools}
    for index, group in enumerate(groups):
        place = at(path, index)
        if not group.covered_resources or not group.flavors:
            message = "a group covers at least one resource and has at least one flavor."
            yield Violation(place, message, "write `coveredResources` and `flavors`, or remove it.")
        yield from _covered(at(place, "coveredResources"), group, resources)
        for number, flavor in enumerate(group.flavors):
            where = at(place, "flavors", number)
            if flavor.name in flavors:
                message = f"flavor {flavor.name!r} is in {flavors[flavor.name]} already; Kueue takes it once."
                yield Violation(
                    at(where, "name"), message, "use a flavor of `muster:kueue.flavors` of its own."
                )
            elif flavor.name not in known:
                fix = suggestion(flavor.name, known, noun="flavor under `muster:kueue`")
                yield Violation(at(where, "name"), f"flavor {flavor.name!r} is unknown.", fix)
            flavors.setdefault(flavor.name, place)
            yield from _flavor(where, group, flavor, can_share=can_share, is_queue=is_queue)


def _counted_twice(path: str, allowance: Allowance) -> Iterator[Violation]:
    """Groups of CPU, memory or GPUs take the place of what `quota`, `borrow` and `lend` render."""
    limits = {"borrow": allowance.borrow, "lend": allowance.lend}
    written = ["quota"] if allowance.quota else []
    written += [key for key, limit in limits.items() if limit != Limit()]
    if written:
        message = f"cover CPU, memory or GPUs, and `{written[0]}` does too: Kueue takes a resource once."
        fix = f"remove `{written[0]}`, or the groups that cover what pools have."
        yield Violation(path, message, fix)


def _covered(path: str, group: Group, resources: dict[str, str]) -> Iterator[Violation]:
    for index, name in enumerate(group.covered_resources):
        if name in resources:
            message = f"{name} is covered by {resources[name]} already; Kueue takes a resource once."
            fix = "remove it; a pool's `quota` takes {resources: ...} for what its nodes have."
            yield Violation(at(path, index), message, fix)
        resources.setdefault(name, path)


def _flavor(
    path: str, group: Group, flavor: FlavorQuota, *, can_share: bool, is_queue: bool
) -> Iterator[Violation]:
    said = [each.name for each in flavor.resources]
    if sorted(said) != sorted(group.covered_resources):
        message = f"has {_listed(said)}, but the group covers {_listed(group.covered_resources)}."
        fix = "write every covered resource once; a quota may be 0."
        yield Violation(at(path, "resources"), message, fix)
    for index, each in enumerate(flavor.resources):
        place = at(path, "resources", index)
        limits = {"borrowingLimit": each.borrowing, "lendingLimit": each.lending}
        for key, limit in limits.items():
            if limit is not None and not can_share:
                message = "there is no cohort above to share in, and Kueue refuses a limit there."
                yield Violation(at(place, key), message, "remove it, or nest what shares in one department.")
        if is_queue and each.lending is not None and each.lending.value > each.nominal.value:
            message = f"lends {each.lending} of a quota of {each.nominal}."
            yield Violation(
                at(place, "lendingLimit"), message, "lend at most the quota, or remove the limit."
            )


def _listed(names_: Iterable[str]) -> str:
    return ", ".join(names_) or "nothing"


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
