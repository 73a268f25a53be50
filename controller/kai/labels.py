"""What Ray, KAI and we write on pods and Ray clusters, and how it is read.

Decides which queue, pool and priority a pod has, in the order in which KAI itself looks: the Ray cluster
(which carries the labels of the RayJob or RayService above it) before the pod.
"""

from collections.abc import Mapping
from typing import Final

from controller.kai.objects import GatedPod, PriorityClass, RayCluster
from model.names import GANG_GATE, GROUP, POOL_LABEL

RAY_CLUSTER_LABEL: Final = "ray.io/cluster"
RAY_GROUP: Final = "ray.io/group"
HEAD_GROUP: Final = "headgroup"
QUEUE_LABEL: Final = "kai.scheduler/queue"
PRIORITY_LABEL: Final = "priorityClassName"
PREEMPTIBILITY: Final = "kai.scheduler/preemptibility"

CLUSTER_UID: Final = f"{GROUP}/raycluster-uid"
"""Label of what was written for a Ray cluster."""
CLUSTER_NAME: Final = f"{GROUP}/raycluster"
LEADER: Final = f"{GROUP}/leader"
"""Label of requests: the uid of the pod whose gate goes last."""
SIZE: Final = f"{GROUP}/pods"
"""Label of requests: how many pods their attempt releases."""
STATUS: Final = f"{GROUP}/gang-status"
"""Annotation of a batch's leader: what a user reads."""

NON_PREEMPTIBLE: Final = 100
"""Work of this priority or above may not exceed its quota and is never preempted (KAI, docs/priority)."""
DEFAULT_PRIORITY: Final = 50
"""What KAI gives to a class that it does not find (pkg/common/constants: DefaultPodGroupPriority)."""


def is_gated(pod: GatedPod) -> bool:
    return any(gate.name == GANG_GATE for gate in pod.spec.scheduling_gates)


def is_bound(pod: GatedPod) -> bool:
    """Binding writes the node's name and PodScheduled together: from then on KAI counts it as allocated."""
    return bool(pod.spec.node_name)


def is_over(pod: GatedPod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed") or pod.metadata.deletion_timestamp is not None


def group_of(pod: GatedPod) -> str:
    return pod.metadata.labels.get(RAY_GROUP, HEAD_GROUP)


def queue_of(pod: GatedPod, cluster: RayCluster | None) -> str:
    above = cluster.metadata.labels.get(QUEUE_LABEL, "") if cluster else ""
    return above or pod.metadata.labels.get(QUEUE_LABEL, "")


def pool_of(pod: GatedPod, cluster: RayCluster | None) -> str:
    """The pool that the pod is pinned to; empty where nothing says one."""
    said = [pod.spec.node_selector, pod.metadata.labels, *([cluster.metadata.labels] if cluster else [])]
    return next((labels[POOL_LABEL] for labels in said if labels.get(POOL_LABEL)), "")


def is_preemptible(pod: GatedPod, cluster: RayCluster | None, classes: Mapping[str, PriorityClass]) -> bool:
    labels = {**pod.metadata.labels, **(cluster.metadata.labels if cluster else {})}
    said = labels.get(PREEMPTIBILITY, "")
    if said:
        return said == "preemptible"
    found = classes.get(labels.get(PRIORITY_LABEL) or pod.spec.priority_class_name)
    found = found or next((each for each in classes.values() if each.global_default), None)
    return (found.value if found else DEFAULT_PRIORITY) < NON_PREEMPTIBLE
