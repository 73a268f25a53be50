"""The order of trials, and where it ends."""

import itertools

from bench.gangs import cases, plan
from bench.gangs.plan import Allowance, Planned
from bench.gangs.variants import ALL

_TWO = ALL[:2]
_PLAN = [Planned(case=cases.burst(10), rounds=3), Planned(case=cases.shared(5))]


def test_a_case_is_run_to_its_end_and_its_contenders_take_turns() -> None:
    turns = list(plan.turns(_PLAN, _TWO, rounds=1))
    assert [each.case.name for each in turns] == ["burst-10"] * 6 + ["shared-5"] * 2
    rounds = [[each.contender for each in group] for _, group in itertools.groupby(turns, lambda t: t.number)]
    assert rounds[:3] == [list(_TWO), list(reversed(_TWO)), list(_TWO)]


def test_a_trial_ends_with_the_time_of_the_run() -> None:
    case = cases.burst(10)
    assert Allowance().cut(case) == case
    assert Allowance(minutes=1.0).cut(case).most <= 60.0
    assert Allowance(minutes=0.0).left <= 0
