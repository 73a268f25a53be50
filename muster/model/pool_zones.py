"""The zones in which the nodes of a GKE pool are made."""

from muster.model.clusters import GkeCluster
from muster.model.machines.clouds import zones_selling
from muster.model.machines.tpus import tpu_zones
from muster.model.pools import Pool


def pool_zones(pool: Pool, cluster: GkeCluster) -> tuple[str, ...]:
    """The pool's own zones; without them those of the cluster, or of its region, that sell the machine.

    Without zones GKE takes any of the region, and the pool fails with "Accelerator type does not exist in
    zone". Empty where neither names zones and the table does not know the machine in the region: then GKE
    chooses. A slice of TPUs has to be in one.
    """
    if pool.zones or cluster.zone:
        return pool.zones or cluster.zones
    selling = zones_selling(pool.machine.name)
    if pool.slice_nodes > 1:
        selling = tpu_zones(pool.machine.name)
    if not cluster.zones:
        return tuple(sorted(zone for zone in selling if zone.rpartition("-")[0] == cluster.region))
    return tuple(zone for zone in cluster.zones if zone in selling) or cluster.zones


def zones_without_machine(pool: Pool, cluster: GkeCluster) -> tuple[str, ...]:
    """Zones of the pool that did not sell its machine when the table was read; () where it does not know."""
    selling = zones_selling(pool.machine.name)
    return tuple(zone for zone in pool_zones(pool, cluster) if selling and zone not in selling)
