"""Sharing: limits of children compared with their parents, teams without a Cohort, and written groups."""

from collections.abc import Iterable, Iterator, Mapping

from muster.model.kueue import POOL_RESOURCES, FlavorQuota, Group, replaces_pools
from muster.model.kueue.queue_groups import other_resources
from muster.model.kueue.tree import in_pool_unit, to_tree
from muster.model.pools import Pool
from muster.model.quantities import Millicores, format_cpu
from muster.model.queues import Allowance, Amount, Department, Limit, Team
from muster.model.quotas import NOTHING, Resources, borrowing, resources
from muster.model.stack import Stack
from muster.model.violations import Violation, at, suggestion
from muster.validation.kueue.object_names import cohort_path, queue_path
from muster.validation.paths import department_path, team_path

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
