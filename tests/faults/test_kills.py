"""Killed at any of its writes, the manager is followed by one that finishes, and nothing is asked for twice.

A kill leaves the store as it is after some write. "After" is that; "before" adds that the manager was on its
way to the next one. Writes are counted by kind: how often a gang's progress is told depends on how fast
everybody is, and would move the number of every write after it.
"""

from collections.abc import Callable

import pytest

from tests.faults.kills import Kill
from tests.faults.stage import Stage

_MOST_STORIES = 30
"""For one kind of write: more than enough to meet each of them."""

Story = Callable[[Stage], str]


@pytest.mark.parametrize("moment", ["after", pytest.param("before", marks=pytest.mark.soak)])
def test_killed_at_each_of_its_writes_in_turn_a_gang_stands_whole_all_the_same(
    stage: Stage, moment: str
) -> None:
    kinds = _everywhere(stage, _undisturbed, before=moment == "before")
    assert kinds == {
        *("create podtemplates", "create provisioningrequests", "apply workloads/status"),
        *("delete provisioningrequests", "delete podtemplates"),
    }


@pytest.mark.soak
@pytest.mark.parametrize("moment", ["after", "before"])
def test_killed_at_each_write_of_a_gang_that_loses_its_capacity(stage: Stage, moment: str) -> None:
    kinds = _everywhere(stage, _out_of_stock, before=moment == "before")
    assert "patch workloads" in kinds, "stepping out of the quota and back in"


def _everywhere(stage: Stage, story: Story, *, before: bool) -> set[str]:
    """The kinds of the story's writes; the manager has been killed at each of each kind."""
    with stage.manager().kept():
        story(stage)
    kinds = {str(call) for call in stage.proxy.writes}
    for kind in sorted(kinds):
        _at_each(stage, kind, story, before=before)
    return kinds


def _at_each(stage: Stage, kind: str, story: Story, *, before: bool) -> None:
    """From the first write of the kind to the one that is the last of its story."""
    number = 1
    for _ in range(_MOST_STORIES):
        plan = _killed(stage, kind, number, story, before=before)
        if plan.kills and plan.was_last:
            return
        # A story that had fewer of them has ended without a kill: its last one is still to be met.
        number = number + 1 if plan.kills else max(1, number - 1)
    raise AssertionError(f"of {_MOST_STORIES} stories in none the manager was killed at its last {kind}")


def _killed(stage: Stage, kind: str, number: int, story: Story, *, before: bool) -> Kill:
    manager = stage.manager()
    stage.proxy.plan = plan = Kill(manager, number, kind=kind, before=before)
    with manager.kept():
        story(stage)
        # Its last write may be the story's end, and its death is known a moment later.
        stage.eventually("its death is known", lambda: len(manager.exits) >= plan.kills)
    assert len(manager.exits) == plan.kills
    return plan


def _undisturbed(stage: Stage) -> str:
    name = stage.submit()
    stage.completes(name)
    return name


def _out_of_stock(stage: Stage) -> str:
    """Through a failure, the way back and a second try."""
    stage.plane.mend()
    stage.plane.fault("out", pool="l4", kind="stock-out", count=1)
    name = _undisturbed(stage)
    assert any("out of stock" in each for each in stage.released_for(name)), "nothing was lost"
    return name


def test_a_manager_that_lives_for_one_write_at_a_time_gets_there(stage: Stage) -> None:
    """Through a failure, the way back and a second try: each of its writes by another process, but for those
    that go side by side.
    """
    manager = stage.manager()
    stage.proxy.plan = plan = Kill(manager, 1, again=True)
    with manager.kept():
        _out_of_stock(stage)
    assert plan.kills > 10
