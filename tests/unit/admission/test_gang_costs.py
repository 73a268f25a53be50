"""What a gang costs the API server, counted: clusters feel writes before anything else."""

from datetime import timedelta

from tests.unit.admission.gang_world import World

_WHOLE = {"main": ("l4", 1)}
_SPLIT = {"big": ("h100", 1), "small": ("l4", 1)}


def _ran(pieces: dict[str, tuple[str, int]]) -> World:
    world = World()
    world.submit("a", pieces)
    world.ticks(6)
    assert "a" in world.started
    return world


def test_a_gang_that_waits_longer_than_ten_seconds_for_each_step_reports_it_and_has_two_events() -> None:
    """Its template, its request, that it is asked for, that it is accepted, and that it is Ready; that it
    waits, and that it is Ready.
    """
    world = _ran(_WHOLE)
    assert world.writes == 5
    assert [each.reason for each in world.told] == ["GangWaiting", "GangReady"]


def test_each_further_shape_that_is_waited_for_costs_three_writes_and_no_event() -> None:
    """Its template, its request, and that it is asked for."""
    world = _ran(_SPLIT)
    assert (world.writes, len(world.told)) == (8, 2)


def test_a_gang_whose_nodes_come_at_once_writes_no_progress_and_no_event() -> None:
    world = World()
    world.submit("a", _SPLIT)
    for _ in range(20):
        world.kueue()
        world.settle()
        world.cloud()
        world.now += timedelta(seconds=1)
    assert "a" in world.started
    assert (world.writes, world.told) == (5, [])


def test_a_gang_that_runs_or_waits_for_quota_costs_nothing_however_often_it_is_looked_at() -> None:
    world = _ran(_WHOLE)
    world.quota = 1
    world.submit("b", _WHOLE)
    world.settle()
    before = world.writes, len(world.told)
    for _ in range(100):
        world.now += timedelta(minutes=1)
        world.settle()
    assert (world.writes, len(world.told)) == before
