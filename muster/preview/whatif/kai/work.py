"""Pod groups and pods of a snapshot, as the API server has them.

Muster's gate counts as removed: whether a cloud has the nodes that it waits for cannot be known.
Gates of others stay.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from muster.live.snapshot import GroupPod, PodGroup, SubGroup, kai
from muster.model import names
from muster.replay import stored

_IMAGE: Final = "none"  # no pod is ever created from it


def group_manifest(group: PodGroup) -> dict[str, Any]:
    notes = {
        key: stored.format_time(at)
        for key, at in ((kai.STARTED_ANNOTATION, group.started), (kai.STALE_ANNOTATION, group.stale))
        if at is not None
    }
    spec = {
        "minMember": group.min_member,
        "queue": group.queue,
        "priorityClassName": group.priority_class,
        "preemptibility": group.preemptibility,
        "topologyConstraint": dict(group.topology),
        "subGroups": [_sub_group(each) for each in group.sub_groups],
    }
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {**_metadata(group, group.name), "annotations": notes, "labels": _labels(group)},
        "spec": {key: value for key, value in spec.items() if value},
    }


def pod_manifest(group: PodGroup, pod: GroupPod) -> dict[str, Any]:
    labels = _labels(group)
    if pod.sub_group:
        labels[kai.SUB_GROUP_LABEL] = pod.sub_group
    if pod.gpu_groups:
        first, *more = pod.gpu_groups
        labels |= {kai.GPU_GROUP_LABEL: first, **{f"{kai.GPU_GROUP_LABEL}/{each}": each for each in more}}
    metadata = _metadata(group, pod.name) | {
        "annotations": {kai.GROUP_ANNOTATION: group.name, **pod.sharing},
        "labels": labels,
    }
    if pod.is_ending:
        metadata["deletionTimestamp"] = metadata["creationTimestamp"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": _pod_spec(pod),
        "status": {"phase": "Running" if pod.node else "Pending"},
    }


def _pod_spec(pod: GroupPod) -> dict[str, Any]:
    container = {"name": "work", "image": _IMAGE, "resources": {"requests": stored.quantities(pod.requests)}}
    spec: dict[str, Any] = {
        "schedulerName": names.KAI_SCHEDULER,
        "containers": [container],
        "nodeSelector": dict(pod.node_selector),
        "tolerations": [stored.toleration(each) for each in pod.tolerations],
        "schedulingGates": [{"name": each} for each in pod.gates if each != names.GANG_GATE],
    }
    if pod.node:
        spec["nodeName"] = pod.node
    if pod.terms:
        required = {"nodeSelectorTerms": [stored.term(each) for each in pod.terms]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return spec


def _metadata(group: PodGroup, name: str) -> dict[str, Any]:
    created: datetime = group.created
    return {
        "namespace": group.namespace,
        "name": name,
        "uid": stored.uid(group.namespace, name),
        "creationTimestamp": stored.format_time(created),
    }


def _labels(group: PodGroup) -> dict[str, str]:
    return {names.POOL_LABEL: group.partition} if group.partition else {}


def _sub_group(found: SubGroup) -> Mapping[str, Any]:
    described = {
        "name": found.name,
        "minMember": found.min_member,
        "parent": found.parent,
        "topologyConstraint": dict(found.topology),
    }
    return {key: value for key, value in described.items() if value}
