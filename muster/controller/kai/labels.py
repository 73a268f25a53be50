"""What the controllers of work, KAI and we write on pods and their gangs' objects, and how it is read.

Decides of which gang a pod is, and which queue, pool and priority it has, in the order in which KAI itself
looks: the object (a Ray cluster carries the labels of the RayJob or RayService above it) before the pod.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

from muster.controller.gangs.identity import ATTEMPT
from muster.controller.gangs.lease import as_past, parse_time
from muster.controller.gangs.owner import Owner, Owners
from muster.controller.kai.objects import (
    COUNTED_WORK,
    RAY_CLUSTER,
    CountedWork,
    GangOwner,
    GatedPod,
    PriorityClass,
    RayCluster,
    gang_key,
)
from muster.controller.kube.resource import Key
from muster.model.kai import DEFAULT_PRIORITY, NON_PREEMPTIBLE
from muster.model.names import (
    GANG_GATE,
    GANG_STATUS_ANNOTATION,
    GROUP,
    KAI_PRIORITY_LABEL,
    KAI_QUEUE_LABEL,
    POOL_LABEL,
    RAY_CLUSTER_LABEL,
    RAY_CLUSTER_UID_LABEL,
    RAY_PRIORITY_LABEL,
)
from muster.model.work import GATED, MAIN, MAKER_LABEL, PodLabels, Work, WorkKind

RAY_GROUP: Final = "ray.io/group"
HEAD_GROUP: Final = "headgroup"
PREEMPTIBILITY: Final = "kai.scheduler/preemptibility"
_PREEMPTIBILITIES: Final[Mapping[str | None, bool]] = {"preemptible": True, "non-preemptible": False}

CLUSTER_UID: Final = RAY_CLUSTER_UID_LABEL
"""Label of what was written for a Ray cluster, or for work of another kind."""
CLUSTER_NAME: Final = f"{GROUP}/raycluster"
CLUSTERS: Final = Owners(resource=RAY_CLUSTER, uid_label=CLUSTER_UID, name_annotation=CLUSTER_NAME)
_OF_WORK: Final = {
    kind: Owners(resource=resource, uid_label=CLUSTER_UID, name_annotation=CLUSTER_NAME)
    for kind, resource in COUNTED_WORK.items()
}
# A Job or StatefulSet that was made for an object of another kind makes pods with that one's labels: the
# others first.
_COUNTED: Final = sorted(
    ((each, each.labels) for each in GATED if each.labels),
    key=lambda known: (bool(known[1].owner), known[0].family is Work.JOB),
)
LEADER: Final = f"{GROUP}/leader"
"""Label of requests: the uid of the pod whose gate goes last."""
SIZE: Final = f"{GROUP}/pods"
"""Label of requests, annotation of pods that have passed: how many pods their attempt releases."""
HANDED_OVER: Final = f"{GROUP}/handed-over"
"""Annotation of pods that run on what placeholders have brought: when their gate was removed."""
PREEMPTS: Final = f"{GROUP}/preempts-since"
"""Annotation of pods that have passed to take room that KAI makes for them: when their gate was removed."""
STATUS: Final = GANG_STATUS_ANNOTATION
"""Annotation of a batch's leader: what a user reads."""

DEFAULT_CLASS: Final = "train"
"""What KAI's grouper writes where no class is named, or one that does not exist."""
_CLASS_OF_DEPLOYMENTS: Final = "inference"


def is_gated(pod: GatedPod) -> bool:
    return any(gate.name == GANG_GATE for gate in pod.spec.scheduling_gates)


def is_bound(pod: GatedPod) -> bool:
    """Binding writes the node's name and PodScheduled together: from then on KAI counts it as allocated."""
    return bool(pod.spec.node_name)


def is_finished(pod: GatedPod) -> bool:
    return pod.status.has_ended or pod.metadata.deletion_timestamp is not None


def is_released(pod: GatedPod) -> bool:
    """We removed its gate, and no node has it yet."""
    return ATTEMPT in pod.metadata.annotations and not (is_gated(pod) or is_bound(pod) or is_finished(pod))


def handed_over_at(pod: GatedPod, *, now: datetime) -> datetime:
    """When its gate was removed, so that it runs on what placeholders have brought."""
    noted = as_past(parse_time(pod.metadata.annotations.get(HANDED_OVER, "")), now=now)
    return noted or pod.metadata.creation_timestamp or datetime.min.replace(tzinfo=UTC)


def preempts_since(pod: GatedPod) -> datetime | None:
    """When it passed without nodes of its own, for KAI to make room; None for any other pod."""
    if PREEMPTS not in pod.metadata.annotations:
        return None
    return parse_time(pod.metadata.annotations[PREEMPTS]) or pod.metadata.creation_timestamp


def owners_of(gang: GangOwner) -> Owners:
    return _OF_WORK[gang.kind.kind] if isinstance(gang, CountedWork) else CLUSTERS


def owner_of(gang: GangOwner) -> Owner:
    return owners_of(gang).of(gang)


def owners_at(key: Key) -> tuple[Owners, Key]:
    """The kind of the object that the key of a gang is about, and where that is in the API."""
    kind, _, name = key.name.rpartition("/")
    return _OF_WORK.get(kind, CLUSTERS), Key(key.namespace, name)


def gang_of(pod: GatedPod) -> list[Key]:
    labels, namespace = pod.metadata.labels, pod.metadata.namespace
    if name := labels.get(RAY_CLUSTER_LABEL, ""):
        return [Key(namespace, name)]
    work = _work_of(pod)
    return [] if work is None else [gang_key(namespace, work.kind.kind, work.name)]


class _PodsWork(NamedTuple):
    kind: WorkKind
    labels: PodLabels
    name: str


def _work_of(pod: GatedPod) -> _PodsWork | None:
    """Whose pod it is beside Ray's. Our webhook puts those that wait into a queue; others are of no gang."""
    labels = pod.metadata.labels
    if not (KAI_QUEUE_LABEL in labels or is_gated(pod) or ATTEMPT in pod.metadata.annotations):
        return None
    for kind, known in _COUNTED:
        if known.maker in ("", labels.get(MAKER_LABEL)) and (name := _name_by(known, pod)):
            return _PodsWork(kind, known, name)
    return None


def _name_by(known: PodLabels, pod: GatedPod) -> str:
    if known.name:
        return pod.metadata.labels.get(known.name, "")
    end = f"-{pod.metadata.labels.get(known.suffix, '')}" if known.suffix else ""
    owners = (each for each in pod.metadata.owner_references if each.controller and each.kind == known.owner)
    return next((each.name.removesuffix(end) for each in owners if each.name.endswith(end)), "")


def part_of(pod: GatedPod, gang: GangOwner) -> str:
    """Of which of an object's gangs a pod is. Empty where it is one gang."""
    if isinstance(gang, RayCluster):
        return ""
    return pod.metadata.name if gang.kind.is_pod_by_pod else lasting_part_of(pod, gang)


def lasting_part_of(pod: GatedPod, gang: GangOwner) -> str:
    """The same, where the pods that are made again have it, too: those of a Deployment have new names, and
    each may follow any other.
    """
    label = gang.kind.labels.gang if isinstance(gang, CountedWork) and gang.kind.labels else ""
    return pod.metadata.labels.get(label, "") if label else ""


def is_owned(pod: GatedPod, gang: GangOwner) -> bool:
    """Whether it is of this very object, and not of an earlier one of its name."""
    if any(owner.uid == gang.metadata.uid for owner in pod.metadata.owner_references):
        return True
    if isinstance(gang, RayCluster) or gang.kind.family in (Work.JOB, Work.STATEFULSET):
        return False
    if gang_of(pod) != [gang.key]:
        return False
    # Another object is between them, and no member may write the labels.
    made, since = pod.metadata.creation_timestamp, gang.metadata.creation_timestamp
    return made is None or since is None or made >= since


def group_of(pod: GatedPod) -> str:
    labels = pod.metadata.labels
    work = None if RAY_CLUSTER_LABEL in labels else _work_of(pod)
    if work is None:
        return labels.get(RAY_GROUP, HEAD_GROUP)
    return labels.get(work.labels.group, "") if work.labels.group else MAIN


def queue_of(pod: GatedPod, cluster: GangOwner | None) -> str:
    above = cluster.metadata.labels.get(KAI_QUEUE_LABEL, "") if cluster else ""
    return above or pod.metadata.labels.get(KAI_QUEUE_LABEL, "")


def pool_of(pod: GatedPod, cluster: GangOwner | None) -> str:
    """The pool that the pod is pinned to; empty where nothing names one."""
    said = [pod.spec.node_selector, pod.metadata.labels, *([cluster.metadata.labels] if cluster else [])]
    return next((labels[POOL_LABEL] for labels in said if labels.get(POOL_LABEL)), "")


def is_preemptible(pod: GatedPod, cluster: GangOwner | None, classes: Mapping[str, PriorityClass]) -> bool:
    """As KAI finds it: what the labels say of preemption itself, or the value of the priority class."""
    above = cluster.metadata.labels if cluster else {}
    for labels in (above, pod.metadata.labels):
        if (said := labels.get(PREEMPTIBILITY)) in _PREEMPTIBILITIES:
            return _PREEMPTIBILITIES[said]
    return priority_of(pod, cluster, classes) < NON_PREEMPTIBLE


def priority_of(pod: GatedPod, cluster: GangOwner | None, classes: Mapping[str, PriorityClass]) -> int:
    """The value of its priority class, which KAI orders work and picks victims by."""
    return _priority(_class_of(pod, cluster, classes), classes)


def _class_of(pod: GatedPod, cluster: GangOwner | None, classes: Mapping[str, PriorityClass]) -> str:
    """Ray's own label goes before KAI's and is taken as it is; another class has to exist
    (pkg/podgrouper/podgrouper/plugins: ray/ray_grouper.go, defaultgrouper/default_grouper.go).
    """
    above = cluster.metadata.labels if cluster else {}
    if isinstance(cluster, RayCluster) and RAY_PRIORITY_LABEL in above:
        return above[RAY_PRIORITY_LABEL]
    labels = {**pod.metadata.labels, **above}
    named = labels.get(KAI_PRIORITY_LABEL) or pod.spec.priority_class_name
    if named in classes:
        return named
    serves = isinstance(cluster, CountedWork) and cluster.kind.family is Work.DEPLOYMENT
    return _CLASS_OF_DEPLOYMENTS if serves else DEFAULT_CLASS


def _priority(name: str, classes: Mapping[str, PriorityClass]) -> int:
    found = classes.get(name) or next((each for each in classes.values() if each.global_default), None)
    return found.value if found else DEFAULT_PRIORITY
