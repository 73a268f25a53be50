"""The resource groups of a ClusterQueue or Cohort: one for all its pools, and explicit ones. Explicit groups
that cover what pools have replace the pools' own.

cpu, memory and nvidia.com/gpu of every pool are in one group: Kueue gives a pod one flavor for each group,
and a GPU pod needs its CPU from the node that has its GPU. CPU pools come first with a GPU quota of 0, so
that a pod without a GPU is assigned to a CPU pool first. The resources of other accelerators (TPUs, AMD,
Neuron) join them where a pool has some, and so do other resources of the nodes (`resources` of a pool).
"""

from collections.abc import Iterable, Mapping
from typing import Final

from muster.model import names
from muster.model.kueue import POOL_RESOURCES, FlavorQuota, Group, replaces_pools
from muster.model.pools import Pool
from muster.model.quantities import format_count, format_cpu, format_memory
from muster.model.queues import Allowance, Amount
from muster.model.quotas import NOTHING, Resources, Unnamed, borrowing, lending, quota
from muster.render.manifest import Manifest

COVERED: Final = POOL_RESOURCES
_MOST_DEVICES: Final = 10**6


def resource_groups(
    pools: Iterable[Pool],
    rest: Unnamed,
    allowance: Allowance,
    *,
    weight: int | None,
    can_share: bool,
    others: Iterable[Group] = (),
) -> list[Manifest]:
    """`weight` is a team's, None for a department. Limits are left out where there is no cohort to share in.

    A pool with neither quota nor borrowing is left out: Kueue then names it when it rejects a job that
    requests it.
    """
    pools, others = list(pools), tuple(others)
    covered = list(
        dict.fromkeys([*COVERED, *_devices(pools), *_of_nodes(pools), *other_resources(allowance)])
    )
    flavors = []
    for pool in () if replaces_pools(others) else pools:
        own = quota(rest, allowance, pool, weight=weight)
        limits = _limits(pool, allowance, is_team=weight is not None) if can_share else {}
        if own is not None or (can_share and _is_named(pool, allowance, limits, is_team=weight is not None)):
            flavors.append(_flavor(pool, {"nominalQuota": own or NOTHING, **limits}, covered))
    first = [{"coveredResources": covered, "flavors": flavors}] if flavors else []
    return [*first, *(_group(group) for group in others)]


def with_uncounted_devices(groups: list[Manifest]) -> list[Manifest]:
    """The groups of a queue of which work may claim devices without quota. Kueue counts each device that is
    claimed, and its excludeResourcePrefixes do not apply to claims (pkg/workload/workload.go of 0.19.2), so
    every flavor of the first group has more of them than nodes have.
    """
    if not groups:
        return groups
    device = {"name": names.UNCOUNTED_DEVICES, "nominalQuota": format_count(_MOST_DEVICES)}
    flavors = [{**each, "resources": [*each["resources"], device]} for each in groups[0]["flavors"]]
    covered = [*groups[0]["coveredResources"], names.UNCOUNTED_DEVICES]
    return [{"coveredResources": covered, "flavors": flavors}, *groups[1:]]


def _devices(pools: Iterable[Pool]) -> list[str]:
    return [pool.device for pool in pools if pool.is_gpu]


def _of_nodes(pools: Iterable[Pool]) -> list[str]:
    """All queues count what any pool has: one that did not would borrow none of it."""
    return sorted({name for pool in pools for name in pool.resources})


def other_resources(allowance: Allowance) -> list[str]:
    """Resources beside CPU, memory and GPUs that a team or department names, in their order in the group."""
    shares = [*allowance.quota.values(), *allowance.borrow.pools.values(), *allowance.lend.pools.values()]
    return sorted({name for share in shares if isinstance(share, Amount) for name in share.others})


def _is_named(pool: Pool, allowance: Allowance, limits: Mapping[str, Resources], *, is_team: bool) -> bool:
    """Without a quota a team needs a flavor to borrow through; a department only to limit what passes."""
    if is_team:
        return limits.get("borrowingLimit") != NOTHING
    return allowance.borrow.of(pool.name) is not None or allowance.lend.of(pool.name) is not None


def _limits(pool: Pool, allowance: Allowance, *, is_team: bool) -> dict[str, Resources]:
    taken, given = borrowing(pool, allowance, is_team=is_team), lending(pool, allowance)
    found = {"borrowingLimit": taken, "lendingLimit": given}
    return {key: value for key, value in found.items() if value is not None}


def _flavor(pool: Pool, columns: Mapping[str, Resources], covered: Iterable[str]) -> Manifest:
    quantities = {key: amounts(value, device=pool.device) for key, value in columns.items()}
    resources = [
        {"name": name, **{key: value.get(name, "0") for key, value in quantities.items()}} for name in covered
    ]
    return {"name": pool.flavor, "resources": resources}


def amounts(resources: Resources, *, device: str) -> dict[str, str]:
    """Kubernetes quantities by resource name, in canonical form. `device`: what its GPUs are counted as."""
    return {
        "cpu": format_cpu(resources.cpu),
        "memory": format_memory(resources.memory),
        device: format_count(resources.gpus),
        **{name: str(amount) for name, amount in resources.others},
    }


def _group(group: Group) -> Manifest:
    return {
        "coveredResources": list(group.covered_resources),
        "flavors": [_flavor_quotas(flavor, group.covered_resources) for flavor in group.flavors],
    }


def _flavor_quotas(flavor: FlavorQuota, covered: Iterable[str]) -> Manifest:
    """Kueue wants the resources in the order in which the group covers them."""
    order = list(covered)
    known = [each for each in flavor.resources if each.name in order]
    resources = []
    for each in sorted(known, key=lambda quota: order.index(quota.name)):
        columns = {
            "nominalQuota": each.nominal,
            "borrowingLimit": each.borrowing,
            "lendingLimit": each.lending,
        }
        written = {key: str(value) for key, value in columns.items() if value is not None}
        resources.append({"name": each.name, **written})
    return {"name": flavor.name, "resources": resources}
