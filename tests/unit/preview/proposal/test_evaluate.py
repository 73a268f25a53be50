"""The budget of replays: a stand-in for the player answers the first time, and plays for ever after that."""

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Final

import pytest

from muster.model import names
from muster.model.stack import Scheduler
from muster.preview.proposal.evaluate import INTERRUPTED, Budget, Evaluator, Subject, parse_goal
from muster.preview.proposal.search import Key, Knob, StoppedError, Values
from muster.replay.assumptions import AS_RECORDED
from muster.replay.recording import End, Header, Job, PodSet, Recording, Run
from tests.unit.model.model_stacks import parsed
from tests.unit.preview.preview_world import LAB
from tests.waiting import eventually

_TEXT: Final = (
    LAB
    + """\
    research:
      teams: {vision: {quota: {l4: 2}}, speech: {quota: {l4: 2}}}
"""
)
_PLAYER: Final = """\
#!{python}
import json, pathlib, sys, time
lines = [json.loads(line) for line in sys.stdin]
folder = pathlib.Path({folder!r})
if {answers} <= len(list(folder.iterdir())):
    (folder / "hangs").touch()
    time.sleep(600)
(folder / str(time.monotonic_ns())).touch()
print(json.dumps({{"job": "vision/job", "runs": [{{"start": 700, "end": 800, "usage": {{}}}}]}}))
print(json.dumps({{"digest": "d", "end": 800, "cycles": 1, "admissions": 1, "preemptions": 0}}))
"""
_BORROW: Final = Knob(Key.BORROW, "vision", "l4")


def _evaluator(folder: Path, *, answers: int = 1, evaluations: int = 40, seconds: float = 600.0) -> Evaluator:
    program, calls = folder / "player", folder / "calls"
    calls.mkdir()
    program.write_text(_PLAYER.format(python=sys.executable, folder=str(calls), answers=answers))
    program.chmod(0o755)
    stack = parsed(_TEXT)
    pods = PodSet(name="main", count=1, requests={names.GPU_RESOURCE: 1}, pools=("l4",))
    run = Run(reserved=0.0, admitted=0.0, ended=100.0, end=End.FINISHED)
    job = Job(id="job", team="vision", created=0.0, pod_sets=(pods,), runs=(run,), left=100.0)
    subject = Subject(
        file=folder / "lab.yaml",
        text=_TEXT,
        stack=stack,
        recording=Recording(
            header=Header(scheduler=Scheduler.KUEUE, start=0.0, end=1000.0, source="test"), jobs=(job,)
        ),
        assumptions=AS_RECORDED,
        goals=[parse_goal("p95(vision) < 5m", stack)],
        keeps=[],
    )
    return Evaluator(
        subject,
        program=program,
        budget=Budget(evaluations=evaluations, seconds=seconds, jobs=1),
        on_evaluation=lambda number, values, sample: None,
    )


def _changed(evaluator: Evaluator, knob: Knob, value: int) -> Values:
    return {**evaluator.space.values, knob: value}


def test_equal_queues_are_replayed_once(tmp_path: Path) -> None:
    evaluator = _evaluator(tmp_path)
    base = evaluator.base()
    assert base.sample.waits == [700.0]
    (score,) = evaluator([evaluator.space.values])
    assert score is not None
    assert score.shortfall == pytest.approx(0.5 + 0.5 * 400 / 700)
    assert score.broken == 0
    assert evaluator.evaluations == 1


def test_a_change_that_validation_refuses_is_not_replayed(tmp_path: Path) -> None:
    evaluator = _evaluator(tmp_path)
    evaluator.base()
    assert evaluator([_changed(evaluator, Knob(Key.QUOTA, "vision", "l4"), 7)]) == [None]
    assert evaluator.evaluations == 1


def test_the_number_of_replays_is_kept(tmp_path: Path) -> None:
    evaluator = _evaluator(tmp_path, answers=9, evaluations=2)
    evaluator.base()
    with pytest.raises(StoppedError, match="2 replays are done") as error:
        evaluator([_changed(evaluator, _BORROW, amount) for amount in (1, 2, 3)])
    assert len(error.value.found) == 1


def test_a_replay_that_runs_when_the_time_is_over_is_ended(tmp_path: Path) -> None:
    evaluator = _evaluator(tmp_path, seconds=0.0)
    evaluator.base()
    with pytest.raises(StoppedError, match="its time is over"):
        evaluator([_changed(evaluator, _BORROW, 1)])


def test_ctrl_c_ends_the_replays_that_run(tmp_path: Path) -> None:
    evaluator = _evaluator(tmp_path)
    evaluator.base()

    def interrupt() -> None:
        eventually("one runs", (tmp_path / "calls" / "hangs").exists)
        os.kill(os.getpid(), signal.SIGINT)

    waiting = threading.Thread(target=interrupt)
    waiting.start()
    with pytest.raises(StoppedError, match=INTERRUPTED):
        evaluator([_changed(evaluator, _BORROW, 1)])
    waiting.join()


def test_what_was_replayed_is_kept_while_the_project_around_the_file_changes(tmp_path: Path) -> None:
    evaluator = _evaluator(tmp_path, answers=2)
    evaluator.base()
    borrowing = _changed(evaluator, _BORROW, 1)
    evaluator([borrowing])
    (tmp_path / "Pulumi.yaml").write_text("name: [broken")
    assert evaluator.evaluation(borrowing).sample.waits == [700.0]
    assert "borrow: {l4: 1}" in evaluator.text(borrowing)
