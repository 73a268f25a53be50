"""Pools that Karpenter or EKS Auto Mode makes: what neither does, and what Muster renders for neither."""

import re
from collections.abc import Iterator
from typing import Final

from muster.model.capacity import Capacity
from muster.model.clusters import EksCluster, GkeCluster, GkeProvisioner, GpuDriver, NodeProvisioner
from muster.model.nodes import Image, ImagePull, LocalDisks, Placement, Sharing
from muster.model.pools import Pool
from muster.model.stack import Stack
from muster.model.violations import Violation
from muster.model.waiting import NOT_PROMISED

# Pools of a GKE cluster whose nodes come from ComputeClasses: what these cannot do, or was not seen to.

_POOLS: Final = "remove it, or use `autoscaler: node-pools`."
# Labels of these domains are GKE's own, and it refuses them in `nodePoolConfig`.
_COMPUTE_CLASSES_RESERVED: Final = ("kubernetes.io", "k8s.io", "cloud.google.com", "gke.io")


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
            if any(domain == each or domain.endswith(f".{each}") for each in _COMPUTE_CLASSES_RESERVED):
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


_TITLES: Final = {NodeProvisioner.KARPENTER: "Karpenter", NodeProvisioner.AUTO_MODE: "Auto Mode"}
_RELEASE: Final = re.compile(r"v\d{8}\Z")
# Labels of these domains, and of those below them, are not ours to set: sigs.k8s.io/karpenter v1.14.1,
# pkg/apis/v1/labels.go, and the CRD of NodePools. That Auto Mode's own is one too has no source.
_RESERVED: Final = ("karpenter.sh", "karpenter.k8s.aws", "eks.amazonaws.com")
_GROUPS: Final = "remove it, or use `autoscaler: cluster-autoscaler`"


def provisioner_rules(stack: Stack) -> Iterator[Violation]:
    """Every rule about the way in which an EKS cluster gets its nodes."""
    cluster = stack.cluster
    if not isinstance(cluster, EksCluster) or cluster.answers_requests:
        return
    title = _TITLES[cluster.autoscaler]
    asked = {pool.name for pool in stack.placeholder_pools}
    for pool in stack.pools:
        if pool.is_gpu and pool.name not in asked and pool.capacity is not Capacity.QUEUED:
            fix = "nothing, if that is accepted; otherwise leave out `gangs` and `gangAdmission`."
            yield Violation(f"muster:pools.{pool.name}", NOT_PROMISED, fix, level="warning")
    if not _RELEASE.match(cluster.image_release):
        message = f"{cluster.image_release!r} is no release of Amazon Linux 2023 for EKS."
        yield Violation("muster:cluster.imageRelease", message, "write one like v20261023.")
    for pool in stack.pools:
        path = f"muster:pools.{pool.name}"
        for key, message, fix in _of_both(pool, title):
            yield Violation(f"{path}.{key}", message, fix)
        if cluster.is_auto:
            for key, message in _of_auto_mode(pool):
                yield Violation(f"{path}.{key}", message, f"{_GROUPS} or `karpenter`.")


def _of_both(pool: Pool, title: str) -> Iterator[tuple[str, str, str]]:
    if pool.min_nodes:
        message = f"{title} makes nodes for pods that wait, and keeps none without pods."
        yield "minNodes", message, f"{_GROUPS}."
    if pool.image is Image.BOTTLEROCKET:
        message = f"with {title} Muster names no release of Bottlerocket."
        yield "image", message, f"{_GROUPS}."
    if pool.sharing.kind is not Sharing.NONE:
        # Capacity is computed from EC2's description of the machine: pkg/providers/instancetype/types.go.
        message = f"{title} counts the GPUs of a machine, not their shares, and would make too many nodes."
        yield "sharing", message, f"{_GROUPS}."
    if pool.reservation is not None and pool.reservation.is_group:
        message = f"{title} selects reservations by their ids, not by a resource group."
        yield "reservation", message, "write the id of one reservation: cr-...."
    for label in sorted(pool.labels):
        domain = label.partition("/")[0] if "/" in label else ""
        if any(domain == each or domain.endswith(f".{each}") for each in _RESERVED):
            message = f"the label {label} is {title}'s own to set."
            yield f"labels.{label}", message, "use a prefix of your own."


def _of_auto_mode(pool: Pool) -> Iterator[tuple[str, str]]:
    """https://docs.aws.amazon.com/eks/latest/userguide/create-node-class.html has no field for them. EFA is
    attached for pods that request it; whether Auto Mode's nodes advertise it has no source.
    """
    if pool.efa:
        yield "efa", "Auto Mode chooses a node's interfaces, and was not seen to advertise EFA."
    if pool.placement is Placement.COMPACT:
        yield "placement", "Auto Mode takes no placement group."
    if pool.local_disks is LocalDisks.EPHEMERAL:
        yield "localDisks", "Auto Mode decides by itself when it uses local disks."
    if pool.image_pull is ImagePull.PARALLEL:
        yield "imagePull", "Auto Mode decides by itself how its nodes pull."
