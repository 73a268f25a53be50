"""What PodGroups of KAI, their pods and the Events of evictions say about jobs."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import pytest

from muster.controller.kube.resource import Object
from muster.model import names
from muster.replay.recording import End, Header, Ids, Job, Recording
from muster.replay.sources import EVICTIONS, POD_GROUPS, PODS, PRIORITIES, PodGroups
from muster.replay.stored import fold
from muster.replay.watch import Kind

_START: Final = datetime(2026, 11, 21, 10, tzinfo=UTC).timestamp()
SECRET: Final = "hunter2"


def _text(second: float) -> str:
    return datetime.fromtimestamp(_START + second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _group(name: str = "train", *, least: int = 2, queue: str = "vision") -> dict[str, Any]:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": SECRET, "uid": "u", "controller": True}
    return {
        "metadata": {
            "name": f"pg-{name}",
            "namespace": "space",
            "uid": f"beef-{name}",
            "creationTimestamp": _text(0),
            "ownerReferences": [owner],
        },
        "spec": {"queue": queue, "priorityClassName": "prod", "minMember": least},
    }


def _pod(name: str, group: str = "train", *, gpus: int = 1, **more: Any) -> dict[str, Any]:
    """`bound`, `ended`: in seconds; `phase`; `going`."""
    resources = {"requests": {"cpu": "1"}, "limits": {names.GPU_RESOURCE: str(gpus)}}
    container = {"name": "main", "image": SECRET, "command": [SECRET], "resources": resources}
    never = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    spec: dict[str, Any] = {"containers": [container], "tolerations": [never], "nodeSelector": {}}
    spec["nodeSelector"] = {names.POOL_LABEL: "h100", "kubernetes.io/hostname": "node-7"}
    metadata = {
        "name": name,
        "namespace": "space",
        "uid": name,
        "annotations": {"pod-group-name": f"pg-{group}"},
    }
    status: dict[str, Any] = {"phase": more.get("phase", "Pending")}
    if "bound" in more:
        spec["nodeName"] = "node-7"
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": _text(more["bound"])}
        status["conditions"] = [scheduled]
    if "ended" in more:
        terminated = {"finishedAt": _text(more["ended"]), "exitCode": 0}
        status["containerStatuses"] = [{"name": "main", "state": {"terminated": terminated}}]
    if more.get("going"):
        metadata["deletionTimestamp"] = _text(0)
    return {"metadata": metadata, "spec": spec, "status": status}


def _eviction(group: str, by: str, *, at: float, action: str = "reclaim") -> dict[str, Any]:
    notes = {
        "evictor-pod-group-name": f"pg-{by}",
        "evictor-pod-group-namespace": "space",
        "evictor-action-type": action,
    }
    return {
        "metadata": {"name": f"{group}.{at}", "namespace": "space", "annotations": notes},
        "involvedObject": {"kind": "PodGroup", "namespace": "space", "name": f"pg-{group}"},
        "reason": "Evict",
        "message": SECRET,
        "lastTimestamp": _text(at),
    }


@dataclass
class World:
    """A source, what it was fed with, and the lines that it gave."""

    source: PodGroups = field(default_factory=lambda: PodGroups(ids=Ids(b"key"), start=_START))
    lines: list[Job] = field(default_factory=list)

    def list_all(self, *, groups: list[Any], pods: list[Any], at: float = 0) -> None:
        classes = [{"metadata": {"name": "prod"}, "value": 1000}]
        for kind, objects in ((PRIORITIES, classes), (POD_GROUPS, groups), (EVICTIONS, []), (PODS, pods)):
            found = [_object(kind, each) for each in objects]
            now = _START + at
            self.lines += self.source.replace(kind, found, at=now, gone_at=now)

    def put(self, kind: Kind, body: dict[str, Any], *, at: float) -> None:
        self.lines += self.source.put(kind, _object(kind, body), at=_START + at)

    def remove(self, kind: Kind, body: dict[str, Any], *, at: float) -> None:
        self.lines += self.source.remove(kind, _object(kind, body), at=_START + at)

    @property
    def recording(self) -> Recording:
        header = Header(scheduler=self.source.scheduler, start=_START, end=_START, source="cluster")
        return fold([header, *self.lines], source="test")

    def job(self, name: str = "train") -> Job:
        id = self.source.ids.of(f"beef-{name}")
        return next(each for each in self.recording.jobs if each.id == id)


def _object(kind: Kind, body: dict[str, Any]) -> Object:
    found: Object = msgspec.convert(body, kind.resource.type)
    return found


@pytest.fixture
def world() -> World:
    found = World()
    found.list_all(groups=[_group()], pods=[_pod("a"), _pod("b")])
    return found


def _run(world: World) -> None:
    world.put(PODS, _pod("a", bound=10), at=10)
    world.put(PODS, _pod("b", bound=12), at=12)


def test_a_waiting_job_says_what_it_asks_for(world: World) -> None:
    job = world.job()
    assert (job.team, job.queue, job.priority, job.priority_class) == ("vision", "vision", 1000, "prod")
    (pods,) = job.pod_sets
    assert (pods.count, pods.requests) == (2, {"cpu": 1000, names.GPU_RESOURCE: 1})
    assert (pods.pools, pods.node_selector, pods.tolerations) == (("h100",), {names.POOL_LABEL: "h100"}, ())
    assert (job.created, job.runs, job.left, job.tie) == (_START, (), None, 0xBEEF)


def test_nothing_that_was_not_asked_for_is_kept(world: World) -> None:
    _run(world)
    assert SECRET not in repr(world.lines)
    assert "pg-train" not in repr(world.lines)


def test_a_job_starts_when_the_last_pod_that_it_needs_has_its_node(world: World) -> None:
    world.put(PODS, _pod("a", bound=10), at=10)
    assert world.job().runs == ()
    world.put(PODS, _pod("b", bound=12), at=12)
    (run,) = world.job().runs
    assert (run.reserved, run.admitted, run.ended) == (_START + 12, _START + 12, None)
    assert world.job().wait == 12


def test_the_subgroups_of_a_ray_cluster_are_one_gang() -> None:
    group = _group()
    group["spec"] |= {
        "minMember": 0,
        "subGroups": [{"name": "head", "minMember": 1}, {"name": "w", "minMember": 2}],
    }
    world = World()
    pods = [_pod("head", gpus=0, bound=1), _pod("w-0", bound=2), _pod("w-1")]
    world.list_all(groups=[group], pods=pods)
    assert world.job().runs == ()
    world.put(PODS, _pod("w-1", bound=3), at=3)
    assert world.job().wait == 3
    assert [each.count for each in world.job().pod_sets] == [1, 2]


@pytest.mark.parametrize(("phase", "end"), [("Succeeded", End.FINISHED), ("Failed", End.FAILED)])
def test_a_job_has_left_when_its_last_pod_has_ended(world: World, phase: str, end: End) -> None:
    _run(world)
    world.put(PODS, _pod("a", bound=10, ended=50, phase="Succeeded"), at=51)
    assert world.job().left is None
    world.put(PODS, _pod("b", bound=12, ended=60, phase=phase), at=61)
    job = world.job()
    assert (job.left, job.outcome, job.runs[0].ended, job.runs[0].end) == (_START + 60, end, _START + 60, end)


def test_a_failed_job_that_tries_again_has_another_run(world: World) -> None:
    _run(world)
    world.put(PODS, _pod("a", bound=10, ended=50, phase="Failed"), at=50)
    world.put(PODS, _pod("b", bound=12, ended=50, phase="Failed"), at=50)
    assert world.job().outcome is End.FAILED
    world.put(PODS, _pod("c", bound=55), at=55)
    world.put(PODS, _pod("d", bound=55), at=55)
    job = world.job()
    assert [(run.admitted, run.ended) for run in job.runs] == [
        (_START + 12, _START + 50),
        (_START + 55, None),
    ]
    assert (job.left, job.pod_sets[0].count) == (None, 2)


@pytest.mark.parametrize("is_late", [False, True])
def test_an_evicted_job_waits_again_and_names_who_took_its_place(world: World, is_late: bool) -> None:
    """The Event of an eviction may come after the pods are gone."""
    _run(world)
    world.put(POD_GROUPS, _group("other", queue="speech"), at=20)
    world.put(PODS, _pod("o", "other"), at=20)
    event = _eviction("train", "other", at=30)
    if not is_late:
        world.put(EVICTIONS, event, at=30)
    for name, bound in (("a", 10), ("b", 12)):
        world.put(PODS, _pod(name, bound=bound, going=True), at=30)
    world.remove(PODS, _pod("a", bound=10), at=35)
    world.remove(PODS, _pod("b", bound=12), at=36)
    if is_late:
        assert world.job().outcome is End.DELETED
        world.put(EVICTIONS, event, at=37)
    job = world.job()
    (run,) = job.runs
    assert (run.evicted, run.ended) == (_START + 30, _START + 36)
    assert (run.end, run.reason, run.by) == (End.PREEMPTED, "reclaim", world.job("other").id)
    assert (job.left, job.pod_sets[0].count) == (None, 2)
    for name in ("c", "d"):
        world.put(PODS, _pod(name, bound=90), at=90)
    assert [each.admitted for each in world.job().runs] == [_START + 12, _START + 90]


def test_an_eviction_above_the_minimum_ends_no_run() -> None:
    world = World()
    pods = [_pod(name, bound=1) for name in ("a", "b", "c")]
    world.list_all(groups=[_group()], pods=pods)
    world.put(EVICTIONS, _eviction("train", "other", at=5), at=5)
    world.remove(PODS, _pod("c", bound=1), at=6)
    (run,) = world.job().runs
    assert (run.evicted, run.ended, world.job().pod_sets[0].min_count) == (None, None, 2)


def test_a_job_whose_pod_group_is_removed_counts_as_deleted(world: World) -> None:
    _run(world)
    world.remove(POD_GROUPS, _group(), at=70)
    assert (world.job().left, world.job().outcome) == (_START + 70, End.DELETED)
    assert world.source.open_count == 0


def test_a_recording_goes_on_with_the_runs_that_it_holds(world: World) -> None:
    _run(world)
    later = World(lines=[*world.lines])
    later.source.restore(world.recording)
    pods = [
        _pod("a", bound=10, ended=90, phase="Succeeded"),
        _pod("b", bound=12, ended=95, phase="Succeeded"),
    ]
    later.list_all(groups=[_group()], pods=pods, at=100)
    (run,) = later.job().runs
    assert (run.admitted, run.ended, run.end) == (_START + 12, _START + 95, End.FINISHED)
    gone = World(lines=[*world.lines])
    gone.source.restore(world.recording)
    gone.list_all(groups=[], pods=[], at=100)
    assert (gone.job().left, gone.job().outcome) == (_START + 100, End.DELETED)


def test_what_ended_before_the_start_is_not_recorded() -> None:
    world = World()
    pods = [_pod(name, bound=-90, ended=-60, phase="Succeeded") for name in ("a", "b")]
    world.list_all(groups=[_group()], pods=pods)
    assert world.lines == []


def test_equal_objects_write_no_line(world: World) -> None:
    _run(world)
    before = len(world.lines)
    world.put(PODS, _pod("b", bound=12), at=40)
    world.put(POD_GROUPS, _group(), at=41)
    assert len(world.lines) == before
