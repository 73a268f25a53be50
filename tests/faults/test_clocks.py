"""A wrong wall clock moves no promise: no gang stands half and none is lost, whatever the manager believes
the time to be. What it moves is when a gang is given up.
"""

import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from muster.model import names
from tests.faults import gangs, history
from tests.faults.stage import Stage

_MINUTES = 60
_SLACK = timedelta(seconds=3)
"""A pause, and that it is noted in whole seconds."""


@pytest.mark.parametrize("minutes", [-10, 5])
def test_a_manager_with_a_wrong_clock_lets_whole_gangs_start(stage: Stage, minutes: int) -> None:
    """Wrong to the end, through a failure and a pause. Behind puts all that it reads into the future; ahead
    is less than a booking lasts.
    """
    manager, off, begun = stage.manager(clocks=(minutes * _MINUTES,)), timedelta(minutes=minutes), _now()
    with manager.kept():
        stage.plane.fault("out", pool="l4", kind="stock-out", count=1)
        gang = stage.submit()
        stage.runs(gang)
        (retry_at,) = _tries_at(stage, gang)
        assert begun - _SLACK < retry_at - off < _now() + _SLACK, "by its own clock"
        stage.end(gang)
        stage.judge()
    assert manager.exits == []


def test_by_a_clock_ahead_by_more_than_a_booking_half_a_gang_is_given_back(stage: Stage) -> None:
    """Again and again: what has just been promised is over already, unless the whole gang stands at once.
    When the clock is right it gathers.
    """
    _comes_late(stage, "l4")
    manager = stage.manager(clocks=(10 * _MINUTES, 0.0))
    with manager.kept():
        gang = stage.submit()
        stage.eventually("it has been released two times", lambda: len(_tries_at(stage, gang)) >= 2)
        assert all("bookingWindow of 9m has passed" in each for each in stage.released_for(gang))
        manager.jump()
        stage.plane.mend()
        stage.completes(gang)
    assert manager.exits == []


def test_a_clock_that_jumps_to_and_fro_while_a_gang_gathers(stage: Stage) -> None:
    """Asked: back. One piece accepted: ahead. That piece promised, so that it is released: right again."""
    stage.plane.policy(retry={"base": "50s", "max": "50s"})
    for pool in ("h100", "l4"):
        stage.plane.fault(pool, pool=pool, kind="silence")
    manager = stage.manager(clocks=(0.0, -20 * _MINUTES, 20 * _MINUTES, 0.0))
    try:
        with manager.kept():
            gang = stage.submit()
            said = stage.eventually("it has asked", partial(_said, stage, gang, "asked for 2 h100"))
            manager.jump()
            _looks(stage, gang, "it counts anew", lambda: _said(stage, gang) != said)
            _comes_late(stage, "h100")
            said = stage.eventually("one is accepted", partial(_said, stage, gang, "asked for 1 l4"))
            manager.jump()
            _looks(stage, gang, "it counts from the real start again", lambda: _said(stage, gang) != said)
            stage.plane.fault("h100", pool="h100", kind="silence", count=0)
            stage.eventually("it is outside the quota", lambda: _is_outside(stage, gang))
            *_, retry_at = _tries_at(stage, gang)
            assert retry_at > _now() + timedelta(minutes=10)
            manager.jump()
            stage.plane.mend()
            _looks(stage, gang, "it is back", lambda: not _is_outside(stage, gang))
            stage.completes(gang)
    finally:
        stage.plane.policy()
    assert any("bookingWindow of 9m has passed" in each for each in stage.released_for(gang))
    assert manager.exits == []


def _comes_late(stage: Stage, pool: str) -> None:
    """Accepted, and there once the cloud is mended."""
    stage.plane.fault(pool, pool=pool, kind="stock-out", mode="wait")


def _looks(stage: Stage, gang: str, what: str, reached: Callable[[], Any]) -> None:
    """A clock that jumps wakes nobody: somebody writes the gang until its manager has looked at the time."""
    numbers = itertools.count()

    def written() -> Any:
        gangs.patch(stage.plane, gang, {"metadata": {"annotations": {"somebody": str(next(numbers))}}})
        return reached()

    stage.eventually(what, written)


def _said(stage: Stage, gang: str, part: str = "") -> str:
    """Our check's message when this is in it."""
    message = str(gangs.entry(gangs.read(stage.plane, gang)).get("message", ""))
    return message if part in message else ""


def _is_outside(stage: Stage, gang: str) -> bool:
    workload = gangs.read(stage.plane, gang) or {}
    return not workload["spec"]["active"] and not gangs.holds(workload, "QuotaReserved")


def _tries_at(stage: Stage, gang: str) -> list[datetime]:
    """All the times that were ever set for its next try, in their order."""
    etcd = stage.plane.server.etcd
    seen = history.changes(etcd, since=stage.began, until=history.revision(etcd))
    held = (each.after for each in seen if each.after and each.name.endswith(f"/{gang}"))
    notes = (each["metadata"].get("annotations") or {} for each in held)
    set_at = [each[names.RETRY_AT_ANNOTATION] for each in notes if names.RETRY_AT_ANNOTATION in each]
    return [datetime.fromisoformat(each) for each, _ in itertools.groupby(set_at)]


def _now() -> datetime:
    return datetime.now(UTC)
