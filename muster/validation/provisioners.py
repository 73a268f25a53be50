"""How nodes come: what ComputeClasses, Karpenter and EKS Auto Mode do not do, or Muster does not render for
them; pools that are bought in several ways, and how gangs get a pool's nodes.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from muster.model.capacity import Capacity, Gangs
from muster.model.clusters import Cluster, EksCluster, NodeProvisioner
from muster.model.pools import Image, ImagePull, LocalDisks, Placement, Pool, Sharing
from muster.model.stack import GangMode, Stack
from muster.model.violations import Violation
from muster.model.waiting import NOT_PROMISED
from muster.validation.machines import Choice, bought

# Pools of a GKE cluster whose nodes come from ComputeClasses: what these cannot do, or was not seen to.

_POOLS: Final = "remove it, or use `autoscaler: node-pools`."
# Labels of these domains are GKE's own, and it refuses them in `nodePoolConfig`.
_COMPUTE_CLASSES_RESERVED: Final = ("kubernetes.io", "k8s.io", "cloud.google.com", "gke.io")


def compute_class_rules(stack: Stack) -> Iterator[Violation]:
    cluster = stack.cluster
    if not cluster.has_compute_classes:
        return
    if cluster.has_driver_installer:
        message = "a ComputeClass installs GKE's default or latest driver, and no other."
        yield Violation("muster:cluster.gpuDriver", message, "write default or latest.")
    for pool in stack.pools:
        path = f"muster:pools.{pool.name}"
        yield from _unpromised(pool, stack, "use Kueue without")
        for key, message in _of_compute_class(pool):
            yield Violation(f"{path}.{key}", message, _POOLS)
        for label in _reserved_labels(pool, _COMPUTE_CLASSES_RESERVED):
            message = f"the label {label} is GKE's own to set."
            yield Violation(f"{path}.labels.{label}", message, "use a prefix of your own.")


def _unpromised(pool: Pool, stack: Stack, otherwise: str) -> Iterator[Violation]:
    if pool.is_gpu and pool not in stack.placeholder_pools and pool.capacity is not Capacity.QUEUED:
        fix = f"nothing, if that is accepted; otherwise {otherwise} `gangs` and `gangAdmission`."
        yield Violation(f"muster:pools.{pool.name}", NOT_PROMISED, fix, level="warning")


def _reserved_labels(pool: Pool, domains: tuple[str, ...]) -> Iterator[str]:
    """The labels of these domains and of those below them."""
    for label in sorted(pool.labels):
        domain = label.partition("/")[0] if "/" in label else ""
        if any(domain == each or domain.endswith(f".{each}") for each in domains):
            yield label


def _of_compute_class(pool: Pool) -> Iterator[tuple[str, str]]:
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
    cluster = stack.cluster
    if not isinstance(cluster, EksCluster) or cluster.answers_requests:
        return
    title = _TITLES[cluster.autoscaler]
    for pool in stack.pools:
        yield from _unpromised(pool, stack, "leave out")
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
    for label in _reserved_labels(pool, _RESERVED):
        yield f"labels.{label}", f"the label {label} is {title}'s own to set.", "use a prefix of your own."


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


# Pools whose nodes are bought in several ways, first to last (`capacity: [reservation, on-demand]`).

_IN_A_LIST: Final = (Capacity.RESERVATION, Capacity.ON_DEMAND, Capacity.SPOT)
# Karpenter has an order of its own. Source: https://karpenter.sh/docs/tasks/odcrs/ and getCapacityType in
# pkg/providers/instance/instance.go of aws/karpenter-provider-aws, read 2026-11-27.
_OF_KARPENTER: Final = (Capacity.RESERVATION, Capacity.SPOT, Capacity.ON_DEMAND)


def fallback_rules(pool: Pool, cluster: Cluster, choice: Choice) -> Iterator[Violation]:
    if not pool.fallback:
        return
    path, ways = f"muster:pools.{pool.name}", (pool.capacity, *pool.fallback)
    if not (cluster.is_ours and cluster.makes_nodes_for_pods):
        message = "is a list, and the autoscaler of this cluster buys the nodes of a pool in one way."
        fix = (
            "write a pool for each way: work goes to reservation, on-demand and spot in this order. Or use "
            "`autoscaler: compute-classes` (GKE) or `karpenter` (EKS)."
        )
        yield Violation(f"{path}.capacity", message, fix)
        return
    if others := [each for each in ways if each not in _IN_A_LIST]:
        message = f"has {', '.join(others)}, which is no part of a list."
        yield Violation(f"{path}.capacity", message, f"use {', '.join(_IN_A_LIST)}.")
        return
    if Capacity.RESERVATION in pool.fallback:
        message = "has the reservation after what is bought: it would be paid for and not used."
        yield Violation(f"{path}.capacity", message, "write reservation first.")
    own = [each for each in _OF_KARPENTER if each in ways]
    if not cluster.has_compute_classes and [*ways] != own:
        message = f"is [{', '.join(ways)}], and Karpenter tries [{', '.join(own)}], whatever is written."
        yield Violation(f"{path}.capacity", message, "write that order, or a pool for each way.")
    for capacity in pool.fallback:
        yield from bought(replace(choice, capacity=capacity), path)


# The word `gangs` of a pool: how gangs get its nodes.
# What they are is in docs/decisions/023-gangs-by-placeholders.md.


def gang_word_rules(stack: Stack) -> list[Violation]:
    return [found for pool in stack.pools for found in _word(pool, stack)]


def _word(pool: Pool, stack: Stack) -> Iterator[Violation]:
    path = f"muster:pools.{pool.name}.gangs"
    if pool.gangs is None:
        return
    if pool.capacity is Capacity.QUEUED:
        message = "a queued pool gets gangs by ProvisioningRequests."
        yield Violation(path, message, "remove it, or write another `capacity`.")
    elif pool.gangs is Gangs.NONE:
        return
    elif not pool.is_gpu:
        message = "only pools with GPUs get gangs: a pod without one needs a node at once."
        yield Violation(path, message, "remove it.")
    elif pool.slice_nodes > 1:
        message = f"a slice of {pool.slice_nodes} nodes is bought whole, which placeholders do not ask for."
        yield Violation(path, message, "write `capacity: queued`, or `gangs: none`.")
    elif stack.leaves_classes_to_pods:
        message = (
            "with KAI nothing makes pods select the pool's ComputeClass, so GKE makes no nodes for them."
        )
        yield Violation(path, message, "write `gangs: none`, or `muster:scheduler: kueue`.")
    elif stack.gang_admission.mode is not GangMode.MUSTER:
        mode = stack.gang_admission.mode
        message = f"only Muster's controller makes placeholders, and gangAdmission is {mode}."
        yield Violation(path, message, "write `gangs: none`, or `muster:gangAdmission: muster`.")
