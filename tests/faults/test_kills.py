"""Killed at any of its writes, the manager is followed by one that finishes, and nothing is asked for twice.

A kill leaves the store as it is after some write. "After" is that; "before" adds that the manager was on its
way to the next one.
"""

from __future__ import annotations

import pytest

from tests.faults.kills import Kill
from tests.faults.stage import Stage

_MOST_WRITES = 100


@pytest.mark.parametrize("moment", ["after", pytest.param("before", marks=pytest.mark.soak)])
def test_killed_at_each_of_its_writes_in_turn_a_gang_stands_whole_all_the_same(
    stage: Stage, moment: str
) -> None:
    """From the first write to the last: until a whole story has fewer writes than that."""
    for number in range(1, _MOST_WRITES):
        if not _story(stage, number, before=moment == "before"):
            assert number > 8, "a story of two requests has more writes"
            return
    raise AssertionError(f"a story of more than {_MOST_WRITES} writes")


@pytest.mark.soak
@pytest.mark.parametrize("moment", ["after", "before"])
def test_killed_at_each_write_of_a_gang_that_loses_its_capacity(stage: Stage, moment: str) -> None:
    for number in range(1, _MOST_WRITES):
        stage.plane.fault(f"out-{number}", pool="l4", kind="stock-out", count=1)
        if not _story(stage, number, before=moment == "before"):
            return
    raise AssertionError(f"a story of more than {_MOST_WRITES} writes")


def _story(stage: Stage, number: int, *, before: bool) -> bool:
    """Whether there was such a write."""
    manager = stage.manager()
    stage.proxy.plan = plan = Kill(manager, number, before=before)
    with manager.kept():
        name = stage.submit()
        stage.runs(name)
        stage.end(name)
        stage.judge()
    assert len(manager.exits) == plan.kills
    return plan.kills > 0


def test_a_manager_that_lives_for_one_write_at_a_time_gets_there(stage: Stage) -> None:
    """Through a failure, the way back and a second try: each of its writes by another process."""
    stage.plane.fault("out", pool="l4", kind="stock-out", count=1)
    manager = stage.manager()
    stage.proxy.plan = plan = Kill(manager, 1, again=True)
    with manager.kept():
        name = stage.submit()
        stage.runs(name)
        stage.end(name)
        stage.judge()
    assert plan.kills > 15
