"""TPUs: the topologies of a machine, and pools that are one slice.

A slice of several nodes is one node pool, which GKE makes, repairs and deletes as a whole:
https://cloud.google.com/kubernetes-engine/docs/concepts/tpus
"""

from collections.abc import Iterator
from typing import Final

from muster.model.capacity import Capacity
from muster.model.clusters import Cluster, ExistingCluster, GkeCluster
from muster.model.machines import MACHINES
from muster.model.machines.machine import FURTHER_NETWORKS
from muster.model.node_labels import pool_zones
from muster.model.pools import Pool
from muster.model.stack import Stack
from muster.model.tenancy import Namespaces
from muster.model.violations import Violation, suggestion

# GPUDirect on GKE: a pool's `networks` are refused where no job could use them.
# Muster attaches networks that exist and sets up nothing else of GPUDirect: half of it would cost the pool
# its plain form and speed nothing up. docs/fast-networks.md says what the rest is.

_REMOVE: Final = "remove `networks`: jobs of several nodes then talk over the first network card"


def gpudirect_rules(stack: Stack) -> Iterator[Violation]:
    if not isinstance(stack.cluster, GkeCluster):
        return
    for pool in stack.pools:
        if pool.networks and pool.machine.fabric is not None:
            yield from _of_pool(stack, pool, f"muster:pools.{pool.name}.networks")


def _of_pool(stack: Stack, pool: Pool, path: str) -> Iterator[Violation]:
    """The pods of GPUDirect mount folders of their node and add capabilities, both of which the Pod Security
    Standards of teams' namespaces forbid:
    https://github.com/GoogleCloudPlatform/container-engine-accelerators/tree/master/gpudirect-tcpxo
    https://kubernetes.io/docs/concepts/security/pod-security-standards/
    """
    fabric = pool.machine.fabric
    if fabric is None:
        return
    wanted, given = FURTHER_NETWORKS[fabric], len(pool.networks)
    if given != wanted:
        message = f"{fabric} of {pool.machine.name} takes {wanted} further networks, and {given} are named."
        yield Violation(path, message, f"name {wanted}, in the order of the cards, or {_REMOVE}.")
    if stack.tenancy.namespaces is not Namespaces.EXISTING:
        level = stack.tenancy.pod_security
        message = (
            f"no pod of a team can use {fabric}: it mounts folders of its node, which the Pod Security "
            f"Standard {level} of teams' namespaces forbids."
        )
        fix = f"{_REMOVE}; or bring namespaces of your own, `muster:tenancy: {{namespaces: existing}}`."
        yield Violation(path, message, fix)


def tpu_rules(pool: Pool, cluster: Cluster, path: str) -> Iterator[Violation]:
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
