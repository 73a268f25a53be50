"""The labels that the nodes of a pool carry, whatever makes them, and those by which its flavor is selected.

Kueue compares a pod's node selector and required node affinity with the labels of flavors alone, so a flavor
has those that public manifests select nodes by. Source: https://github.com/kubernetes-sigs/kueue at v0.19.2,
pkg/scheduler/flavorassigner (flavorSelector), read 2026-11-27.
"""

from collections.abc import Mapping
from typing import Final

from muster.model import gpu_operator, names
from muster.model.clusters import Cluster, EksCluster
from muster.model.clusters.eks import EKS_NODE_GROUP_LABEL, KARPENTER_NODE_POOL_LABEL
from muster.model.clusters.gke import GKE_NODE_POOL_LABEL
from muster.model.machines import zones_selling
from muster.model.pools import Pool
from muster.model.stack import Stack


def zones_without_machine(pool: Pool, cluster: Cluster) -> tuple[str, ...]:
    """Zones of the pool that did not sell its machine when the table was read; () where it does not know."""
    selling = zones_selling(pool.machine.name)
    return tuple(zone for zone in cluster.zones_of(pool) if selling and zone not in selling)


MOST_FLAVOR_LABELS: Final = 8
"""Of one ResourceFlavor (Kueue's definition, spec.nodeLabels)."""


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
    """Keys, and beginnings of keys that end with `/`, of which no node has any but those that are known."""
    return (*stack.cluster.own_labels, *stack.cluster.FOREIGN_LABELS)


def known_labels(stack: Stack) -> dict[str, dict[str, str]]:
    """By pool, the labels of its flavor and others that its cloud and the stack give to its nodes."""
    return {
        pool.name: {**stack.cluster.known_labels(pool), **cloud_labels(pool, stack), **of_flavor}
        for pool, of_flavor in zip(stack.pools, flavor_labels(stack).values(), strict=True)
    }


def class_label(pool: Pool, stack: Stack) -> dict[str, str]:
    """GKE makes a node for a pod that selects the class, and taints it with the same key."""
    return {names.COMPUTE_CLASS_LABEL: pool.name} if stack.cluster.has_compute_classes else {}


def cloud_labels(pool: Pool, stack: Stack) -> dict[str, str]:
    """Those that its cloud gives to its nodes and that people select, the most used first."""
    found = stack.cluster.cloud_labels(pool)
    if not found:
        return {}
    zones = [stack.cluster.zones_of(each) for each in stack.pools]
    if all(len(each) == 1 for each in zones):
        found[names.ZONE_LABEL] = stack.cluster.zones_of(pool)[0]
    return {**found, **pool.labels}


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
