"""A wrong wall clock moves no promise: gangs stand whole whatever the manager believes the time to be."""

from __future__ import annotations

import pytest

from tests.faults import gangs
from tests.faults.stage import Stage

_MINUTES = 60


@pytest.mark.parametrize("minutes", [-10, 10])
def test_a_manager_ten_minutes_off_lets_whole_gangs_start(stage: Stage, minutes: int) -> None:
    """Ten ahead is longer than the booking lasts; ten behind puts all that it reads into the future."""
    manager = stage.manager(clocks=(minutes * _MINUTES, 0.0))
    with manager.kept():
        stage.plane.fault("out", pool="l4", kind="stock-out", count=1)
        gang = stage.submit()
        stage.eventually("it has asked", lambda: gangs.requests(stage.plane))
        manager.jump()
        stage.runs(gang)
        stage.end(gang)
        stage.judge()
    assert manager.exits == []


def test_a_clock_that_jumps_to_and_fro_while_a_gang_gathers(stage: Stage) -> None:
    manager = stage.manager(clocks=(0.0, 20 * _MINUTES, -20 * _MINUTES, 0.0))
    with manager.kept():
        gang = stage.submit()
        for look in ("asked", "heard", "moved"):
            stage.eventually(f"it has {look}", lambda: gangs.requests(stage.plane))
            manager.jump()
        stage.runs(gang)
        stage.end(gang)
        stage.judge()
    assert manager.exits == []
