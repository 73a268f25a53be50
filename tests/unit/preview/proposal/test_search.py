"""The search over a stand-in for the replay, of which every answer is known."""

import zlib
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.preview.proposal.search import (
    Cost,
    Found,
    Key,
    Knob,
    Move,
    Need,
    Score,
    Space,
    StoppedError,
    Values,
    cost,
    search,
    to_tiers,
)
from tests.length import examples

SIZE = 32


def knob(key: Key, owner: str) -> Knob:
    return Knob(key, owner, "h100")


VISION, SPEECH, DEV = (knob(Key.QUOTA, name) for name in ("vision", "speech", "dev"))
BORROW = knob(Key.BORROW, "vision")
SPEECH_BORROWS = knob(Key.BORROW, "speech")
VALUES: Values = {VISION: 8, SPEECH: 8, DEV: 8, BORROW: 0, SPEECH_BORROWS: 8}


def space(values: Values = VALUES, *, step: int = 1) -> Space:
    return Space(
        values=values, sizes={"h100": SIZE}, steps={"h100": step}, fixed={}, paths={}, departments={}
    )


def need() -> Need:
    idle = {("speech", "h100"): 4.0, ("dev", "h100"): 1.0, ("vision", "h100"): 0.0}
    return Need(late={("vision", "h100"): 1.0}, idle=idle)


class Cluster:
    """A stand-in for the replay. The goal is a sum of amounts by weight; speech has to keep its quota."""

    def __init__(
        self, weights: Mapping[Knob, float], *, goal: float, kept: int = 0, budget: int = 1000
    ) -> None:
        self.weights, self.goal, self.kept, self.budget = weights, goal, kept, budget
        self.replayed: list[Values] = []

    def reached(self, values: Values) -> float:
        return sum(self.weights.get(knob, 0.0) * value for knob, value in values.items())

    def score(self, values: Values) -> Score | None:
        missing = max(self.goal - self.reached(values), 0.0)
        return Score(shortfall=missing, broken=max(self.kept - values[SPEECH], 0))

    def __call__(self, tried: Sequence[Values]) -> list[Score | None]:
        left = self.budget - len(self.replayed)
        self.replayed += tried[:left]
        found = [self.score(values) for values in tried[:left]]
        if left < len(tried):
            raise StoppedError(f"{self.budget} replays are done", found)
        return found


def found(cluster: Cluster, *, step: int = 1) -> Found:
    where = space(step=step)
    return search(where, to_tiers(where, need()), cluster)


def changes(values: Values) -> dict[Knob, int]:
    return {knob: value for knob, value in values.items() if value != VALUES[knob]}


def test_a_stack_that_meets_its_goals_is_not_changed() -> None:
    cluster = Cluster({}, goal=0)
    assert changes(found(cluster).values) == {}
    assert len(cluster.replayed) == 1


def test_the_smallest_amount_is_found_to_the_gpu() -> None:
    assert changes(found(Cluster({BORROW: 1}, goal=13)).values) == {BORROW: 13}


def test_amounts_change_by_whole_nodes() -> None:
    assert changes(found(Cluster({BORROW: 1}, goal=13), step=8).values) == {BORROW: 16}


def test_what_the_pool_has_left_goes_before_the_quota_of_others() -> None:
    assert changes(found(Cluster({VISION: 1}, goal=8 + 5)).values) == {VISION: 13}


def test_the_idlest_owner_gives_quota_where_nothing_else_reaches_the_goal() -> None:
    answer = found(Cluster({VISION: 1}, goal=8 + 8 + 3))
    assert answer.score.is_met
    assert cost(VALUES, answer.values).taken == 3


def test_limits_of_others_fall_before_their_quota_does() -> None:
    answer = found(Cluster({SPEECH_BORROWS: -1, VISION: 0.1}, goal=-3 + 0.8))
    assert changes(answer.values) == {SPEECH_BORROWS: 3}


def test_what_is_to_be_kept_is_kept_and_another_owner_gives() -> None:
    answer = found(Cluster({VISION: 1}, goal=8 + 8 + 6, kept=6))
    assert answer.score.is_met
    assert answer.values[SPEECH] >= 6


def test_an_amount_that_validation_refuses_is_not_the_answer() -> None:
    class Strict(Cluster):
        def score(self, values: Values) -> Score | None:
            return None if values[BORROW] in (12, 13, 14) else Cluster.score(self, values)

    assert changes(found(Strict({BORROW: 1}, goal=9)).values) == {BORROW: 15}


def test_two_moves_are_combined_where_one_is_not_enough() -> None:
    """All that the pool has left is 8; 10 more come from two owners who may not give more."""
    cluster = Cluster({VISION: 1}, goal=8 + 8 + 10, kept=4)
    answer = found(cluster)
    assert answer.score.is_met
    assert (answer.values[VISION], answer.values[SPEECH] >= 4) == (26, True)


def test_a_move_that_turned_out_not_to_be_needed_is_left_out() -> None:
    """Borrowing seems to help, until enough quota is there."""
    cluster = Cluster({VISION: 1, BORROW: 0.01}, goal=8 + 8 + 3)
    assert BORROW not in changes(found(cluster).values)


def test_without_an_answer_the_nearest_is_returned() -> None:
    answer = found(Cluster({VISION: 1}, goal=1000))
    assert not answer.score.is_met
    assert answer.stopped == ""
    assert answer.values[VISION] == SIZE


def test_the_nearest_is_the_smallest_that_comes_so_near() -> None:
    class Lent(Cluster):
        """The others have no more than 5 GPUs to lend, whatever the limit is."""

        def reached(self, values: Values) -> float:
            return float(min(values[BORROW], 5))

    assert changes(found(Lent({}, goal=9)).values) == {BORROW: 5}


@pytest.mark.parametrize("budget", range(1, 10))
def test_a_spent_budget_returns_the_best_that_was_replayed(budget: int) -> None:
    cluster = Cluster({BORROW: 1}, goal=13, budget=budget)
    answer = found(cluster)
    assert answer.values in cluster.replayed
    unlimited = Cluster({BORROW: 1}, goal=13)
    found(unlimited)
    assert bool(answer.stopped) == (budget < len(unlimited.replayed))
    assert len(cluster.replayed) == min(budget, len(unlimited.replayed))


def test_no_replay_at_all_is_no_answer() -> None:
    with pytest.raises(StoppedError):
        found(Cluster({}, goal=1, budget=0))


_WEIGHTS = st.fixed_dictionaries({}, optional={each: st.integers(-3, 3) for each in VALUES})


class Erratic(Cluster):
    """Answers without any order, and refuses some changes."""

    def score(self, values: Values) -> Score | None:
        text = repr((self.goal, sorted((str(knob), value) for knob, value in values.items())))
        number = zlib.crc32(text.encode()) % 10
        if values == VALUES:
            return Score(1.0, 0.0)
        return None if number == 9 else Score(float(number % 4), float(number > 6))


@given(weights=_WEIGHTS, goal=st.integers(-40, 80), kept=st.integers(0, 8), step=st.sampled_from([1, 4]))
@settings(max_examples=examples(150), deadline=None)
def test_every_change_stays_within_the_pool_and_the_answer_is_what_was_replayed(
    weights: dict[Knob, float], goal: int, kept: int, step: int
) -> None:
    _check(Cluster(weights, goal=goal, kept=kept), Cluster(weights, goal=goal, kept=kept), step)


@given(seed=st.integers(), step=st.sampled_from([1, 4]))
@settings(max_examples=examples(150), deadline=None)
def test_an_erratic_response_breaks_nothing(seed: int, step: int) -> None:
    _check(Erratic({}, goal=seed), Erratic({}, goal=seed), step)


def _check(cluster: Cluster, again: Cluster, step: int) -> None:
    answer = found(cluster, step=step)
    assert answer == found(again, step=step)
    assert answer.score == cluster.score(answer.values)
    for values in cluster.replayed:
        assert sum(value for each, value in values.items() if each.key is Key.QUOTA) <= SIZE
        assert all(0 <= value <= SIZE for value in values.values())
    better = [
        values
        for values in cluster.replayed
        if (score := cluster.score(values)) is not None
        and score.is_met
        and cost(VALUES, values) < cost(VALUES, answer.values)
    ]
    assert not (answer.score.is_met and better)


@given(goal=st.integers(1, 24), weight=st.integers(1, 3))
@settings(deadline=None)
def test_a_monotone_response_of_one_amount_is_answered_exactly(goal: int, weight: int) -> None:
    answer = found(Cluster({BORROW: weight}, goal=goal))
    assert changes(answer.values) == {BORROW: -(-goal // weight)}


def test_costs_compare_what_is_taken_first() -> None:
    assert Cost(taken=0, limited=9, values=9, gpus=99) < Cost(taken=1, limited=0, values=1, gpus=1)


def test_a_move_reaches_as_far_as_the_pool_and_what_is_lent_allow() -> None:
    lent = knob(Key.LEND, "speech")
    where = space({**VALUES, lent: 6})
    assert Move(up=(VISION,)).most(where, where.values) == 8
    assert Move(up=(VISION,), down=(SPEECH,)).most(where, where.values) == 2
    assert Move(up=(lent,)).most(where, where.values) == 2
