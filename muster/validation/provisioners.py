"""Pools that Karpenter or EKS Auto Mode makes: what neither does, and what Muster renders for neither."""

import re
from collections.abc import Iterator
from typing import Final

from muster.model.capacity import Capacity
from muster.model.clusters import EksCluster, NodeProvisioner
from muster.model.nodes import Image, ImagePull, LocalDisks, Placement
from muster.model.pools import Pool
from muster.model.promises import NOT_PROMISED
from muster.model.sharing import Sharing
from muster.model.stack import Stack
from muster.model.violations import Violation

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
