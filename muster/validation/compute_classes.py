"""Pools of a GKE cluster whose nodes come from ComputeClasses: what these cannot do, or was not seen to."""

from collections.abc import Iterator
from typing import Final

from muster.model.capacity import Capacity
from muster.model.clusters import GkeCluster, GkeProvisioner, GpuDriver
from muster.model.nodes import Placement
from muster.model.pools import Pool
from muster.model.promises import NOT_PROMISED
from muster.model.sharing import Sharing
from muster.model.stack import Stack
from muster.model.violations import Violation

_POOLS: Final = "remove it, or use `autoscaler: node-pools`."
# Labels of these domains are GKE's own, and it refuses them in `nodePoolConfig`.
_RESERVED: Final = ("kubernetes.io", "k8s.io", "cloud.google.com", "gke.io")


def compute_class_rules(stack: Stack) -> Iterator[Violation]:
    cluster = stack.cluster
    if not isinstance(cluster, GkeCluster) or cluster.autoscaler is not GkeProvisioner.COMPUTE_CLASSES:
        return
    if cluster.gpu_driver is GpuDriver.INSTALLER:
        message = "a ComputeClass installs GKE's default or latest driver, and no other."
        yield Violation("muster:cluster.gpuDriver", message, "write default or latest.")
    asked = {pool.name for pool in stack.placeholder_pools}
    for pool in stack.pools:
        path = f"muster:pools.{pool.name}"
        if pool.is_gpu and pool.name not in asked and pool.capacity is not Capacity.QUEUED:
            fix = "nothing, if that is accepted; otherwise use Kueue without `gangs` and `gangAdmission`."
            yield Violation(path, NOT_PROMISED, fix, level="warning")
        for key, message in _of_pool(pool):
            yield Violation(f"{path}.{key}", message, _POOLS)
        for label in sorted(pool.labels):
            domain = label.partition("/")[0] if "/" in label else ""
            if any(domain == each or domain.endswith(f".{each}") for each in _RESERVED):
                message = f"the label {label} is GKE's own to set."
                yield Violation(f"{path}.labels.{label}", message, "use a prefix of your own.")


def _of_pool(pool: Pool) -> Iterator[tuple[str, str]]:
    if pool.capacity is Capacity.FLEX_START:
        yield "capacity", "Muster writes no flexStart into a ComputeClass."
    if pool.is_tpu:
        yield "machine", "slices of TPUs from a ComputeClass were not proven with gangs."
    if pool.min_nodes:
        yield "minNodes", "GKE makes nodes for pods that wait, and keeps none without pods."
    if pool.networks:
        yield "networks", "a ComputeClass of Muster's attaches no further networks."
    if pool.network_profile is not None:
        yield "networkProfile", "a ComputeClass of Muster's names no network profile."
    if pool.placement is Placement.COMPACT:
        yield "placement", "it takes a placement policy of your own, which Muster does not make."
    if pool.sharing.kind is not Sharing.NONE:
        yield "sharing", "whether GKE counts the shares of a GPU before its node is there has no source."
