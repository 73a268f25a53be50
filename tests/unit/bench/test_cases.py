"""What the cases put in."""

from __future__ import annotations

import itertools

import pytest

from bench.gangs import __main__ as program
from bench.gangs import cases
from bench.gangs.shapes import OUT
from bench.gangs.variants import ALL


@pytest.mark.parametrize("kind", sorted(program._MAKERS))
def test_every_case_can_be_asked_for_with_all_contenders_and_rounds_of_its_own(kind: str) -> None:
    names = [each.name for each in ALL]
    told = program._parser().parse_args(["--cases", f"{kind}:1000x5", "--contenders", *names])
    (planned,) = told.cases
    assert (planned.case.name.partition("-")[0], planned.rounds) == (kind, 5)
    assert [each.name for each in told.contenders] == names


def test_runnable_gangs_of_a_stockout_come_steadily_and_for_less_than_the_quota_lets_through() -> None:
    case = cases.stockout(180)
    gangs = list(case.gangs())
    out, runnable = gangs[:4], gangs[4:]
    assert all(each.name.startswith(OUT) and each.after == 0.0 and not each.counts for each in out)
    gaps = {round(later.after - each.after, 3) for each, later in itertools.pairwise(runnable)}
    (gap,) = gaps
    assert case.slots is not None
    assert 5.0 / case.slots < gap < 2.0  # seconds of work, through so many at a time
    # The second retry comes three minutes after the first failure, moved by up to a fifth.
    assert runnable[-1].after > 1.2 * 180
    assert case.most > 2 * runnable[-1].after
