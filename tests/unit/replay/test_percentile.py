"""Intervals by order."""

import random

import pytest

from muster.replay.figures import interval


@pytest.mark.parametrize(("number", "low", "high"), [(10, 1, 10), (40, 4, 37), (100, 10, 91)])
def test_an_interval_leaves_out_as_many_values_below_as_above(number: int, low: int, high: int) -> None:
    assert interval(range(1, number + 1), 80) == (low, high)


@pytest.mark.parametrize("number", [10, 20, 40, 200])
def test_another_value_lies_in_it_as_often_as_asked(number: int) -> None:
    dice = random.Random(1)
    inside = 0
    for _ in range(4000):
        low, high = interval(sorted(dice.random() for _ in range(number)), 80)
        inside += low <= dice.random() <= high
    assert 0.78 <= inside / 4000 <= 0.84
