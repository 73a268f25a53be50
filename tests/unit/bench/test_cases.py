"""What the cases put in."""

import itertools

from bench.gangs import cases, paper
from bench.gangs.shapes import OUT


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
