"""TPUs: the topologies of a machine, and pools that are one slice.

A slice of several nodes is one node pool, which GKE makes, repairs and deletes as a whole:
https://cloud.google.com/kubernetes-engine/docs/concepts/tpus
"""

from collections.abc import Iterator

from muster.model.capacity import Capacity
from muster.model.clusters import Cluster, ExistingCluster, GkeCluster
from muster.model.machines import MACHINES
from muster.model.pool_zones import pool_zones
from muster.model.pools import Pool
from muster.model.violations import Violation, suggestion


def tpu_rules(pool: Pool, cluster: Cluster, path: str) -> Iterator[Violation]:
    """Every rule about TPUs of one pool."""
    known = pool.machine.topologies
    if not known:
        if pool.topology is not None:
            message = f"machine {pool.machine.name} has no TPUs, whose slices have a topology."
            yield Violation(f"{path}.topology", message, "remove it, or choose a machine with TPUs.")
        return
    if pool.topology not in known:
        yield _unknown(pool, path)
    elif pool.slice_nodes > 1:
        yield from _slice(pool, cluster, path)


def _unknown(pool: Pool, path: str) -> Violation:
    others = [
        name
        for name, each in MACHINES.items()
        if each.accelerator == pool.machine.accelerator and pool.topology in each.topologies
    ]
    fix = f"choose the machine {' or '.join(others)}, or " if others else ""
    fix += suggestion(pool.topology or "", pool.machine.topologies, noun="topology")
    message = f"machine {pool.machine.name} comes in no slice of {pool.topology}."
    return Violation(f"{path}.topology", message, fix)


def _slice(pool: Pool, cluster: Cluster, path: str) -> Iterator[Violation]:
    nodes = pool.slice_nodes
    if pool.max_nodes != nodes:
        message = f"a slice of {pool.topology} is {nodes} nodes of {pool.machine.name}: the whole pool."
        fix = f"write {nodes}; more slices are more pools."
        yield Violation(f"{path}.maxNodes", message, fix)
    if pool.min_nodes not in (0, nodes) and pool.capacity is not Capacity.QUEUED:
        message = f"all {nodes} nodes of a slice come and go at once."
        yield Violation(f"{path}.minNodes", message, f"write {nodes} to keep the slice, or remove minNodes.")
    if isinstance(cluster, ExistingCluster):
        return
    zones = pool_zones(pool, cluster) if isinstance(cluster, GkeCluster) else pool.zones or cluster.zones
    if len(zones) != 1:
        message = "all nodes of a slice are in one zone."
        one_of = f", one of {', '.join(zones)}" if zones else ""
        yield Violation(f"{path}.zones", message, f"write the one zone: zones: [...]{one_of}.")
    elif not pool.zones and len(cluster.zones) != 1:
        message = f"the slice is made in {zones[0]}, where Google sells {pool.machine.name}."
        fix = f"write that zone, or another, so that no later table moves the slice: zones: [{zones[0]}]."
        yield Violation(f"{path}.zones", message, fix, "warning")
