"""The labels that the nodes of a pool carry, whatever makes them, and those by which its flavor is selected.

Kueue compares a pod's node selector and required node affinity with the labels of flavors alone, so a flavor
has those that public manifests select nodes by. Source: https://github.com/kubernetes-sigs/kueue at v0.19.2,
pkg/scheduler/flavorassigner (flavorSelector), read 2026-11-27.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from muster.model import gpu_operator, names
from muster.model.capacity import Capacity
from muster.model.clusters import EksCluster, GkeCluster
from muster.model.machines import tpu_zones, zones_selling
from muster.model.nodes import Sharing
from muster.model.pools import Pool
from muster.model.stack import Stack

# The zones in which the nodes of a GKE pool are made.


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


# The managed node groups of a pool of EKS: one for each of its zones, each with a name and a size. Where
# Karpenter or Auto Mode makes the nodes there are none.

# Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html, read 2026-11-23
LONGEST_GROUP: Final = 63


def group_name(pool: Pool, zone: str, cluster: EksCluster) -> str:
    """The pool's own name where it has one zone."""
    return pool.name if len(pool.zones or cluster.zones) == 1 else f"{pool.name}-{zone}"


def group_names(pool: Pool, cluster: EksCluster) -> list[str]:
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


MOST_FLAVOR_LABELS: Final = 8
"""Of one ResourceFlavor (Kueue's definition, spec.nodeLabels)."""

INSTANCE_TYPE_LABEL: Final = "node.kubernetes.io/instance-type"
GKE_ACCELERATOR_LABEL: Final = "cloud.google.com/gke-accelerator"
GKE_NODE_POOL_LABEL: Final = "cloud.google.com/gke-nodepool"
# https://cloud.google.com/kubernetes-engine/docs/concepts/spot-vms
GKE_SPOT_LABEL: Final = "cloud.google.com/gke-spot"
KARPENTER_NODE_POOL_LABEL: Final = "karpenter.sh/nodepool"
EKS_NODE_GROUP_LABEL: Final = "eks.amazonaws.com/nodegroup"
KARPENTER_CAPACITY_LABEL: Final = "karpenter.sh/capacity-type"
KARPENTER_CAPACITY: Final[Mapping[Capacity, str]] = MappingProxyType(
    {
        Capacity.ON_DEMAND: "on-demand",
        Capacity.SPOT: "spot",
        Capacity.RESERVATION: "reserved",
        Capacity.CAPACITY_BLOCK: "reserved",
    }
)
# What a cloud's own labels begin with. No node of another cloud has one, unless the stack writes it.
_GOOGLES: Final = "cloud.google.com/"
_AMAZONS: Final = ("karpenter.sh/", "karpenter.k8s.aws/", "eks.amazonaws.com/", "k8s.amazonaws.com/")
# Of GKE's, those that every pool is known to have or not to have.
_OF_GKE: Final = (
    GKE_ACCELERATOR_LABEL,
    GKE_NODE_POOL_LABEL,
    GKE_SPOT_LABEL,
    names.TPU_ACCELERATOR_LABEL,
    names.TPU_TOPOLOGY_LABEL,
)


def node_labels(pool: Pool, cluster: EksCluster) -> dict[str, str]:
    """Those that Muster gives to the nodes of an EKS pool. The last one is how cluster-autoscaler knows a
    node whose GPUs are not advertised yet: it waits there for nvidia.com/gpu (cluster-autoscaler,
    cloudprovider/aws, GPULabel), so nodes of other accelerators have none.
    """
    found = {**pool.labels, names.POOL_LABEL: pool.name, **gpu_operator.node_labels(pool, cluster)}
    gpu = pool.accelerator if pool.is_nvidia else None
    return found | ({names.EKS_GPU_LABEL: gpu.name} if gpu else {})


def flavor_labels(stack: Stack) -> dict[str, dict[str, str]]:
    """By pool, the labels of its flavor: what the stack writes, and what its cloud gives to its nodes.

    Kueue takes a flavor without a label for one whose nodes do not have it, so a label of the cloud's is on
    the flavors of all pools that have it, or of none. It is on none where one has no room for it, or has a
    topology: Kueue forbids to change the labels of such a flavor, so the stack names them from the start.
    """
    found = {pool.name: _selecting_labels(pool, stack) for pool in stack.pools}
    clouds = {pool.name: cloud_labels(pool, stack) for pool in stack.pools if not pool.kueue.exact}
    ordered = sorted(clouds.values(), key=len, reverse=True)  # A CPU pool lacks the first of the others.
    for key in dict.fromkeys(key for labels in ordered for key in labels):
        wanted = {name: labels[key] for name, labels in clouds.items() if key in labels}
        if all(_may_get(key, value, found[name], stack.pool(name)) for name, value in wanted.items()):
            for name, value in wanted.items():
                found[name].setdefault(key, value)
    return found


def compared_labels(stack: Stack) -> tuple[str, ...]:
    """Keys, and beginnings of keys that end with `/`, of which no node has any but those of its flavor."""
    cluster = stack.cluster
    if isinstance(cluster, EksCluster):
        return (_GOOGLES,)
    if not isinstance(cluster, GkeCluster):
        return ()
    if not cluster.answers_requests:
        return _AMAZONS
    labels = flavor_labels(stack).values()
    dropped = {
        key
        for pool, listed in zip(stack.pools, labels, strict=True)
        for key in cloud_labels(pool, stack)
        if key not in listed
    }
    return (*(key for key in _OF_GKE if key not in dropped), *_AMAZONS)


def zones_of(pool: Pool, stack: Stack) -> tuple[str, ...]:
    """The zones of its nodes; empty where the cloud chooses them, or nothing is known of its nodes."""
    match stack.cluster:
        case GkeCluster() as cluster:
            return pool_zones(pool, cluster)
        case EksCluster() as cluster:
            return pool.zones or cluster.zones
        case _:
            return pool.zones


def class_label(pool: Pool, stack: Stack) -> dict[str, str]:
    """GKE makes a node for a pod that selects the class, and taints it with the same key."""
    cluster = stack.cluster
    has_classes = isinstance(cluster, GkeCluster) and not cluster.answers_requests
    return {names.COMPUTE_CLASS_LABEL: pool.name} if has_classes else {}


def cloud_labels(pool: Pool, stack: Stack) -> dict[str, str]:
    """Those that its cloud gives to its nodes and that people select, the most used first. None where GKE
    makes nodes for a ComputeClass: pods that select one are to have no other selector of hardware.
    Source: https://github.com/google/skills, skills/cloud/gke-compute-classes, read 2026-11-27.
    """
    match stack.cluster:
        case GkeCluster() as cluster if cluster.answers_requests:
            gpu = {GKE_ACCELERATOR_LABEL: str(pool.machine.accelerator)} if _has_whole_gpus(pool) else {}
            found = {**gpu, INSTANCE_TYPE_LABEL: pool.machine.name, GKE_NODE_POOL_LABEL: pool.name}
            if pool.capacity is Capacity.SPOT:
                found[GKE_SPOT_LABEL] = "true"
        case EksCluster() as cluster:
            found = {INSTANCE_TYPE_LABEL: pool.machine.name}
            if pool.accelerator is not None and _has_whole_gpus(pool):
                found[names.EKS_GPU_LABEL] = pool.accelerator.name
            if not cluster.answers_requests:
                found[KARPENTER_NODE_POOL_LABEL] = pool.name
                if not pool.fallback and pool.capacity in KARPENTER_CAPACITY:
                    found[KARPENTER_CAPACITY_LABEL] = KARPENTER_CAPACITY[pool.capacity]
        case _:
            return {}
    zones = [zones_of(each, stack) for each in stack.pools]
    if all(len(each) == 1 for each in zones):
        found[names.ZONE_LABEL] = zones_of(pool, stack)[0]
    return {**found, **pool.labels}


def _has_whole_gpus(pool: Pool) -> bool:
    """A pod that names a GPU and no slice means a whole one; a pool of slices is selected by its name."""
    return pool.is_nvidia and pool.sharing.kind is not Sharing.MIG


def _selecting_labels(pool: Pool, stack: Stack) -> dict[str, str]:
    said: Mapping[str, str] = pool.kueue.node_labels
    if pool.kueue.exact:
        return dict(said)
    return {
        names.POOL_LABEL: pool.name,
        **pool.device_labels,
        **pool.machine.labels,
        **class_label(pool, stack),
        **said,
    }


def _may_get(key: str, value: str, labels: Mapping[str, str], pool: Pool | None) -> bool:
    if key in labels:
        return labels[key] == value
    return len(labels) < MOST_FLAVOR_LABELS and pool is not None and pool.kueue.topology is None


def repairer(labels: Mapping[str, str]) -> str:
    """Who repairs a broken node, by what made it.

    Source: https://cloud.google.com/kubernetes-engine/docs/how-to/node-auto-repair, read 2026-11-29
    """
    if KARPENTER_NODE_POOL_LABEL in labels:
        return "Karpenter repairs it where its node repair is on"
    if EKS_NODE_GROUP_LABEL in labels:
        return "EKS's node auto repair replaces it"
    if GKE_NODE_POOL_LABEL in labels:
        return "delete it: GKE's auto-repair looks at Ready and at disks alone"
    return "its cloud or NVSentinel has to repair it"
