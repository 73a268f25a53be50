"""Records the jobs of a cluster into a file: lists what its source is made from, then watches, until it is
asked to stop.

Reads only. What was observed is flushed every few seconds. A break of the connection costs nothing while the
server still has the events that were missed; where it has not, everything is listed again and the recording
has a gap.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from dataclasses import field as own
from datetime import datetime
from typing import Any, Final, Protocol

import msgspec
import structlog

from muster.controller.gangs.objects import (
    PLACEHOLDER,
    PROVISIONING_REQUEST,
    Conditioned,
    Placeholder,
    ProvisioningRequest,
    Quantities,
)
from muster.controller.kube.client import Client, Selection
from muster.controller.kube.connection import Connection
from muster.controller.kube.errors import Unauthorized
from muster.controller.kube.reflector import Reflector
from muster.controller.kube.resource import Key, Object, Partial, Resource
from muster.errors import MusterError
from muster.live.snapshot.kueue import parse_amount
from muster.model import names
from muster.model.names import INSTANCE_TYPE_LABEL
from muster.model.quantities import many
from muster.replay.recording import Booked, Gap, Ids, Job, Node, Recording, Usable
from muster.replay.recording_file import Writer
from muster.replay.stored import Mark

# What a recorder follows in a cluster, and what turns it into jobs: one source for each scheduler.

EVERYTHING: Final = Selection()


@dataclass(frozen=True, slots=True)
class Kind:
    """Objects that are listed and watched."""

    resource: Resource[Any]
    selection: Selection = EVERYTHING


class Source(Protocol):
    """Pure: fed with objects in any order and any number of times. Each method returns the jobs and nodes
    that have changed. `at` is the time of the observation.
    """

    @property
    def kinds(self) -> Sequence[Kind]: ...

    @property
    def count(self) -> int:
        """Jobs seen since the start."""

    @property
    def open_count(self) -> int:
        """Jobs that wait or run."""

    def restore(self, recording: Recording) -> None:
        """Go on where a recording ends."""

    def replace(
        self, kind: Kind, objects: Sequence[Object], *, at: float, gone_at: float
    ) -> Sequence[Job | Node]:
        """These are all objects of the kind. What is missing was gone at `gone_at`."""

    def put(self, kind: Kind, obj: Object, *, at: float) -> Sequence[Job | Node]: ...

    def remove(self, kind: Kind, obj: Object, *, at: float) -> Sequence[Job | Node]: ...


def metadata(obj: Object) -> Mapping[str, object]:
    """The metadata that jobs are made from, as JSON."""
    meta = obj.metadata
    owners = [
        {"kind": each.kind, "name": each.name, "controller": each.controller}
        for each in meta.owner_references
    ]
    return {
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
        "creationTimestamp": "" if meta.creation_timestamp is None else meta.creation_timestamp.isoformat(),
        "ownerReferences": owners,
        "annotations": meta.annotations,
    }


def seconds(at: datetime | None, otherwise: float) -> float:
    return otherwise if at is None else at.timestamp()


AGENT: Final = "muster-record"
FLUSH_SECONDS: Final = 5.0
_MILLISECOND: Final = 0.001
_REPORT_SECONDS: Final = 60.0
_LOGIN_SECONDS: Final = 10.0


@dataclass(slots=True)
class Recorder:
    """One recording. `connect` is called again when the server no longer accepts the credential. `progress`
    gets a sentence now and then. `last_mark`: until when everything is recorded.
    """

    connect: Callable[[], Connection]
    source: Source
    writer: Writer
    progress: Callable[[str], None]
    last_mark: float
    clock: Callable[[], float] = time.time
    _refused: asyncio.Event = own(default_factory=asyncio.Event)
    _unlisted: set[Kind] = own(default_factory=set)
    _unconnected: set[Kind] = own(default_factory=set)
    _gap_start: float | None = None
    _moment: float = 0.0

    def __post_init__(self) -> None:
        self._unlisted = {*self.source.kinds}
        self._unconnected = {*self.source.kinds}

    async def run(self, stop: asyncio.Event, *, seconds: float | None) -> int:
        """Record until `stop` is set or the time is over; how many jobs were seen."""
        ticker = asyncio.create_task(self._tick())
        follower = asyncio.create_task(self._follow())
        stopped = asyncio.create_task(stop.wait())
        tasks = {ticker, follower, stopped}
        try:
            done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            for task in done - {stopped}:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self._flush()
        return self.source.count

    async def _follow(self) -> None:
        """Watch; with a new connection after the credential was refused."""
        connection = self.connect()
        while True:
            self._refused.clear()
            async with Client(connection, field_manager=AGENT, user_agent=AGENT) as client:
                watches = (self._watch(client, kind) for kind in self.source.kinds)
                tasks = [asyncio.create_task(each) for each in (*watches, self._until_refused())]
                try:
                    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                    for task in done:
                        task.result()
                finally:
                    for task in tasks:
                        task.cancel()
                    await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.sleep(_LOGIN_SECONDS)
            try:
                connection = self.connect()
            except MusterError as error:
                self.progress(f"no new credential, trying again: {error.message}")

    async def _watch(self, client: Client, kind: Kind) -> None:
        sink = _Sink(self, kind)
        await Reflector(client, kind.resource, sink, watcher=sink, selection=kind.selection).run()

    async def _until_refused(self) -> None:
        await self._refused.wait()

    async def _tick(self) -> None:
        reported, count = self.clock(), self.source.count
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            self._flush()
            if self.source.count != count and self.clock() - reported >= _REPORT_SECONDS:
                reported, count = self.clock(), self.source.count
                self.progress(
                    f"{many(count, 'job')} recorded, {self.source.open_count} of them waiting or running"
                )

    def _flush(self) -> None:
        if not self._unlisted and not self._unconnected:
            self.last_mark, self._gap_start = self.clock(), None
            self.writer.add([Mark(self.last_mark)])
        self.writer.flush()

    def listed(self, kind: Kind, objects: list[Object]) -> None:
        now = self.clock()
        gone_at = self._gap(now)
        self.writer.add(self.source.replace(kind, objects, at=now, gone_at=gone_at))
        is_first = bool(self._unlisted)
        self._unlisted.discard(kind)
        self._unconnected.discard(kind)
        if is_first and not self._unlisted:
            self.progress(
                f"{many(self.source.open_count, 'job waits or runs', 'jobs wait or run')} now; watching"
            )

    def next_moment(self) -> float:
        """Now, but a millisecond after the last at least, so that the file keeps the order of the watch."""
        self._moment = max(self.clock(), self._moment + _MILLISECOND)
        return self._moment

    def changed(self, lines: Sequence[Job | Node]) -> None:
        self.writer.add(lines)

    def connected(self, kind: Kind) -> None:
        self._unconnected.discard(kind)

    def failed(self, kind: Kind, error: Exception) -> None:
        if not self._unconnected:
            self.progress(f"connection lost, trying again: {error}")
        self._unconnected.add(kind)
        if isinstance(error, Unauthorized):
            self._refused.set()

    def _gap(self, now: float) -> float:
        """Since when nothing was recorded, where that is long ago: what left meanwhile left at an unknown
        time, and the gap is no running time.
        """
        if now - self.last_mark > 2 * FLUSH_SECONDS:
            self.writer.add([Gap(self.last_mark, now)])
            self._gap_start = self.last_mark if self._gap_start is None else self._gap_start
            self.last_mark = now
        return now if self._gap_start is None else self._gap_start


@dataclass(frozen=True, slots=True)
class _Sink:
    """What the reflector of one kind calls."""

    recorder: Recorder
    kind: Kind

    def known(self, obj: Object) -> Object:
        return obj

    def replace(
        self, objects: list[Object], *, unreadable: Mapping[Key, str], version: str, new_history: bool
    ) -> None:
        self.recorder.listed(self.kind, objects)

    def put(self, obj: Object) -> None:
        recorder = self.recorder
        recorder.changed(recorder.source.put(self.kind, obj, at=recorder.next_moment()))

    def remove(self, obj: Object) -> None:
        recorder = self.recorder
        recorder.changed(recorder.source.remove(self.kind, obj, at=recorder.next_moment()))

    def mark_unreadable(self, key: Key, message: str) -> None:
        self.recorder.progress(f"{key} cannot be read and is left out: {message}")

    def event(self, kind: str) -> None:
        pass

    def heard(self) -> None:
        self.recorder.connected(self.kind)

    def relisted(self, reason: str, count: int) -> None:
        pass

    def opened(self) -> None:
        self.recorder.connected(self.kind)

    def failed(self, error: Exception) -> None:
        self.recorder.failed(self.kind, error)


def quiet_logs() -> None:
    """Leave progress to `Recorder.progress`: the watch's own log is for a controller's operator."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))


# The nodes with GPUs that a cluster has while its jobs are recorded: what was bought, and could be used.
#
# A node counts from the creation of its object until its deletion: how long a cloud takes before and after is
# not seen. No name, address or label of a node is recorded but its pool and its machine.


class Status(Conditioned, frozen=True):
    capacity: Quantities = msgspec.field(default_factory=dict)
    allocatable: Quantities = msgspec.field(default_factory=dict)


class NodeTaint(Partial, frozen=True):
    key: str = ""


class NodeSpec(Partial, frozen=True):
    taints: tuple[NodeTaint, ...] = ()


class KubernetesNode(Object, frozen=True):
    spec: NodeSpec = NodeSpec()
    status: Status = Status()

    @property
    def ready(self) -> int:
        """Its GPUs, while it is Ready."""
        return _devices(self.status.allocatable) if self.status.holds("Ready") else 0

    @property
    def usable(self) -> int:
        """Those that a gang may start on: none of a node that is set aside."""
        is_closed = any(each.key == names.BROKEN_TAINT_KEY for each in self.spec.taints)
        return 0 if is_closed else self.ready


NODES: Final = Kind(Resource("", "v1", "nodes", "Node", False, KubernetesNode, annotation_prefixes=()))


# What says whom a node was bought for: the request of its lease, or a placeholder on it.
REQUESTS: Final = Kind(PROVISIONING_REQUEST, Selection(labels=names.WORKLOAD_UID_LABEL))
PLACEHOLDERS: Final = Kind(
    PLACEHOLDER, Selection(namespace=names.PLACEHOLDER_NAMESPACE, labels=names.WORKLOAD_UID_LABEL)
)
_NOBODY: Final = (0.0, "")


@dataclass(slots=True)
class Bookings:
    """Which job nodes are kept for, by place: a lease, or the name of a node. `unlisted`: kinds of which
    nothing is known yet.
    """

    ids: Ids
    unlisted: set[Kind]
    _at: defaultdict[str, dict[tuple[Kind, Key], tuple[float, str]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    _places: dict[tuple[Kind, Key], str] = field(default_factory=dict)

    def replace(self, kind: Kind, objects: Sequence[Object], *, at: float) -> None:
        for booking in [each for each in self._places if each[0] == kind]:
            self.remove(*booking)
        for obj in objects:
            self.put(kind, obj, at=at)
        self.unlisted.discard(kind)

    def put(self, kind: Kind, obj: Object, *, at: float) -> None:
        self.remove(kind, obj.key)
        if place := _place(obj):
            job = self.ids.of(obj.metadata.labels[names.WORKLOAD_UID_LABEL])
            self._places[kind, obj.key] = place
            self._at[place][kind, obj.key] = (seconds(obj.metadata.creation_timestamp, at), job)

    def remove(self, kind: Kind, key: Key) -> None:
        if (place := self._places.pop((kind, key), None)) is not None:
            del self._at[place][kind, key]
            if not self._at[place]:
                del self._at[place]

    def job_at(self, places: Sequence[str]) -> tuple[float, str]:
        """When a node of these places was asked for, and the job that it is kept for, "" for none."""
        found = (booking for place in places if place in self._at for booking in self._at[place].values())
        return next(found, _NOBODY)


def _place(obj: Object) -> str:
    if isinstance(obj, ProvisioningRequest):
        return _lease(obj.status.provisioning_class_details.get(names.GKE_LEASE_DETAIL, ""))
    assert isinstance(obj, Placeholder)
    return "" if obj.status.has_ended else _named(obj.spec.node_name)


def _lease(name: str) -> str:
    return f"lease {name}" if name else ""


def _named(node: str) -> str:
    return f"node {node}" if node else ""


@dataclass(slots=True)
class WithNodes:
    """What a scheduler's source records, and nodes. `kinds_of_bookings` say whom nodes were bought for."""

    jobs: Source
    ids: Ids
    kinds_of_bookings: Sequence[Kind] = ()
    _nodes: dict[str, Node] = field(default_factory=dict)
    _places: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _bookings: Bookings = field(init=False)

    def __post_init__(self) -> None:
        self._bookings = Bookings(self.ids, {*self.kinds_of_bookings})

    @property
    def kinds(self) -> Sequence[Kind]:
        return (*self.jobs.kinds, NODES, *self.kinds_of_bookings)

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
        if kind in self.kinds_of_bookings:
            self._bookings.replace(kind, objects, at=at)
            return self._booked(at)
        if kind is not NODES:
            return self.jobs.replace(kind, objects, at=at, gone_at=gone_at)
        there = {self.ids.of(each.metadata.uid) for each in objects}
        gone = [node for id in [*self._nodes] if id not in there for node in self._remove_node(id, gone_at)]
        return [*gone, *(node for each in objects for node in self._observe(each, at))]

    def put(self, kind: Kind, obj: Object, *, at: float) -> Sequence[Job | Node]:
        if kind in self.kinds_of_bookings:
            self._bookings.put(kind, obj, at=at)
            return self._booked(at)
        return self._observe(obj, at) if kind is NODES else self.jobs.put(kind, obj, at=at)

    def remove(self, kind: Kind, obj: Object, *, at: float) -> Sequence[Job | Node]:
        if kind in self.kinds_of_bookings:
            self._bookings.remove(kind, obj.key)
            return self._booked(at)
        if kind is not NODES:
            return self.jobs.remove(kind, obj, at=at)
        return self._remove_node(self.ids.of(obj.metadata.uid), at)

    def _observe(self, obj: Object, at: float) -> list[Node]:
        assert isinstance(obj, KubernetesNode)
        id = self.ids.of(obj.metadata.uid)
        before = self._nodes.get(id)
        meta = obj.metadata
        self._places[id] = (_lease(meta.labels.get(names.GKE_LEASE_LABEL, "")), _named(meta.name))
        node = self._with_booking(observe(obj, id, before, at=at), at)
        if node == before or not (node.gpus or node.pool):
            return []
        self._nodes[id] = node
        return [node]

    def _booked(self, at: float) -> list[Node]:
        """The nodes that are kept for another job now."""
        after = (self._with_booking(node, at) for node in self._nodes.values())
        changed = [node for node in after if node is not self._nodes[node.id]]
        self._nodes |= {node.id: node for node in changed}
        return changed

    def _with_booking(self, node: Node, at: float) -> Node:
        """From its creation on, where it was asked for before."""
        if self._bookings.unlisted or node.id not in self._places:
            return node
        asked, job = self._bookings.job_at(self._places[node.id])
        if job == (node.booked[-1].job if node.booked else ""):
            return node
        since = node.created if not node.booked and asked <= node.created else at
        return replace(node, booked=(*node.booked, Booked(max(since, node.created), job)))

    def _remove_node(self, id: str, at: float) -> list[Node]:
        self._places.pop(id, None)
        node = self._nodes.pop(id, None)
        return [] if node is None else [replace(node, left=max(at, node.created))]


def observe(obj: KubernetesNode, id: str, before: Node | None, *, at: float) -> Node:
    """The node as it is known now. One that is Ready when it is seen first could be used since it got Ready
    last, at most until now: nothing says since when it is set aside.
    """
    labels, status = obj.metadata.labels, obj.status
    created = seconds(obj.metadata.creation_timestamp, at)
    usable = obj.usable
    if before is not None:
        states = before.usable
    else:
        since = seconds(status.since("Ready"), at)
        states = (Usable(max(since, created), obj.ready),) if obj.ready else ()
    if usable != (states[-1].gpus if states else 0):
        states = (*states, Usable(max(at, created), usable))
    return Node(
        id=id,
        pool=labels.get(names.POOL_LABEL, ""),
        machine=labels.get(INSTANCE_TYPE_LABEL, ""),
        created=created,
        gpus=max(_devices(status.capacity), usable, 0 if before is None else before.gpus),
        usable=states,
        booked=() if before is None else before.booked,
    )


def _devices(amounts: Quantities) -> int:
    return sum(parse_amount(resource, amounts.get(resource, 0)) for resource in names.DEVICE_RESOURCES)
