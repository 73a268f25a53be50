"""`muster plan` with the real player, on recordings of which the smallest change is worked out by hand."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any, Final

import pytest

from muster.cli import main
from muster.errors import ExitCode
from muster.model.stack import Scheduler
from muster.replay.recording import Header, Job, Recording
from muster.replay.recording_file import write_recording
from tests.integration.lab import recorded_job, run_of
from tests.unit.preview.preview_world import LAB

pytestmark = pytest.mark.usefixtures("program")
_START: Final = 1_764_000_000.0
_HOUR: Final = 3600.0
_HOURS: Final = 12
_STACK: Final = f"""\
# The lab's queues.
{LAB}\
    research:
      teams:
        vision: # sends a job of 4 GPUs each hour, which runs for two
          quota: {{l4: 4}} # one job
        speech: {{quota: {{l4: 4}}}}
"""


def _job(number: int, team: str, *, at: float, gpus: int, hours: float) -> Job:
    start = _START + at * _HOUR
    return recorded_job(f"{team}-{number}", team, run_of(start, hours * _HOUR), created=start, gpus=gpus)


def _plan(
    folder: Path, *options: str, stack: str = _STACK, others: tuple[Job, ...] = ()
) -> tuple[int, dict[str, Any], str]:
    """The exit code, the JSON, and the stack file afterwards."""
    jobs = [_job(hour, "vision", at=hour, gpus=4, hours=2) for hour in range(_HOURS)]
    header = Header(scheduler=Scheduler.KUEUE, start=_START, end=_START + _HOURS * _HOUR, source="test")
    recording = Recording(header=header, jobs=tuple(sorted([*jobs, *others], key=lambda job: job.created)))
    file = folder / "lab.yaml"
    file.write_text(stack)
    (folder / "month.jsonl").unlink(missing_ok=True)
    write_recording(folder / "month.jsonl", recording)
    command = ["plan", str(file), "--recording", str(folder / "month.jsonl"), *options, "--json"]
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")) as out:
        code = main(command)
    out.seek(0)
    return code, json.loads(out.read()), file.read_text()


def _lines(found: dict[str, Any]) -> list[str]:
    """What the patch changes."""
    return [
        line for line in found["patch"].splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")
    ]


def test_a_team_borrows_exactly_what_its_second_job_needs(tmp_path: Path) -> None:
    code, found, text = _plan(tmp_path, "--goal", "p95(vision) < 5m", "--jobs", "2")
    assert code == ExitCode.DONE
    assert _lines(found) == ["+          borrow: {l4: 4}"]
    assert found["cost"]["taken"] == 0
    waits = [
        found["diff"]["stacks"][0]["replay"][side]["waits"]["teams"]["vision"] for side in ("base", "head")
    ]
    assert [found["goals"][0][side] for side in ("before", "after")] == [each["p95"] for each in waits]
    assert waits[0]["p95"] > 9 * _HOUR
    assert waits[1]["p95"] < 300
    assert text == _STACK


def test_the_number_of_jobs_changes_nothing_and_equal_queues_are_replayed_once(tmp_path: Path) -> None:
    answers = [_plan(tmp_path, "--goal", "p95(vision) < 5m", "--jobs", jobs) for jobs in ("1", "3")]
    assert answers[0] == answers[1]
    # The base, 4 GPUs to borrow, and 2 and 3 of them. The pool has no free quota to give.
    assert answers[0][1]["replays"] == 4


def test_quota_moves_where_nothing_is_lent_and_the_file_is_written(tmp_path: Path) -> None:
    stack = _STACK.replace("speech: {quota: {l4: 4}}", "speech: {quota: {l4: 4}, lend: none}")
    code, found, text = _plan(tmp_path, "--goal", "p95(vision) < 5m", "--write", stack=stack)
    assert code == ExitCode.DONE
    assert found["cost"]["taken"] == 4
    assert text == stack.replace("quota: {l4: 4} # one", "quota: {l4: 8} # one").replace(
        "speech: {quota: {l4: 4}", "speech: {quota: {l4: 0}"
    )


def test_what_is_to_be_kept_is_kept_and_the_best_is_said_not_to_reach_the_goal(tmp_path: Path) -> None:
    stack = _STACK.replace("speech: {quota: {l4: 4}}", "speech: {quota: {l4: 4}, lend: none}")
    speech = (_job(0, "speech", at=3, gpus=4, hours=1),)
    wanted = ("--goal", "p95(vision) < 5m", "--keep", "p95(speech) < 1h", "--write")
    code, found, text = _plan(tmp_path, *wanted, stack=stack, others=speech)
    assert code == ExitCode.FOUND
    assert not found["met"]
    assert found["keep"][0]["met"]
    assert text == stack
    assert "Something else than the pool's size holds them back" in found["limits"][0]


def test_a_pool_that_is_full_is_said_to_need_nodes(tmp_path: Path) -> None:
    others = tuple(_job(hour, "speech", at=hour, gpus=4, hours=2) for hour in range(_HOURS))
    code, found, _ = _plan(tmp_path, "--goal", "p95(all) < 5m", others=others)
    assert code == ExitCode.FOUND
    assert "the pool is full. More nodes than its 8 help" in found["limits"][0]


def test_longer_runs_and_slow_nodes_count(tmp_path: Path) -> None:
    """Jobs that run three hours need 12 GPUs: no change of quotas is enough then."""
    varied = ("--durations", "x1.5", "--provisioning", "l4=6m")
    code, found, _ = _plan(tmp_path, "--goal", "p95(vision) < 5m", *varied)
    assert code == ExitCode.FOUND
    code, found, _ = _plan(
        tmp_path, "--goal", "p50(vision) < 7m", "--provisioning", "l4=6m", "--durations", "x0.9"
    )
    assert code == ExitCode.DONE
    assert found["goals"][0]["after"] >= 360
