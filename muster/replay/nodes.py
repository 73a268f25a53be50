"""The nodes with GPUs that a cluster has while its jobs are recorded: what was bought, and could be used.

A node counts from the creation of its object until its deletion: how long a cloud takes before and after is
not seen. No name, address or label of a node is recorded but its pool and its machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from muster.controller.gangs.objects import Conditioned, Quantities
from muster.controller.kube.resource import Object, Resource
from muster.live.snapshot.kueue import parse_amount
from muster.model import names
from muster.model.node_labels import INSTANCE_TYPE_LABEL
from muster.replay.recording import Ids, Job, Node, Recording, Usable
from muster.replay.source import Kind, Source, seconds


class Status(Conditioned, frozen=True):
    capacity: Quantities = msgspec.field(default_factory=dict)
    allocatable: Quantities = msgspec.field(default_factory=dict)


class KubernetesNode(Object, frozen=True):
    status: Status = Status()


NODES: Final = Kind(Resource("", "v1", "nodes", "Node", False, KubernetesNode, annotation_prefixes=()))


@dataclass(slots=True)
class WithNodes:
    """What a scheduler's source records, and nodes."""

    jobs: Source
    ids: Ids
    _nodes: dict[str, Node] = field(default_factory=dict)

    @property
    def kinds(self) -> Sequence[Kind]:
        return (*self.jobs.kinds, NODES)

    @property
    def count(self) -> int:
        return self.jobs.count

    @property
    def open_count(self) -> int:
        return self.jobs.open_count

    def restore(self, recording: Recording) -> None:
        self.jobs.restore(recording)
        self._nodes = {node.id: node for node in recording.nodes if node.left is None}

    def replace(
        self, kind: Kind, objects: Sequence[Object], *, at: float, gone_at: float
    ) -> Sequence[Job | Node]:
        if kind is not NODES:
            return self.jobs.replace(kind, objects, at=at, gone_at=gone_at)
        there = {self.ids.of(each.metadata.uid) for each in objects}
        gone = [node for id in [*self._nodes] if id not in there for node in self._leave(id, gone_at)]
        return [*gone, *(node for each in objects for node in self._observe(each, at))]

    def put(self, kind: Kind, obj: Object, *, at: float) -> Sequence[Job | Node]:
        return self._observe(obj, at) if kind is NODES else self.jobs.put(kind, obj, at=at)

    def remove(self, kind: Kind, obj: Object, *, at: float) -> Sequence[Job | Node]:
        if kind is not NODES:
            return self.jobs.remove(kind, obj, at=at)
        return self._leave(self.ids.of(obj.metadata.uid), at)

    def _observe(self, obj: Object, at: float) -> list[Node]:
        assert isinstance(obj, KubernetesNode)
        id = self.ids.of(obj.metadata.uid)
        before = self._nodes.get(id)
        node = observe(obj, id, before, at=at)
        if node == before or not (node.gpus or node.pool):
            return []
        self._nodes[id] = node
        return [node]

    def _leave(self, id: str, at: float) -> list[Node]:
        node = self._nodes.pop(id, None)
        return [] if node is None else [replace(node, left=max(at, node.created))]


def observe(obj: KubernetesNode, id: str, before: Node | None, *, at: float) -> Node:
    """The node as it is known now. One that is seen first when it can be used already could since it got
    Ready last.
    """
    labels, status = obj.metadata.labels, obj.status
    created = seconds(obj.metadata.creation_timestamp, at)
    usable = _devices(status.allocatable) if status.holds("Ready") else 0
    states = () if before is None else before.usable
    if usable != (states[-1].gpus if states else 0):
        since = seconds(status.since("Ready"), at) if before is None else at
        states = (*states, Usable(max(since, created), usable))
    return Node(
        id=id,
        pool=labels.get(names.POOL_LABEL, ""),
        machine=labels.get(INSTANCE_TYPE_LABEL, ""),
        created=created,
        gpus=max(_devices(status.capacity), usable, 0 if before is None else before.gpus),
        usable=states,
    )


def _devices(amounts: Quantities) -> int:
    return sum(parse_amount(resource, amounts.get(resource, 0)) for resource in names.DEVICE_RESOURCES)
