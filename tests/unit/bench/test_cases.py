"""What the cases put in."""

import itertools

import pytest

from bench.gangs import __main__ as program
from bench.gangs import cases, paper
from bench.gangs.shapes import OUT
from bench.gangs.variants import ALL


@pytest.mark.parametrize("kind", sorted(program._MAKERS))
def test_every_case_can_be_asked_for_with_all_contenders_and_rounds_of_its_own(kind: str) -> None:
    names = [each.name for each in ALL]
    told = program._parser().parse_args(["--cases", f"{kind}:1000x5", "--contenders", *names])
    (planned,) = told.cases
    assert planned.case.name.startswith(f"{kind}-")
    assert planned.rounds == 5
    assert [each.name for each in told.contenders] == names


@pytest.mark.parametrize("name", sorted(paper.CASES))
def test_every_case_on_paper_can_be_asked_for_and_is_in_the_help(name: str) -> None:
    parser = program._parser()
    assert parser.parse_args(["--paper", f"{name}:7"]).paper == [(name, 7)]
    assert f"{name}:N" in "".join(parser.format_help().split())


def test_a_short_outage_of_all_nodes_evicts_no_gang_and_costs_no_call() -> None:
    figures = paper.run("partition", 3)
    assert (figures["gangs evicted"], figures["calls a gang meanwhile"]) == (0, 0)


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
