"""A recording in a stack that KAI schedules: which queue a job gets, and what KAI is told about it."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from muster.config import parse
from muster.errors import MusterError
from muster.live.snapshot import GroupPod, PodGroup, Snapshot
from muster.model import names
from muster.model.stack import Scheduler, Stack
from muster.preview.replay.both import NO_KAI_QUEUE, KaiDecider, KaiSide, replay, to_kai_side
from muster.replay.assumptions import Assumptions
from muster.replay.kai_player import KaiEntry
from muster.replay.moment import Moment, at_moment, kind_of, moment_of
from muster.replay.player import UnplayableError
from muster.replay.recording import Header, Job, PodSet, Recording, Run
from muster.replay.side import NO_POOL, NO_RUN, NO_TEAM

_PODS = PodSet(name="main", count=2, requests={names.GPU_RESOURCE: 4}, pools=("l4",))
_JOB = Job(
    id="j", team="vision", created=60, pod_sets=(_PODS,), runs=(Run(reserved=60, admitted=60, ended=90),)
)


def _stack(*, pools: tuple[str, ...] = ("l4",), scheduler: str = "kai", **more: Any) -> Stack:
    gpu = {"accelerator": "nvidia-l4", "machine": "local-l4", "maxNodes": 8}
    teams = {name: {"quota": dict.fromkeys(pools, 4), "borrow": {"l4": 2}} for name in ("vision", "speech")}
    described = {
        "cluster": {"provider": "existing", "name": "lab", "context": "lab"},
        "scheduler": scheduler,
        "pools": {"cpu": {"machine": "local-cpu", "minNodes": 1, "maxNodes": 1}, **dict.fromkeys(pools, gpu)},
        "priorities": {"train": 50, "build": 100},
        "departments": {"research": {"teams": teams}},
    }
    return parse(described | more, source="test")


def _recording(*jobs: Job) -> Recording:
    return Recording(header=Header(scheduler=Scheduler.KAI, start=0, end=99, source="test"), jobs=jobs)


def _side(stack: Stack, *jobs: Job, **more: Any) -> KaiSide:
    return to_kai_side(stack, _recording(*jobs), Assumptions(**more))


def test_jobs_that_the_stack_cannot_run_are_left_out_and_counted() -> None:
    pool = replace(_JOB, pod_sets=(replace(_PODS, pools=("b200",)),))
    side = _side(_stack(), _JOB, replace(_JOB, team="gone"), pool, replace(_JOB, runs=()))
    assert side.left_out == {NO_TEAM: 1, NO_POOL: 1, NO_RUN: 1}
    assert [(each.label, each.queue, each.gpus) for each in side.jobs] == [("vision/j", "vision", 8)]


def test_with_a_queue_for_each_pool_the_pool_decides_or_the_recorded_queue() -> None:
    stack = _stack(pools=("l4", "h100"))
    unnamed = replace(_JOB, id="k", pod_sets=(replace(_PODS, pools=()),))
    recorded = replace(unnamed, id="r", team="speech-h100", queue="speech-h100")
    side = _side(stack, _JOB, unnamed, recorded)
    assert [(each.team, each.queue) for each in side.jobs] == [
        ("vision", "vision-l4"),
        ("speech", "speech-h100"),
    ]
    assert side.left_out == {NO_KAI_QUEUE: 1}
    partitions = [each.group["metadata"]["labels"][names.POOL_LABEL] for each in side.entries]
    assert partitions == ["l4", "h100"]


def test_a_gang_needs_all_of_its_pods_or_the_recorded_minimum() -> None:
    elastic = replace(_JOB, pod_sets=(replace(_PODS, min_count=1),))
    members = [each.group["spec"]["minMember"] for each in _side(_stack(), _JOB, elastic).entries]
    assert members == [2, 1]


def test_a_priority_is_the_stacks_class_or_one_of_the_recorded_number() -> None:
    jobs = [
        replace(_JOB, priority_class="build", priority=7),
        replace(_JOB, priority=50),
        replace(_JOB, priority=60),
        _JOB,
    ]
    side = _side(_stack(), *jobs)
    classes = [each.group["spec"].get("priorityClassName") for each in side.entries]
    assert classes == ["build", "train", "recorded-60", None]
    values = {each["metadata"]["name"]: each["value"] for each in side.course.priority_classes}
    assert (values["build"], values["recorded-60"]) == (100, 60)


def test_every_pool_has_its_largest_size_and_taints_are_tolerated_for_a_list() -> None:
    side = _side(_stack(), _JOB, grace=30)
    assert [*side.course.flavors.values()].count("l4") == 8
    ((count, pod),) = side.entries[0].pods
    assert count == 2
    assert [each["key"] for each in pod["spec"]["tolerations"]] == [names.GPU_TAINT_KEY]
    assert side.course.grace == 30


def test_the_gate_makes_the_quota_the_limit_and_the_report_says_so() -> None:
    def limit(side: KaiSide) -> object:
        queue = next(each for each in side.course.queues if each["metadata"]["name"] == "vision")
        return queue["spec"]["resources"]["gpu"]["limit"]

    denied, allowed = _side(_stack()), _side(_stack(gangAdmission={"kai": {"overQuota": "allow"}}))
    assert (limit(denied), limit(allowed)) == (4, 6)
    assert len(denied.notes) == len(allowed.notes) + 1
    assert denied.gpus == 8


def test_kai_looks_again_when_a_minimum_runtime_is_over() -> None:
    kai = {"shard": {"minRuntime": {"reclaimMinRuntime": "10m"}}}
    assert _side(_stack(kai=kai)).course.protected == [601]


_RUNS = replace(_JOB, id="runs", created=40, runs=(Run(reserved=60, admitted=60),))
_WAITS = replace(_JOB, id="waits", created=50, runs=())
_LATER = replace(_JOB, id="later", created=200, runs=())


def _from(moment: Moment, *jobs: Job) -> dict[str, KaiEntry]:
    """Each job as it is played from a moment, where it is drawn to run for 900 s."""
    drawn = [replace(job, runs=(Run(reserved=0, admitted=0, ended=900),)) for job in jobs]
    side = to_kai_side(_stack(), _recording(*drawn), now=moment)
    assert side.left_out == {}
    return {job.key: entry for job, entry in zip(side.jobs, side.entries, strict=True)}


def test_what_ran_in_a_recording_is_placed_a_second_before_what_waits() -> None:
    """It has then run for 39 s of its 900."""
    found = _from(at_moment(_recording(_RUNS, _WAITS), 100), _RUNS, _WAITS, _LATER)
    assert {key: (each.at, each.ran) for key, each in found.items()} == {
        "vision/runs": (99, 39),
        "vision/waits": (100, 0),
        "vision/later": (200, 0),
    }
    assert found["vision/waits"].group["metadata"]["creationTimestamp"] == "1970-01-01T00:00:50Z"


def _group(name: str, *nodes: str, started: float | None = None) -> PodGroup:
    requests = {names.GPU_RESOURCE: 4}
    return PodGroup(
        namespace="vision",
        name=name,
        queue="vision",
        created=datetime.fromtimestamp(50, UTC),
        started=None if started is None else datetime.fromtimestamp(started, UTC),
        pods=tuple(
            GroupPod(name=f"{name}-{index}", requests=requests, node=node) for index, node in enumerate(nodes)
        ),
        min_member=2,
        priority_class="train",
    )


def _cluster(*groups: PodGroup) -> Moment:
    taken = datetime.fromtimestamp(100, UTC)
    return moment_of(Snapshot(taken=taken, scheduler=Scheduler.KAI, queues=(), pod_groups=groups, nodes=()))


def test_what_runs_in_a_cluster_keeps_its_nodes() -> None:
    moment = _cluster(_group("runs", "n1", "n2", "", started=60), _group("waits", "", ""))
    ((running,), (waiting,)) = [each.job for each in moment.running], moment.waiting
    assert (running.key, running.devices, waiting.key) == ("vision/runs", 12, "vision/waits")
    found = _from(moment, running, waiting)
    nodes = [pod["spec"].get("nodeName") for _, pod in found["vision/runs"].pods]
    assert nodes == ["n1", "n2", None]
    assert (found["vision/runs"].at, found["vision/runs"].ran) == (100, 40)
    assert found["vision/waits"].group["spec"]["minMember"] == 2


def test_a_gang_below_its_minimum_waits_and_pods_that_are_ending_are_gone() -> None:
    half = _group("half", "n1", "", started=60)
    ending = replace(half, name="ending", pods=tuple(replace(pod, is_ending=True) for pod in half.pods))
    moment = _cluster(half, ending)
    assert ([*moment.running], [job.id for job in moment.waiting]) == ([], ["half"])


def test_jobs_of_a_recorded_queue_and_of_a_namespace_are_of_one_team() -> None:
    decider = KaiDecider(_stack(pools=("l4", "h100")))
    recorded = replace(_JOB, team="vision-l4", queue="vision-l4")
    assert {kind_of(job, decider.teams).team for job in (_JOB, recorded)} == {"vision"}
    assert decider.why_unplayable(replace(_JOB, team="gone")) == NO_TEAM


def test_work_in_a_queue_without_a_parent_is_refused() -> None:
    teams = {"vision": {"quota": {"l4": 4}}}
    stack = _stack(departments={"research": {"kai": {"queue": "none"}, "teams": teams}})
    with pytest.raises(UnplayableError, match="no parent"):
        _side(stack, _JOB)


def test_two_schedulers_are_not_compared() -> None:
    def programs(_: Scheduler) -> Path:
        raise AssertionError("nothing is played")

    with pytest.raises(MusterError, match="base has kueue where head has kai"):
        replay(_recording(_JOB), programs=programs)(
            _stack(scheduler="kueue", priorities={"build": 100}), _stack()
        )
