"""Converts KAI's objects, pods and nodes to what a snapshot holds.

KAI counts what a queue holds without naming a pool: `status.allocated` of `queues.scheduling.run.ai` has one
amount a resource (docs/queues of kai-scheduler/KAI-Scheduler 0.17). Its programs know the pods of a group by
an annotation, and write on the group when it started (pkg/common/constants).

Responsible for which fields of pods and nodes are read: never environments, commands, volumes and images.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from muster.live.fields import items, mapping, moment, number, text, texts
from muster.live.snapshot.kueue import parse_amount, parse_job, parse_pods
from muster.live.snapshot.workloads import Amounts, GroupPod, Node, PodGroup, Queue, SubGroup, Taint, Usage
from muster.model import names

GROUP_ANNOTATION: Final = "pod-group-name"
SUB_GROUP_LABEL: Final = "kai.scheduler/subgroup-name"
STARTED_ANNOTATION: Final = "kai.scheduler/last-start-timestamp"
STALE_ANNOTATION: Final = "kai.scheduler/stale-podgroup-timestamp"
_SHARING: Final = (*names.GPU_PARTS, "received-resource-type")
_OVER: Final = ("Succeeded", "Failed")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def to_queue(found: object) -> Queue:
    allocated = mapping(found, "status", "allocated")
    usage = (Usage("", name, parse_amount(name, value)) for name, value in sorted(allocated.items()))
    return Queue(
        name=text(found, "metadata", "name"),
        parent=text(found, "spec", "parentQueue"),
        usage=tuple(each for each in usage if each.amount),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPod:
    """A pod with its place. `group`: namespace and name of its pod group, None for a pod of no group."""

    namespace: str
    pod: GroupPod
    group: tuple[str, str] | None


def to_pod(found: object) -> FoundPod | None:
    """The pod; None for one that is over."""
    if text(found, "status", "phase") in _OVER:
        return None
    metadata, spec = mapping(found, "metadata"), mapping(found, "spec")
    notes, labels = texts(metadata, "annotations"), texts(metadata, "labels")
    namespace, group = text(metadata, "namespace"), notes.get(GROUP_ANNOTATION, "")
    shape = parse_pods(spec, name=text(metadata, "name"), count=1)
    pod = GroupPod(
        name=shape.name,
        requests=shape.requests,
        node=text(spec, "nodeName"),
        is_ending=bool(text(metadata, "deletionTimestamp")),
        sub_group=labels.get(SUB_GROUP_LABEL, ""),
        gates=tuple(text(each, "name") for each in items(spec, "schedulingGates")),
        node_selector=shape.node_selector,
        tolerations=shape.tolerations,
        terms=shape.terms,
        sharing={key: notes[key] for key in _SHARING if key in notes},
        gpu_groups=_gpu_groups(labels),
    )
    return FoundPod(namespace=namespace, pod=pod, group=(namespace, group) if group else None)


def _gpu_groups(labels: Mapping[str, str]) -> tuple[str, ...]:
    more = sorted(value for key, value in labels.items() if key.startswith(f"{names.GPU_GROUP_LABEL}/"))
    return (labels[names.GPU_GROUP_LABEL], *more) if names.GPU_GROUP_LABEL in labels else ()


def to_binding(found: object) -> tuple[tuple[str, str], str] | None:
    """Of a bind request: namespace and name of a pod, and the node that it is about to get. None for one that
    failed.
    """
    if text(found, "status", "phase") == "Failed":
        return None
    pod = text(found, "metadata", "namespace"), text(found, "spec", "podName")
    return pod, text(found, "spec", "selectedNode")


def to_group(found: object) -> PodGroup:
    """The group without its pods."""
    metadata, spec = mapping(found, "metadata"), mapping(found, "spec")
    return PodGroup(
        namespace=text(metadata, "namespace"),
        name=text(metadata, "name"),
        queue=text(spec, "queue"),
        created=moment(metadata, "creationTimestamp") or _EPOCH,
        pods=(),
        min_member=number(spec, "minMember") or 1,
        sub_groups=tuple(_to_sub_group(each) for each in items(spec, "subGroups")),
        priority_class=text(spec, "priorityClassName"),
        preemptibility=text(spec, "preemptibility"),
        partition=texts(metadata, "labels").get(names.POOL_LABEL, ""),
        topology=texts(spec, "topologyConstraint"),
        started=moment(metadata, "annotations", STARTED_ANNOTATION),
        stale=moment(metadata, "annotations", STALE_ANNOTATION),
        job=parse_job(found),
    )


def _to_sub_group(found: Mapping[str, object]) -> SubGroup:
    return SubGroup(
        name=text(found, "name"),
        min_member=number(found, "minMember") or 0,
        parent=text(found, "parent"),
        topology=texts(found, "topologyConstraint"),
    )


def to_node(found: object) -> Node:
    """The node with all of its allocatable amounts."""
    metadata, spec = mapping(found, "metadata"), mapping(found, "spec")
    conditions = {text(each, "type"): text(each, "status") for each in items(found, "status", "conditions")}
    allocatable = mapping(found, "status", "allocatable")
    return Node(
        name=text(metadata, "name"),
        room={name: parse_amount(name, value) for name, value in sorted(allocatable.items())},
        labels=texts(metadata, "labels"),
        taints=tuple(
            Taint(text(each, "key"), text(each, "value"), text(each, "effect"))
            for each in items(spec, "taints")
        ),
        is_cordoned=spec.get("unschedulable") is True,
        is_ready=conditions.get("Ready", "True") == "True",
    )


def with_bindings(pods: Iterable[FoundPod], bindings: Mapping[tuple[str, str], str]) -> list[FoundPod]:
    """The pods, where those that are about to be bound have their node."""
    found = []
    for each in pods:
        node = each.pod.node or bindings.get((each.namespace, each.pod.name), "")
        found.append(replace(each, pod=replace(each.pod, node=node)))
    return found


def with_pods(groups: Iterable[PodGroup], pods: Iterable[FoundPod]) -> tuple[PodGroup, ...]:
    """The groups with their pods, both sorted by name."""
    members: defaultdict[tuple[str, str], list[GroupPod]] = defaultdict(list)
    for each in pods:
        if each.group is not None:
            members[each.group].append(each.pod)
    found = (
        replace(
            group,
            pods=tuple(sorted(members[group.namespace, group.name], key=lambda each: each.name)),
        )
        for group in groups
    )
    return tuple(sorted(found, key=lambda each: (each.namespace, each.name)))


def with_room(
    nodes: Iterable[Node], pods: Iterable[FoundPod], groups: Iterable[PodGroup]
) -> tuple[Node, ...]:
    """The nodes without what pods of no pod group take of them."""
    known = {(each.namespace, each.name) for each in groups}
    taken: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for each in pods:
        if each.pod.node and each.group not in known:
            taken[each.pod.node].update({**each.pod.requests, "pods": 1})
    found = (replace(each, room=_without(each.room, taken[each.name])) for each in nodes)
    return tuple(sorted(found, key=lambda each: each.name))


def _without(room: Amounts, taken: Mapping[str, int]) -> Amounts:
    return {name: max(amount - taken.get(name, 0), 0) for name, amount in room.items()}
