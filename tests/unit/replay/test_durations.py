"""How long jobs run, where some still do."""

from __future__ import annotations

import random

import pytest

from muster.replay.durations import Seen, learn, to_distribution


def _seen(seconds: float, *, is_over: bool = True, team: str = "vision", priority: str = "dev") -> Seen:
    return Seen(team=team, priority=priority, seconds=seconds, is_over=is_over)


def test_a_job_that_still_runs_adds_to_the_longer_ones() -> None:
    found = to_distribution([_seen(10), _seen(20, is_over=False), _seen(30), _seen(40)])
    assert list(found.lengths) == [10, 30, 40]
    assert list(found.shares) == pytest.approx([0.25, 0.625, 1.0])


def test_a_job_is_drawn_longer_than_it_has_run() -> None:
    found = to_distribution([_seen(each) for each in range(1, 101)])
    dice = random.Random(1)
    drawn = [found.draw(dice, beyond=60) for _ in range(500)]
    assert min(drawn) > 60
    assert max(drawn) <= 100
    assert sum(drawn) / len(drawn) == pytest.approx(80.5, abs=2)


def test_a_job_longer_than_all_known_ones_goes_on() -> None:
    found = to_distribution([_seen(10)])
    dice = random.Random(1)
    assert min(found.draw(dice, beyond=50) for _ in range(100)) >= 50


def test_a_small_group_counts_with_its_team() -> None:
    many = [_seen(100) for _ in range(30)]
    found = learn([*many, _seen(5, priority="prod"), *(_seen(7, team="speech") for _ in range(30))])
    dice = random.Random(1)
    drawn = [found.draw(dice, team="vision", priority="prod") for _ in range(200)]
    assert drawn.count(100) > 180
    assert found.draw(dice, team="speech", priority="dev") == 7


def test_nothing_known_still_gives_a_duration() -> None:
    assert learn([]).draw(random.Random(1), team="vision", priority="dev") >= 1
