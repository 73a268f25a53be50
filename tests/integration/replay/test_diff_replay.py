"""`muster diff --replay`: what a recording does in the queues of base and head, in comment, page and JSON."""

import contextlib
import io
import json
from typing import Any

import pytest

from muster.cli import main
from muster.model.stack import Scheduler
from muster.replay.recording import Header, Job, Recording
from muster.replay.recording_file import write_recording
from tests.integration.lab import recorded_job, run_of, write_stack

pytestmark = pytest.mark.usefixtures("program")
_START = 1_764_000_000.0
_HOUR = 3600.0


def _job(number: int, team: str, *, at: float, gpus: int, hours: float) -> Job:
    run = run_of(_START + at, hours * _HOUR)
    return recorded_job(f"job-{number}", team, run, created=_START + at, gpus=gpus)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Vision sends a job of 4 GPUs each hour that runs for two. With a quota of 4 GPUs and nothing to borrow
    it falls behind, while speech does not use its own.
    """
    folder = tmp_path_factory.mktemp("replay")
    jobs = [_job(index, "vision", at=index * _HOUR, gpus=4, hours=2) for index in range(20)]
    jobs.append(_job(99, "gone", at=5, gpus=1, hours=1))
    header = Header(scheduler=Scheduler.KUEUE, start=_START, end=_START + 20 * _HOUR, source="test")
    jobs.sort(key=lambda job: job.created)
    write_recording(folder / "month.jsonl", Recording(header=header, jobs=tuple(jobs)))
    base = write_stack(folder / "base.yaml", {"vision": {"quota": {"l4": 4}}, "speech": {"quota": {"l4": 4}}})
    head = write_stack(folder / "head.yaml", {"vision": {"quota": {"l4": 8}}, "speech": {"quota": {"l4": 0}}})
    page, comment, record = (folder / name for name in ("page.html", "comment.md", "out.json"))
    outputs = ["--html", str(page), "--markdown", str(comment)]
    command = ["diff", str(head), "--base", str(base), "--replay", str(folder / "month.jsonl"), *outputs]
    assert main(command) == 0

    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")) as out:
        assert main([*command[:6], "--json"]) == 0
    out.seek(0)
    record.write_text(out.read())
    return {
        "page": page.read_text(),
        "comment": comment.read_text(),
        "replay": json.loads(record.read_text())["stacks"][0]["replay"],
    }


def test_a_larger_quota_shortens_the_recorded_waits(written: dict[str, Any]) -> None:
    before, after = (written["replay"][side]["waits"]["teams"]["vision"] for side in ("base", "head"))
    # In base a job starts each two hours and one arrives each hour; the one in the middle waits nine hours.
    assert before["jobs"] == 20
    assert before["p50"] == pytest.approx(9 * _HOUR, abs=60)
    assert after["p95"] < 60


def test_the_first_line_of_the_replay_is_the_sentence(written: dict[str, Any]) -> None:
    assert written["replay"]["sentence"] == (
        "With these quotas, in the recorded day vision would have waited 9.0 h less in the median."
    )
    assert "`vision` would have waited 9.0 h less in the median" in written["comment"]
    assert "vision</code> would have waited 9.0 h less in the median" in written["page"]


def test_the_page_draws_utilisation_and_says_what_was_assumed(written: dict[str, Any]) -> None:
    assert "<svg role=img class=chart" in written["page"]
    assert written["page"].count("<polyline") == 2
    assert "starts from its beginning" in written["page"]


def test_jobs_of_a_team_that_the_stack_lacks_are_left_out_and_counted(written: dict[str, Any]) -> None:
    assert written["replay"]["leftOut"] == [
        "1 job whose namespace or team the stack does not have: not played."
    ]
