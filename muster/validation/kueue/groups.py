"""Resource groups that are written out: coveredResources against flavors, limits against quota."""

from collections.abc import Iterable, Iterator

from muster.model.kueue import POOL_RESOURCES, FlavorQuota, Group, replaces_pools
from muster.model.queues import Allowance, Amount, Limit
from muster.model.stack import Stack
from muster.model.violations import Violation, at, suggestion
from muster.validation.kueue.object_names import cohort_path, queue_path


def group_rules(stack: Stack) -> list[Violation]:
    """Every rule about `resourceGroups`."""
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
    stack: Stack,
    path: str,
    groups: Iterable[Group],
    allowance: Allowance,
    *,
    can_share: bool,
    is_queue: bool,
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
        counted = (*POOL_RESOURCES, *devices, *others, *_named(allowance))
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


def _named(allowance: Allowance) -> set[str]:
    shares = [*allowance.quota.values(), *allowance.borrow.pools.values(), *allowance.lend.pools.values()]
    return {name for share in shares if isinstance(share, Amount) for name in share.others}


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
