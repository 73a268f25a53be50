"""A recording in a stack that KAI schedules: which queue a job gets, and what KAI is told about it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muster.config import parse
from muster.live.errors import PreviewError
from muster.model import names
from muster.model.stack import Scheduler, Stack
from muster.preview.replay.both import replay
from muster.preview.replay.kai_side import NO_KAI_QUEUE, KaiSide, to_kai_side
from muster.replay.assumptions import Assumptions
from muster.replay.player import UnplayableError
from muster.replay.recording import Header, Job, PodSet, Recording, Run
from muster.replay.subject import NO_POOL, NO_RUN, NO_TEAM

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


def test_work_in_a_queue_without_a_parent_is_refused() -> None:
    teams = {"vision": {"quota": {"l4": 4}}}
    stack = _stack(departments={"research": {"kai": {"queue": "none"}, "teams": teams}})
    with pytest.raises(UnplayableError, match="no parent"):
        _side(stack, _JOB)


def test_two_schedulers_are_not_compared() -> None:
    def programs(_: Scheduler) -> Path:
        raise AssertionError("nothing is played")

    with pytest.raises(PreviewError, match="base has kueue where head has kai"):
        replay(_recording(_JOB), programs=programs)(
            _stack(scheduler="kueue", priorities={"build": 100}), _stack()
        )
