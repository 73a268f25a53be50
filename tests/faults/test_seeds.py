"""Under any schedule of broken calls and watches, gangs end as if nothing had happened.

The schedule is drawn from the seed alone and printed when a test fails; the same seed breaks the same calls.
What is drawn is no proof of anything: each test asks what has happened.
"""

import pytest

from tests.faults.breaks import Call
from tests.faults.schedule import EVERYTHING, Schedule
from tests.faults.seeds import seeds
from tests.faults.stage import Stage

_CALLS = [
    Call(verb, resource, "/")
    for resource in ("workloads", "workloads/status", "provisioningrequests", "podtemplates", "nodes")
    for verb in ("get", "list", "watch", "create", "apply", "patch", "delete")
]


@pytest.mark.parametrize("seed", seeds())
def test_gangs_outlive_a_schedule_of_faults(stage: Stage, seed: int) -> None:
    """Two at a time, one of which loses its capacity once. Under every other seed the manager dies too."""
    manager = stage.manager()
    stage.proxy.plan = schedule = Schedule(seed, kill=manager.kill if seed % 2 else None)
    with manager.kept():
        first = stage.submit()
        stage.plane.fault(f"out-{seed}", pool="l4", kind="stock-out", count=1)
        second = stage.submit()
        stage.runs(first, second)
        stage.end(first, second)
        print(schedule)
        stage.judge()
    assert len(manager.exits) <= schedule.kills, "no fault between it and the server ends the manager"
    assert schedule.owed <= schedule.happened, f"did not happen: {schedule.owed - schedule.happened}"
    failures = stage.released_for(first) | stage.released_for(second)
    assert any("out of stock" in failure for failure in failures), f"nobody lost its capacity: {failures}"
    assert not any("forbidden" in failure for failure in failures), f"given back for nothing: {failures}"


@pytest.mark.parametrize("seed", [1, 2, 10])
def test_three_seeds_that_follow_one_another_owe_everything(seed: int) -> None:
    assert frozenset().union(*(Schedule(each).owed for each in range(seed, seed + 3))) == EVERYTHING


def test_a_seed_breaks_the_same_calls_again_and_leaves_no_fault_out() -> None:
    one, again = Schedule(7), Schedule(7)
    for call in _CALLS * 30:
        found, same = one.judge(call), again.judge(call)
        assert found == same
        for each in (found, same):
            if each is not None:
                each.happened()
    assert one.story == again.story
    assert one.happened >= EVERYTHING
    assert Schedule(8).judge(_CALLS[0]) is None or Schedule(8).story != one.story


def test_what_is_drawn_has_not_happened_and_a_watch_that_owes_it_is_broken_so_again() -> None:
    schedule, watch = Schedule(7), Call("watch", "workloads", "/")
    first, second = schedule.judge(watch), schedule.judge(watch)
    assert first
    assert second
    assert not schedule.happened
    assert first.fault == second.fault
    second.happened()
    assert schedule.happened == {("watch", second.fault)}
    third = schedule.judge(watch)
    assert third
    assert third.fault != second.fault


@pytest.mark.parametrize("call", _CALLS, ids=str)
def test_every_schedule_ends(call: Call) -> None:
    schedule = Schedule(3)
    broken = [schedule.judge(call) for _ in range(100)]
    assert any(broken[:20])
    assert not any(broken[20:])
