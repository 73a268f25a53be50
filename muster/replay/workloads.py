"""Jobs of a cluster with Kueue: its Workloads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from muster.controller.kube.resource import Key, Object, Resource
from muster.model.stack import Scheduler
from muster.replay.kueue import refined
from muster.replay.moment import Tracker
from muster.replay.recording import Job, Recording
from muster.replay.watch import Kind, metadata


class Workload(Object, frozen=True):
    """A Workload as JSON: the snapshot's reader chooses its fields."""

    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] = msgspec.field(default_factory=dict)


WORKLOADS: Final = Kind(
    Resource("kueue.x-k8s.io", "v1beta2", "workloads", "Workload", True, Workload, annotation_prefixes=())
)


@dataclass(slots=True)
class Workloads:
    """The source of a recording of Kueue."""

    tracker: Tracker
    scheduler: Scheduler = Scheduler.KUEUE
    kinds: Sequence[Kind] = (WORKLOADS,)
    count: int = 0
    _uids: dict[Key, str] = field(default_factory=dict)

    @property
    def open_count(self) -> int:
        return len(self.tracker.open)

    def restore(self, recording: Recording) -> None:
        self.tracker.restore(recording)

    def replace(self, kind: Kind, objects: Sequence[Object], *, at: float, gone_at: float) -> list[Job]:
        self._uids = {each.key: each.metadata.uid for each in objects}
        gone = self.tracker.keep_only({*self._uids.values()}, at=gone_at)
        return [*gone, *(job for each in objects for job in self._observe(each, at=None, gone_at=at))]

    def put(self, kind: Kind, obj: Object, *, at: float) -> list[Job]:
        return self._observe(obj, at=at, gone_at=at)

    def remove(self, kind: Kind, obj: Object, *, at: float) -> list[Job]:
        uid = self._uids.pop(obj.key, obj.metadata.uid)
        stated = obj.metadata.deletion_timestamp
        return self._leave(uid, at if stated is None else refined(stated.timestamp(), at))

    def _observe(self, obj: Object, *, at: float | None, gone_at: float) -> list[Job]:
        assert isinstance(obj, Workload)
        before, uid = self._uids.get(obj.key), obj.metadata.uid
        left = self._leave(before, gone_at) if before is not None and before != uid else []
        self._uids[obj.key] = uid
        is_new = self.tracker.ids.of(uid) not in self.tracker.open
        job = self.tracker.observe({"metadata": metadata(obj), "spec": obj.spec, "status": obj.status}, at=at)
        if job is None:
            return left
        self.count += is_new
        return [*left, job]

    def _leave(self, uid: str, at: float) -> list[Job]:
        job = self.tracker.remove(uid, at=at)
        return [] if job is None else [job]
