"""Jobs of a cluster, by what they are made of: with Kueue its Workloads; with KAI its PodGroups, their pods,
and the Events of evictions.

kueue.py and kai.py say what one of them tells of its job. Here is which objects belong together. A PodGroup
names neither its pods nor what they ask for, so nothing is decided before every kind was listed once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from muster.controller.gangs.objects import Condition, PodSpec, PodStatus
from muster.controller.kai.objects import PRIORITY_CLASS, PriorityClass
from muster.controller.kube.client import Selection
from muster.controller.kube.resource import Key, Object, Partial, Resource
from muster.live.snapshot.kueue import parse_pods
from muster.live.snapshot.workloads import least
from muster.model import names
from muster.model.stack import Scheduler
from muster.replay import kai
from muster.replay.kai import Eviction, Pod
from muster.replay.kueue import refined
from muster.replay.moment import Tracker
from muster.replay.recording import Ids, Job, Recording, deleted, tie
from muster.replay.stored import to_pod_set
from muster.replay.watch import Kind, metadata, seconds


class Workload(Object, frozen=True):
    """A Workload as JSON: the snapshot's reader chooses its fields."""

    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] = msgspec.field(default_factory=dict)


WORKLOADS: Final = Kind(
    Resource(
        *("kueue.x-k8s.io", "v1beta2", "workloads", "Workload", True, Workload),
        annotation_prefixes=(names.IDLE_SINCE_ANNOTATION,),
    )
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
        return self._end_job(uid, at if stated is None else refined(stated.timestamp(), at))

    def _observe(self, obj: Object, *, at: float | None, gone_at: float) -> list[Job]:
        assert isinstance(obj, Workload)
        before, uid = self._uids.get(obj.key), obj.metadata.uid
        left = self._end_job(before, gone_at) if before is not None and before != uid else []
        self._uids[obj.key] = uid
        is_new = self.tracker.ids.of(uid) not in self.tracker.open
        job = self.tracker.observe({"metadata": metadata(obj), "spec": obj.spec, "status": obj.status}, at=at)
        if job is None:
            return left
        self.count += is_new
        return [*left, job]

    def _end_job(self, uid: str, at: float) -> list[Job]:
        job = self.tracker.remove(uid, at=at)
        return [] if job is None else [job]


_GROUP_ANNOTATION: Final = "pod-group-name"
# On an Event of the reason Evict (KAI 0.12 and 0.17, pkg/scheduler/cache/status_updater).
_BY_NAMESPACE: Final = "evictor-pod-group-namespace"
_BY_NAME: Final = "evictor-pod-group-name"
_ACTION: Final = "evictor-action-type"
# Kubernetes gives these to every pod.
_OWN_TOLERATIONS: Final = "node.kubernetes.io/"
_KEPT_EVICTIONS: Final = 16


class SubGroup(Partial, frozen=True):
    min_member: int = 0


class GroupSpec(Partial, frozen=True):
    queue: str = ""
    priority_class_name: str = ""
    min_member: int = 0
    sub_groups: tuple[SubGroup, ...] = ()

    @property
    def least(self) -> int:
        return least(self.min_member, (each.min_member for each in self.sub_groups))


class PodGroup(Object, frozen=True):
    spec: GroupSpec = GroupSpec()


class Terminated(Partial, frozen=True):
    finished_at: datetime | None = None


class ContainerState(Partial, frozen=True):
    terminated: Terminated | None = None


class ContainerStatus(Partial, frozen=True):
    state: ContainerState = ContainerState()


class GroupedStatus(PodStatus, frozen=True):
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class GroupedPod(Object, frozen=True):
    """No image, no command and no environment is decoded."""

    spec: PodSpec = PodSpec()
    status: GroupedStatus = GroupedStatus()


class Involved(Partial, frozen=True):
    namespace: str = ""
    name: str = ""


class Event(Object, frozen=True):
    involved_object: Involved = Involved()
    last_timestamp: datetime | None = None
    event_time: datetime | None = None


POD_GROUPS: Final = Kind(
    Resource("scheduling.run.ai", "v2alpha2", "podgroups", "PodGroup", True, PodGroup, annotation_prefixes=())
)
PODS: Final = Kind(
    Resource("", "v1", "pods", "Pod", True, GroupedPod, annotation_prefixes=(_GROUP_ANNOTATION,)),
    Selection(fields=f"spec.schedulerName={names.KAI_SCHEDULER}"),
)
EVICTIONS: Final = Kind(
    Resource("", "v1", "events", "Event", True, Event, annotation_prefixes=("evictor-",)),
    Selection(fields="reason=Evict,involvedObject.kind=PodGroup"),
)
PRIORITIES: Final = Kind(PRIORITY_CLASS)


@dataclass(slots=True)
class PodGroups:
    """The source of a recording of KAI. `start`: what ended before is not part of the recording."""

    ids: Ids
    start: float
    with_names: bool = False
    scheduler: Scheduler = Scheduler.KAI
    kinds: Sequence[Kind] = (POD_GROUPS, PODS, EVICTIONS, PRIORITIES)
    count: int = 0
    _listed: set[Kind] = field(default_factory=set)
    _groups: dict[Key, PodGroup] = field(default_factory=dict)
    _pods: defaultdict[Key, dict[Key, Pod]] = field(default_factory=lambda: defaultdict(dict))
    _group_of: dict[Key, Key] = field(default_factory=dict)
    _evictions: defaultdict[Key, list[Eviction]] = field(default_factory=lambda: defaultdict(list))
    _priorities: dict[str, int] = field(default_factory=dict)
    _jobs: dict[str, Job] = field(default_factory=dict)

    @property
    def open_count(self) -> int:
        return sum(job.left is None for job in self._jobs.values())

    def restore(self, recording: Recording) -> None:
        self._jobs = {job.id: job for job in recording.jobs}

    def replace(self, kind: Kind, objects: Sequence[Object], *, at: float, gone_at: float) -> list[Job]:
        if kind is POD_GROUPS:
            self._groups.clear()
        elif kind is PODS:
            known, self._pods, self._group_of = self._pods, defaultdict(dict), {}
            for obj in objects:
                self._put_pod(obj, known, at=at)
        for obj in objects:
            if kind is not PODS:
                self._take(kind, obj, at=at)
        self._listed.add(kind)
        if len(self._listed) < len(self.kinds):
            return []
        return [*self._gone(gone_at), *self._observed(self._groups, at=gone_at)]

    def put(self, kind: Kind, obj: Object, *, at: float) -> list[Job]:
        before = self._group_of.get(obj.key) if kind is PODS else None
        replaced = self._groups.get(obj.key) if kind is POD_GROUPS else None
        touched = self._take(kind, obj, at=at)
        is_new = replaced is not None and replaced.metadata.uid != obj.metadata.uid
        gone = self._end_job(self.ids.of(replaced.metadata.uid), at) if replaced and is_new else []
        return [*gone, *self._observed({each for each in (before, touched) if each}, at=at)]

    def remove(self, kind: Kind, obj: Object, *, at: float) -> list[Job]:
        if kind is POD_GROUPS:
            self._groups.pop(obj.key, None)
            self._evictions.pop(obj.key, None)
            asked = seconds(obj.metadata.deletion_timestamp, at)
            return self._end_job(self.ids.of(obj.metadata.uid), min(asked, at))
        home = self._group_of.pop(obj.key, None) if kind is PODS else None
        if home is None:
            return []
        self._pods[home].pop(obj.key, None)
        if not self._pods[home]:
            del self._pods[home]
        return self._observed([home], at=at)

    def _take(self, kind: Kind, obj: Object, *, at: float) -> Key | None:
        """Keep what an object says; the PodGroup that it is about."""
        match obj:
            case PodGroup():
                self._groups[obj.key] = obj
                return obj.key
            case GroupedPod():
                return self._put_pod(obj, self._pods, at=at)
            case Event():
                return self._put_eviction(obj, at=at)
            case PriorityClass():
                self._priorities[obj.metadata.name] = obj.value
        return None

    def _put_pod(self, obj: Object, known: dict[Key, dict[Key, Pod]], *, at: float) -> Key | None:
        assert isinstance(obj, GroupedPod)
        name = obj.metadata.annotations.get(_GROUP_ANNOTATION)
        if not name:
            return None
        home = Key(obj.metadata.namespace, name)
        before = known.get(home, {}).get(obj.key)
        self._pods[home][obj.key] = _to_pod(obj, before, at=at, with_names=self.with_names)
        self._group_of[obj.key] = home
        return home

    def _put_eviction(self, event: Event, *, at: float) -> Key:
        notes, involved = event.metadata.annotations, event.involved_object
        by = self._groups.get(Key(notes.get(_BY_NAMESPACE, ""), notes.get(_BY_NAME, "")))
        found = Eviction(
            seconds(event.last_timestamp or event.event_time, at),
            notes.get(_ACTION, "evict"),
            "" if by is None else self.ids.of(by.metadata.uid),
        )
        home = Key(involved.namespace, involved.name)
        if found not in self._evictions[home]:
            self._evictions[home] = sorted([*self._evictions[home], found], key=lambda each: each.at)[
                -_KEPT_EVICTIONS:
            ]
        return home

    def _observed(self, keys: Iterable[Key], *, at: float) -> list[Job]:
        if len(self._listed) < len(self.kinds):
            return []
        return [job for key in keys if (job := self._observe(key, at)) is not None]

    def _observe(self, key: Key, at: float) -> Job | None:
        """The job of a PodGroup where it has changed."""
        group = self._groups.get(key)
        if group is None:
            return None
        base = self._base(group)
        before = self._jobs.get(base.id)
        job = kai.observe(
            base,
            [*self._pods.get(key, {}).values()],
            self._evictions.get(key, ()),
            least=group.spec.least,
            before=before,
            at=at,
        )
        if job == before or not job.pod_sets or (job.left is not None and job.left < self.start):
            return None
        self.count += before is None
        self._jobs[job.id] = job
        return job

    def _base(self, group: PodGroup) -> Job:
        meta, spec = group.metadata, group.spec
        owner = next(iter(meta.owner_references), None)
        what = f"{owner.kind}/{owner.name}" if owner else meta.name
        return Job(
            id=self.ids.of(meta.uid),
            team=spec.queue,
            queue=spec.queue,
            cluster_queue=spec.queue,
            created=seconds(meta.creation_timestamp, 0.0),
            pod_sets=(),
            priority=self._priorities.get(spec.priority_class_name, 0),
            priority_class=spec.priority_class_name,
            tie=tie(meta.uid),
            name=f"{meta.namespace}/{what}" if self.with_names else "",
        )

    def _gone(self, at: float) -> list[Job]:
        """Jobs whose PodGroup is no more."""
        known = {self.ids.of(each.metadata.uid) for each in self._groups.values()}
        return [job for id in [*self._jobs] if id not in known for job in self._end_job(id, at)]

    def _end_job(self, id: str, at: float) -> list[Job]:
        job = self._jobs.pop(id, None)
        return [deleted(job, at=at)] if job is not None and job.left is None else []


def _to_pod(obj: GroupedPod, before: Pod | None, *, at: float, with_names: bool) -> Pod:
    spec: dict[str, Any] = msgspec.to_builtins(obj.spec)
    spec["tolerations"] = [
        each
        for each in spec.get("tolerations", ())
        if not str(each.get("key", "")).startswith(_OWN_TOLERATIONS)
    ]
    spec["containers"], spec["initContainers"] = (
        list(spec.get(key, ())) for key in ("containers", "initContainers")
    )
    shape = to_pod_set(parse_pods(spec, name="", count=1), 0, with_names=with_names)
    return Pod(
        shape=shape,
        key=kai.key_of(shape),
        bound=_bound(obj, before, at) if obj.spec.node_name else None,
        ended=_ended(obj, before, at) if obj.status.has_ended else None,
        is_failed=obj.status.phase == "Failed",
        is_going=obj.metadata.deletion_timestamp is not None,
    )


def _bound(obj: GroupedPod, before: Pod | None, at: float) -> float:
    since = next(
        (
            each.last_transition_time
            for each in obj.status.conditions
            if each.type == "PodScheduled" and each.status == "True"
        ),
        None,
    )
    return seconds(since, at if before is None or before.bound is None else before.bound)


def _ended(obj: GroupedPod, before: Pod | None, at: float) -> float:
    states = (each.state.terminated for each in obj.status.container_statuses)
    ends = [each.finished_at for each in states if each is not None and each.finished_at is not None]
    known = at if before is None or before.ended is None else before.ended
    return seconds(max(ends, default=None), known)
