"""The ledger against one that counts single GPUs second by second, over drawn histories."""

from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.replay.recording import Gap
from muster.usage.ledger import Cause, Hold, Ledger, Quotas, Supply, Window, book
from tests.length import examples
from tests.unit.usage import oracle

# Half a minute before midnight, so that drawn histories have two days.
START = 1_793_577_600 - 30
LENGTH = 60
POOLS = ("h100", "l4")
QUEUES = ("vision", "speech", "notebooks", "elsewhere")
ROOTS = {"vision": "company", "speech": "company", "notebooks": "notebooks"}
MOMENTS = st.integers(START - 20, START + LENGTH + 20)
GPUS = st.integers(1, 8)
HOURLY = {"h100": 88.0, "l4": 6.4}
"""The price of a node, which has 8 GPUs."""


@st.composite
def _hold(draw: st.DrawFn) -> Hold:
    times = sorted(draw(st.lists(MOMENTS, min_size=3, max_size=3)))
    number, pool = draw(st.integers(0, 5)), draw(st.sampled_from((*POOLS, *POOLS, "")))
    return Hold(
        job=f"job-{number}",
        id=draw(st.sampled_from((str(number), str(number), ""))),
        team=draw(st.sampled_from(QUEUES)),
        queue=draw(st.sampled_from(QUEUES)),
        pool=pool,
        pools=() if pool else POOLS,
        gpus=draw(GPUS),
        reserved=times[0],
        admitted=draw(st.sampled_from((None, times[1]))),
        ended=times[2],
        is_lost=draw(st.booleans()),
        idle=draw(st.none() | MOMENTS),
    )


@st.composite
def _supply(draw: st.DrawFn) -> Supply:
    times = sorted(draw(st.lists(MOMENTS, min_size=2, max_size=5)))
    return Supply(
        pool=draw(st.sampled_from(POOLS)),
        gpus=8,
        start=times[0],
        end=times[-1],
        usable=tuple((at, draw(st.sampled_from((0, 7, 8)))) for at in times[1:-1]),
        booked=tuple(
            (at, draw(st.sampled_from(("", *"012345")))) for at in sorted(draw(st.lists(MOMENTS, max_size=3)))
        ),
    )


@st.composite
def _quotas(draw: st.DrawFn) -> Quotas:
    amounts = st.integers(0, 16)
    return Quotas(
        own={(queue, pool): draw(amounts) for queue in ROOTS for pool in POOLS},
        roots=ROOTS,
        shared={("company", pool): draw(st.integers(0, 4)) for pool in POOLS},
    )


@st.composite
def _window(draw: st.DrawFn) -> Window:
    edges = sorted(draw(st.lists(MOMENTS, min_size=2, max_size=4, unique=True)))
    gaps = tuple(Gap(*edges[at : at + 2]) for at in range(0, len(edges) - 1, 2))
    return Window(
        start=START,
        end=START + LENGTH,
        gaps=draw(st.sampled_from((gaps, ()))),
        nodes_from=draw(st.sampled_from((START, START, START + 20, None))),
    )


def _by_key(ledger: Ledger) -> dict[oracle.Key, float]:
    hours: defaultdict[oracle.Key, float] = defaultdict(float)
    for entry in ledger.entries:
        job = entry.hold.job if entry.hold else ""
        hours[int(entry.day), entry.pool, entry.cause.value, job] += entry.hours
    return dict(hours)


@settings(max_examples=examples(500), deadline=None)
@given(st.lists(_hold(), max_size=12), st.lists(_supply(), max_size=6), _quotas(), _window())
def test_every_gpu_hour_has_the_cause_that_the_oracle_counts_and_they_sum_to_the_cost(
    holds: list[Hold], supplies: list[Supply], quotas: Quotas, window: Window
) -> None:
    ledger = book(holds, supplies, quotas, window)
    assert _by_key(ledger) == pytest.approx(oracle.count(holds, supplies, quotas, window), rel=1e-9)
    lent = sum(entry.hours for entry in ledger.entries if entry.cause is Cause.LENT)
    assert sum(ledger.lent.values()) == pytest.approx(lent)
    if window.nodes_from == window.start:
        booked = sum(entry.hours * HOURLY[entry.pool] / 8 for entry in ledger.entries)
        assert booked == pytest.approx(oracle.cost(supplies, window, HOURLY), rel=1e-3, abs=1e-9)


def _hours(
    *holds: Hold, quota: int, others: int, shared: int, booked: tuple[tuple[float, str], ...] = ()
) -> dict[str, float]:
    node = Supply(pool="h100", gpus=8, start=0, end=7200, usable=((600, 8),), booked=booked)
    quotas = Quotas(
        own={("vision", "h100"): quota, ("speech", "h100"): others},
        roots=ROOTS,
        shared={("company", "h100"): shared},
    )
    window = Window(start=0, end=7200, nodes_from=0)
    return {entry.cause.value: entry.hours for entry in book(holds, [node], quotas, window).entries}


GANG = Hold(
    job="a", id="a", team="vision", queue="vision", pool="h100", gpus=6, reserved=0, admitted=1200, ended=3600
)


def test_a_gang_waits_boots_runs_and_leaves_the_rest_idle() -> None:
    assert _hours(GANG, quota=3, others=5, shared=1, booked=((0, "a"),)) == pytest.approx(
        {
            "booting": 8 / 6,
            "gated": 6 / 6,
            "idle": 2 * 6600 / 3600 + 6,
            "guaranteed": 3 * 2 / 3,
            "lent": 2 * 2 / 3,
            "borrowed": 1 * 2 / 3,
        }
    )


@pytest.mark.parametrize(
    ("booked", "cause"),
    [(((0, "b"),), "idle"), (((0, "a"), (600, "")), "idle"), ((), "unknown")],
    ids=["another gang's", "given back", "nothing says whose"],
)
def test_a_waiting_gang_is_not_billed_for_nodes_that_were_not_bought_for_it(
    booked: tuple[tuple[float, str], ...], cause: str
) -> None:
    waiting = replace(GANG, admitted=None, ended=1200)
    hours = _hours(waiting, quota=3, others=5, shared=1, booked=booked)
    assert "gated" not in hours
    # From 600 to 1200 the gang waits for six GPUs, which are counted as idle hours or as unknown ones.
    assert hours.get("unknown", 0.0) == pytest.approx(1.0 if cause == "unknown" else 0.0)
    assert hours["idle"] == pytest.approx(8 * 6600 / 3600 - hours.get("unknown", 0.0))


def test_gpus_of_a_job_in_an_unknown_pool_are_idle_in_none() -> None:
    stray = replace(GANG, pool="", pools=("h100", "l4"), admitted=600)
    hours = _hours(stray, quota=3, others=5, shared=1, booked=((0, ""),))
    assert hours["unknown"] == pytest.approx(6 * 3000 / 3600)
