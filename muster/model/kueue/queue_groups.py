"""The resource groups of a ClusterQueue or Cohort: one for all its pools, and explicit ones. Explicit groups
that cover what pools have replace the pools' own.

cpu, memory and nvidia.com/gpu of every pool are in one group: Kueue gives a pod one flavor for each group,
and a GPU pod needs its CPU from the node that has its GPU. CPU pools come first with a GPU quota of 0, so
that a pod without a GPU is assigned to a CPU pool first. The resources of other accelerators (TPUs, AMD,
Neuron) join them where a pool has some, and so do other resources of the nodes (`resources` of a pool).
"""

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Final

from muster.model import names
from muster.model.kueue.queue import POOL_RESOURCES, FlavorQuota, Group, Quota, replaces_pools
from muster.model.pools import Pool
from muster.model.quantities import Quantity
from muster.model.queues import Allowance, Amount
from muster.model.quotas import NOTHING, Resources, Unnamed, borrowing, lending, quota

_NONE: Final = Quantity(Fraction(0))
_MOST_DEVICES: Final = Quantity(Fraction(10**6))


def queue_groups(
    pools: Iterable[Pool],
    rest: Unnamed,
    allowance: Allowance,
    *,
    weight: int | None,
    can_share: bool,
    others: Iterable[Group] = (),
) -> tuple[Group, ...]:
    """`weight` is a team's, None for a department. Limits are left out where there is no cohort to share in.

    A pool with neither quota nor borrowing is left out: Kueue then names it when it rejects a job that
    requests it.
    """
    pools, others = list(pools), tuple(others)
    devices = [pool.device for pool in pools if pool.is_gpu]
    # All queues count what any pool has: one that did not would borrow none of it.
    of_nodes = sorted({name for pool in pools for name in pool.resources})
    covered = tuple(dict.fromkeys([*POOL_RESOURCES, *devices, *of_nodes, *other_resources(allowance)]))
    flavors = []
    for pool in () if replaces_pools(others) else pools:
        own = quota(rest, allowance, pool, weight=weight)
        taken, given = None, None
        if can_share:
            taken, given = borrowing(pool, allowance, is_team=weight is not None), lending(pool, allowance)
        if own is not None or (can_share and _is_named(pool, allowance, taken, is_team=weight is not None)):
            flavors.append(_flavor(pool.flavor, pool.device, covered, own or NOTHING, taken, given))
    first = [Group(covered_resources=covered, flavors=tuple(flavors))] if flavors else []
    return (*first, *(_in_order(group) for group in others))


def with_uncounted_devices(groups: tuple[Group, ...]) -> tuple[Group, ...]:
    """The groups of a queue of which work may claim devices without quota. Kueue counts each device that is
    claimed, and its excludeResourcePrefixes do not apply to claims (pkg/workload/workload.go of 0.19.2), so
    every flavor of the first group has more of them than nodes have.
    """
    if not groups:
        return groups
    first, device = groups[0], Quota(name=names.UNCOUNTED_DEVICES, nominal=_MOST_DEVICES)
    flavors = tuple(replace(each, resources=(*each.resources, device)) for each in first.flavors)
    covered = (*first.covered_resources, names.UNCOUNTED_DEVICES)
    return (Group(covered_resources=covered, flavors=flavors), *groups[1:])


def other_resources(allowance: Allowance) -> list[str]:
    """Resources beside CPU, memory and GPUs that a team or department names, in their order in the group."""
    shares = [*allowance.quota.values(), *allowance.borrow.pools.values(), *allowance.lend.pools.values()]
    return sorted({name for share in shares if isinstance(share, Amount) for name in share.others})


def _is_named(pool: Pool, allowance: Allowance, taken: Resources | None, *, is_team: bool) -> bool:
    """Without a quota a team needs a flavor to borrow through; a department only to limit what passes."""
    if is_team:
        return taken != NOTHING
    return allowance.borrow.of(pool.name) is not None or allowance.lend.of(pool.name) is not None


@lru_cache(maxsize=4096)
def _flavor(
    name: str,
    device: str,
    covered: tuple[str, ...],
    own: Resources,
    taken: Resources | None,
    given: Resources | None,
) -> FlavorQuota:
    """Cached, because a thousand teams have the same few dozen quotas and a Fraction is slow to make."""
    nominal = _amounts(own, device)
    borrow, lend = (None if each is None else _amounts(each, device) for each in (taken, given))
    resources = (
        Quota(
            name=resource,
            nominal=nominal.get(resource, _NONE),
            borrowing=None if borrow is None else borrow.get(resource, _NONE),
            lending=None if lend is None else lend.get(resource, _NONE),
        )
        for resource in covered
    )
    return FlavorQuota(name=name, resources=tuple(resources))


def _amounts(resources: Resources, device: str) -> dict[str, Quantity]:
    return {
        "cpu": Quantity(Fraction(resources.cpu, 1000)),
        "memory": Quantity(Fraction(resources.memory), resources.memory != 0),
        device: Quantity(Fraction(resources.gpus)),
        **dict(resources.others),
    }


def _in_order(group: Group) -> Group:
    """Kueue wants the resources in the order in which the group covers them."""
    order = group.covered_resources
    flavors = tuple(
        replace(
            flavor,
            resources=tuple(
                sorted(
                    (each for each in flavor.resources if each.name in order),
                    key=lambda quota: order.index(quota.name),
                )
            ),
        )
        for flavor in group.flavors
    )
    return replace(group, flavors=flavors)
