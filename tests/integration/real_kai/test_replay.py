"""`muster diff --replay` for a stack with KAI: its own scheduler decides in logical time."""

import contextlib
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from muster.cli import main
from muster.config import load
from muster.model import names
from muster.model.stack import Scheduler
from muster.preview.replay.both import to_kai_side
from muster.replay.assumptions import Assumptions
from muster.replay.kai_player import play_course
from muster.replay.player import Playback, PlayedRun, UnplayableError
from muster.replay.recording import Header, Job, Recording
from muster.replay.recording_file import write_recording
from tests.integration.killed import ends_with_its_caller
from tests.integration.lab import recorded_job, run_of, write_stack

_START: Final = 1_764_000_000
_HOUR: Final = 3600


def _stack(path: Path, *, vision: int, speech: int, **kai: str) -> Path:
    """8 nodes of one GPU. Teams may use all of it."""
    teams = {
        name: {"quota": {"l4": quota}, "borrow": {"l4": 8 - quota}, "priorities": ["train", "build"]}
        for name, quota in (("vision", vision), ("speech", speech))
    }
    return write_stack(
        path,
        teams,
        scheduler="kai",
        kai={"shard": {"minRuntime": kai}} if kai else {},
        gangAdmission={"kai": {"overQuota": "allow"}},
        priorities={"train": 50, "build": 90},
    )


def _job(name: str, team: str, *, at: int, gpus: int, seconds: int, priority: str = "train") -> Job:
    begun = float(_START + at)
    more = {"priority": 0, "priority_class": priority}
    return recorded_job(name, team, run_of(begun, seconds), created=begun, gpus=1, pods=gpus, **more)


def _recording(*jobs: Job) -> Recording:
    header = Header(scheduler=Scheduler.KAI, start=_START, end=_START + 20 * _HOUR, source="test")
    return Recording(header=header, jobs=tuple(sorted(jobs, key=lambda job: job.created)))


def _play(stack: Path, program: Path, *jobs: Job, grace: int = 0) -> Playback:
    return to_kai_side(load(stack), _recording(*jobs), Assumptions(grace=grace)).play(program)


def _times(runs: Sequence[PlayedRun]) -> list[tuple[float, float | None]]:
    return [(run.start - _START, None if run.end is None else run.end - _START) for run in runs]


# Vision has all eight GPUs for three hours; after one speech, which has a quota of four, wants them.
_OVER: Final = _job("over", "vision", at=0, gpus=8, seconds=3 * _HOUR)
_OWN: Final = _job("own", "speech", at=_HOUR, gpus=4, seconds=_HOUR)


def test_work_over_quota_is_evicted_and_starts_again_from_its_beginning(
    program: Path, tmp_path: Path
) -> None:
    stack = _stack(tmp_path / "stack.yaml", vision=4, speech=4)
    played = _play(stack, program, _OVER, _OWN)
    assert _times(played.runs["speech/own"]) == [(_HOUR, 2 * _HOUR)]
    assert _times(played.runs["vision/over"]) == [(0, _HOUR), (2 * _HOUR, 5 * _HOUR)]
    lost = played.runs["vision/over"][0]
    assert (lost.is_evicted, lost.by, lost.reason) == (True, "speech/own", "reclaim")
    assert lost.usage["l4"][names.GPU_RESOURCE] == 8
    assert played.preemptions == 1


def test_an_evicted_gang_holds_its_nodes_for_the_grace(program: Path, tmp_path: Path) -> None:
    stack = _stack(tmp_path / "stack.yaml", vision=4, speech=4)
    played = _play(stack, program, _OVER, _OWN, grace=60)
    assert _times(played.runs["speech/own"]) == [(_HOUR + 60, 2 * _HOUR + 60)]
    assert _times(played.runs["vision/over"])[0] == (0, _HOUR)


def test_a_minimum_runtime_protects_by_the_clock_of_the_replay(program: Path, tmp_path: Path) -> None:
    stack = _stack(tmp_path / "stack.yaml", vision=4, speech=4, reclaimMinRuntime="90m")
    played = _play(stack, program, _OVER, _OWN)
    # KAI looks again in the second after the protection.
    assert _times(played.runs["speech/own"])[0] == (90 * 60 + 1, 150 * 60 + 1)


def test_a_gang_that_fits_no_nodes_never_starts_and_kai_says_why(program: Path, tmp_path: Path) -> None:
    stack = _stack(tmp_path / "stack.yaml", vision=4, speech=4)
    played = _play(stack, program, _job("huge", "vision", at=0, gpus=9, seconds=60), _OWN)
    assert played.runs["vision/huge"] == ()
    assert played.reasons["vision/huge"]
    assert len(played.runs["speech/own"]) == 1


def test_a_run_that_was_evicted_ends_without_a_look_of_kai(program: Path, tmp_path: Path) -> None:
    stack = _stack(tmp_path / "stack.yaml", vision=4, speech=4)
    waiting = _job("huge", "vision", at=0, gpus=9, seconds=60)
    # Nothing happens when the run of `over` that KAI evicted would have ended, at three hours.
    played = _play(stack, program, _OVER, _OWN, waiting)
    once = _play(
        stack,
        program,
        replace(_OVER, runs=(replace(_OVER.runs[0], ended=_START + 2 * _HOUR),)),
        _OWN,
        waiting,
    )
    assert played.cycles == once.cycles


def test_a_replay_that_takes_too_long_is_refused_with_where_it_is(program: Path, tmp_path: Path) -> None:
    side = to_kai_side(load(_stack(tmp_path / "stack.yaml", vision=4, speech=4)), _recording(_OVER, _OWN))
    with pytest.raises(UnplayableError, match=r"0 s of processor time .* where 0 jobs run and 1 wait"):
        play_course(replace(side.course, processor_seconds=0), side.entries, program=program)


def test_the_same_recording_gives_the_same_decisions(program: Path, tmp_path: Path) -> None:
    stack = _stack(tmp_path / "stack.yaml", vision=4, speech=4)
    shape = [("vision", 5), ("speech", 3), ("vision", 2), ("speech", 6), ("vision", 8), ("speech", 1)]
    jobs = [
        _job(f"j{number}", team, at=number * 600, gpus=gpus, seconds=1500 + 700 * number)
        for number, (team, gpus) in enumerate(shape)
    ]
    first, second = (_play(stack, program, *jobs) for _ in range(2))
    assert first.digest == second.digest
    assert first.runs == second.runs


def test_the_report_says_who_would_have_waited(program: Path, tmp_path: Path) -> None:
    jobs = [_job(f"v{index}", "vision", at=index * _HOUR, gpus=4, seconds=2 * _HOUR) for index in range(6)]
    jobs += [
        replace(_job(f"s{index}", "speech", at=index * _HOUR, gpus=4, seconds=_HOUR), id=f"s{index}")
        for index in range(6)
    ]
    write_recording(tmp_path / "month.jsonl", _recording(*jobs))
    base = _stack(tmp_path / "base.yaml", vision=4, speech=4)
    head = _stack(tmp_path / "head.yaml", vision=8, speech=0)
    command = ["diff", str(head), "--base", str(base), "--replay", str(tmp_path / "month.jsonl"), "--json"]
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")) as out:
        assert main(command) == 0
    out.seek(0)
    found = json.loads(out.read())["stacks"][0]["replay"]
    assert found["base"]["waits"]["teams"]["speech"]["p50"] == 0
    assert found["head"]["waits"]["teams"]["speech"]["p50"] > _HOUR
    assert "speech would have waited" in found["sentence"]
    assert any("KAI 0.12.0" in each for each in found["assumptions"])


def test_the_player_ends_when_its_caller_is_killed(program: Path, tmp_path: Path) -> None:
    stack = load(_stack(tmp_path / "stack.yaml", vision=4, speech=4))
    jobs = [_job(f"job-{index}", "vision", at=0, gpus=1, seconds=600) for index in range(1500)]
    side = to_kai_side(stack, _recording(*jobs))
    ends_with_its_caller(play_course, side.course, side.entries, program=program)
