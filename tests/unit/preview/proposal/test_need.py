"""What late jobs lacked, which moves follow from it, and what is said where none is enough."""

from pathlib import Path
from typing import Final

import pytest

from muster.config.edit import StackText
from muster.model import names
from muster.model.stack import Scheduler
from muster.preview.proposal.evaluate import Evaluation, Sample, parse_goal
from muster.preview.proposal.proposal import limits, to_need, to_patch
from muster.preview.proposal.search import Key, Knob, Move, Need, to_space, to_tiers
from muster.replay.figures import Played, wait_of
from muster.replay.player import Playback, PlayedRun
from muster.replay.recording import Header
from tests.unit.model.model_stacks import parsed
from tests.unit.preview.preview_world import LAB

_HOUR: Final = 3600
_TEXT: Final = (
    LAB
    + """\
    company:
      departments:
        research:
          borrow: {l4: 0}
          teams: {vision: {quota: {l4: 2}}}
        product:
          teams: {speech: {quota: {l4: 4}, lend: {l4: 1}}, ranking: {quota: {l4: 2}}}
"""
)
_STACK: Final = parsed(_TEXT)
_SPACE: Final = to_space(_STACK, StackText(_TEXT))
_HEADER: Final = Header(scheduler=Scheduler.KUEUE, start=0.0, end=10.0 * _HOUR, source="test")


def _knob(key: Key, owner: str) -> Knob:
    return Knob(key, owner, "l4")


def _evaluation(*found: tuple[str, int, int, int | None]) -> Evaluation:
    """(team, GPUs, start, end) of jobs that all arrive at 0; a start below 0 is a job that never starts."""
    jobs = [
        Played(key="", label=f"{team}/{number}", team=team, queue=team, priority="prod", gpus=gpus, arrival=0)
        for number, (team, gpus, _, _) in enumerate(found)
    ]
    runs = {
        job.label: (PlayedRun(start=start, end=end, usage={"l4": {names.GPU_RESOURCE: gpus}}),)
        if start >= 0
        else ()
        for job, (_, gpus, start, end) in zip(jobs, found, strict=True)
    }
    sample = Sample(
        jobs=jobs,
        waits=[wait_of(job, runs[job.label]) for job in jobs],
        preemptions=[0] * len(jobs),
        used=0.0,
    )
    playback = Playback(runs=runs, digest="", end=0, cycles=0, admissions=0, preemptions=0)
    return Evaluation(_STACK, playback, sample)


def _need(evaluation: Evaluation, goal: str) -> Need:
    return to_need(evaluation, [parse_goal(goal, _STACK)], _SPACE, _HEADER)


def test_late_jobs_need_the_pool_that_they_got_and_idle_quota_is_what_nobody_used() -> None:
    played = _evaluation(("vision", 2, 4 * _HOUR, 5 * _HOUR), ("speech", 4, 0, 5 * _HOUR))
    need = _need(played, "p50(all) < 1h")
    assert need.late == {("vision", "l4"): 2 * 4 * _HOUR}
    assert need.idle == {
        ("vision", "l4"): pytest.approx(2 - 0.2),
        ("speech", "l4"): pytest.approx(4 - 2),
        ("ranking", "l4"): 2,
    }


def test_a_job_that_never_starts_needs_any_pool_for_as_long_as_the_recording() -> None:
    assert _need(_evaluation(("vision", 1, -1, None)), "p50(vision) < 1h").late == {
        ("vision", "l4"): 10 * _HOUR
    }


def test_gifts_include_what_has_no_effect_without_the_department_or_the_lender() -> None:
    gifts, lowered, transfers = to_tiers(
        _SPACE, _need(_evaluation(("vision", 2, _HOUR, None)), "p50(all) < 1m")
    )
    borrow, department, lender = (
        _knob(Key.BORROW, "vision"),
        _knob(Key.BORROW, "research"),
        _knob(Key.LEND, "speech"),
    )
    assert Move(up=(borrow, department)) in gifts
    assert Move(up=(borrow, department, lender)) in gifts
    assert [move.down[0].owner for move in transfers] == ["speech", "ranking"]
    assert {move.down[0].key for move in lowered} == {Key.BORROW}


def test_a_pool_that_is_full_while_jobs_wait_is_said_to_be() -> None:
    played = _evaluation(("vision", 4, 4 * _HOUR, None), ("speech", 6, 0, 4 * _HOUR))
    (sentence,) = limits(played, parse_goal("p50(vision) < 1h", _STACK))
    assert sentence.startswith("For 100% of their wait, fewer GPUs of l4 were free")
    assert "the pool is full" in sentence


def test_jobs_that_wait_while_gpus_are_free_are_held_back_by_something_else() -> None:
    played = _evaluation(("vision", 4, 4 * _HOUR, None), ("vision", 9, -1, None))
    found = list(limits(played, parse_goal("p50(vision) < 1h", _STACK)))
    assert "Something else than the pool's size" in found[0]
    assert found[1].startswith("1 job would never start")


def test_a_patch_applies_to_a_file_without_a_last_newline() -> None:
    patch = to_patch(Path("stacks/a.yaml"), "a: 1\nb: 2", "a: 1\nb: 3")
    assert patch.splitlines()[:2] == ["--- a/stacks/a.yaml", "+++ b/stacks/a.yaml"]
    assert patch.endswith("-b: 2\n\\ No newline at end of file\n+b: 3\n\\ No newline at end of file\n")
