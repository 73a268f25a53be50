"""The one resource group of a ClusterQueue or Cohort: cpu, memory and nvidia.com/gpu of every pool it may
use.

Decides that all three resources stay in one group: Kueue gives a pod one flavor per group, and a GPU pod
needs its CPU from the node that has its GPU. CPU pools come first with a GPU quota of 0, so a pod without a
GPU is offered CPU pools before all others.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from model import names
from model.pools import Pool
from model.quantities import format_count, format_cpu, format_memory
from model.queues import Allowance
from model.quotas import NOTHING, Resources, Unnamed, borrowing, lending, quota
from model.render.manifest import Manifest

COVERED: Final = ("cpu", "memory", names.GPU_RESOURCE)


def resource_groups(
    pools: Iterable[Pool], rest: Unnamed, allowance: Allowance, *, weight: int | None, can_share: bool
) -> list[Manifest]:
    """`weight` is a team's, None for a department. Limits are left out where there is nobody to share with.

    A pool of which there is neither quota nor borrowing is left out: a job that asks for it is told so by
    name.
    """
    flavors = []
    for pool in pools:
        own = quota(rest, allowance, pool, weight=weight)
        limits = _limits(pool, allowance, is_team=weight is not None) if can_share else {}
        if own is not None or _is_named(pool, allowance, limits, is_team=weight is not None):
            flavors.append(_flavor(pool, {"nominalQuota": own or NOTHING, **limits}))
    return [{"coveredResources": list(COVERED), "flavors": flavors}] if flavors else []


def _is_named(pool: Pool, allowance: Allowance, limits: Mapping[str, Resources], *, is_team: bool) -> bool:
    """Without a quota a team needs a flavor to borrow through; a department only to limit what passes."""
    if is_team:
        return limits.get("borrowingLimit") != NOTHING
    return allowance.borrow.of(pool.name) is not None or allowance.lend.of(pool.name) is not None


def _limits(pool: Pool, allowance: Allowance, *, is_team: bool) -> dict[str, Resources]:
    taken, given = borrowing(pool, allowance, is_team=is_team), lending(pool, allowance)
    found = {"borrowingLimit": taken, "lendingLimit": given}
    return {key: value for key, value in found.items() if value is not None}


def _flavor(pool: Pool, columns: Mapping[str, Resources]) -> Manifest:
    quantities = {key: amounts(value) for key, value in columns.items()}
    resources = [
        {"name": name, **{key: value[name] for key, value in quantities.items()}} for name in COVERED
    ]
    return {"name": pool.name, "resources": resources}


def amounts(resources: Resources) -> dict[str, str]:
    """Kubernetes quantities by resource name, in canonical form."""
    return {
        "cpu": format_cpu(resources.cpu),
        "memory": format_memory(resources.memory),
        names.GPU_RESOURCE: format_count(resources.gpus),
    }
