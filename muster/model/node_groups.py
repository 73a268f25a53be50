"""The managed node groups of a pool of EKS: one for each of its zones, each with a name and a size. Where
Karpenter or Auto Mode makes the nodes there are none.

Responsible for the names and the numbers of nodes. Not responsible for the groups (components/clusters/eks).
"""

from typing import Final

from muster.model.clusters import EksCluster
from muster.model.pools import Pool

# Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html, read 2026-11-23
LONGEST_GROUP: Final = 63


def group_name(pool: Pool, zone: str, cluster: EksCluster) -> str:
    """The pool's own name where it has one zone."""
    return pool.name if len(pool.zones or cluster.zones) == 1 else f"{pool.name}-{zone}"


def group_names(pool: Pool, cluster: EksCluster) -> list[str]:
    """The names of all groups of the pool."""
    return [group_name(pool, zone, cluster) for zone in sizes(pool, cluster)]


def sizes(pool: Pool, cluster: EksCluster) -> dict[str, tuple[int, int]]:
    """Zone -> least and most nodes there.

    `minNodes` are spread over the zones. Each zone may hold the whole pool, because any of them may be the
    one that has stock; what all of them hold together is bounded by quota. A pool of fixed size has its nodes
    where they are put, and no group where there are none.
    """
    zones = pool.zones or cluster.zones
    if not zones or not cluster.answers_requests:
        return {}
    whole, rest = divmod(pool.min_nodes, len(zones))
    least = {zone: whole + (index < rest) for index, zone in enumerate(zones)}
    if pool.min_nodes == pool.max_nodes:
        return {zone: (nodes, nodes) for zone, nodes in least.items() if nodes}
    return {zone: (nodes, pool.max_nodes) for zone, nodes in least.items()}
