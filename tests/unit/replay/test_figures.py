"""Figures of a playback that is worked out by hand, and the sentence that compares two."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.model import names
from muster.preview.banner import plain
from muster.preview.compare.replay import ReplayDiff, format_seconds
from muster.replay.figures import NEVER, Figures, Played, Preemption, to_figures, to_waits
from muster.replay.playback import Playback, PlayedRun

HOUR = 3600


def _job(label: str, *, team: str = "a", gpus: int = 4, created: int = 0, priority: str = "dev") -> Played:
    return Played(label=label, team=team, queue=team, priority=priority, gpus=gpus, created=created)


def _run(start: int, end: int | None, *, gpus: int = 4, by: str = "") -> PlayedRun:
    return PlayedRun(
        start=start,
        end=end,
        usage={"h100": {names.GPU_RESOURCE: gpus}},
        is_evicted=bool(by),
        by=by,
        reason="InCohortReclamation" if by else "",
    )


def _figures() -> Figures:
    """Team a has 4 GPUs and uses 8 for an hour, until team b takes its 4 back."""
    jobs = [
        _job("a/own"),
        _job("a/borrowing"),
        _job("b/owner", team="b", created=HOUR, priority="prod"),
        _job("b/large", team="b", gpus=9, priority="prod"),
    ]
    runs = {
        "a/own": (_run(0, 2 * HOUR),),
        "a/borrowing": (_run(0, HOUR, by="b/owner"), _run(2 * HOUR, 3 * HOUR)),
        "b/owner": (_run(HOUR, 2 * HOUR),),
        "b/large": (),
    }
    playback = Playback(runs=runs, digest="d", end=3 * HOUR, cycles=0, admissions=4, preemptions=1)
    return to_figures(jobs, playback, {("a", "h100"): 4, ("b", "h100"): 4}, until=4 * HOUR)


def test_use_above_the_own_quota_is_borrowed_and_a_preempted_run_is_lost() -> None:
    hours = _figures().hours
    # Of 8 GPUs for an hour and 4 for two more, 4 GPUs for an hour are above the quota.
    assert hours["a"].guaranteed == pytest.approx(12)
    assert hours["a"].borrowed == pytest.approx(4)
    assert hours["a"].lost == pytest.approx(4)
    assert (hours["b"].guaranteed, hours["b"].borrowed, hours["b"].lost) == (4, 0, 0)


def test_a_job_that_never_starts_waits_without_end() -> None:
    figures = _figures()
    assert (figures.teams["b"].p50, figures.teams["b"].p95, figures.teams["b"].never) == (0, NEVER, 1)
    assert figures.sizes[9].never == 1
    assert figures.priorities["dev"].p95 == 0
    assert figures.worst[0].job == "b/large"
    # It waited again after it was preempted.
    assert (figures.worst[1].job, figures.worst[1].wait, figures.worst[1].preemptions) == (
        "a/borrowing",
        HOUR,
        1,
    )


def test_preemptions_are_counted_by_whom_of_whom() -> None:
    assert _figures().preemptions == {Preemption("b", "a", "dev", "InCohortReclamation"): 1}


def test_utilisation_is_the_mean_of_each_step() -> None:
    curve = _figures().utilisation
    per_hour = len(curve.used) // 4
    assert [round(curve.used[hour * per_hour], 6) for hour in range(4)] == [8, 8, 4, 0]
    assert sum(curve.used) * curve.step == pytest.approx(20 * HOUR)


def test_percentiles_are_waits_that_occurred() -> None:
    waits = to_waits(range(1, 101))
    assert (waits.p50, waits.p95) == (50, 95)
    assert to_waits([7]).p95 == 7


def _diff(base: Figures, head: Figures) -> ReplayDiff:
    return ReplayDiff(start=0, end=30 * 86_400, played=4, base=base, head=head)


def test_the_sentence_names_the_team_whose_median_changes_most_and_the_priority_that_is_preempted() -> None:
    base = _figures()
    waits = to_waits([6 * HOUR])
    base = replace(base, teams={"vision": waits, "speech": to_waits([60])})
    teams = {"vision": replace(waits, p50=2.9 * HOUR), "speech": to_waits([1800])}
    more = {Preemption("b", "a", "dev", "InClusterQueue"): 15}
    assert plain(_diff(base, replace(base, teams=teams, preemptions=more)).sentence) == (
        "With these quotas, in the recorded 30 days vision would have waited 3.1 h less in the median "
        "and 14 dev runs more would have been preempted."
    )


def test_the_sentence_says_when_nothing_changes() -> None:
    said = plain(_diff(_figures(), _figures()).sentence)
    assert said.endswith("no team would have waited noticeably longer or less.")


def test_a_team_that_would_no_longer_start_is_named_as_such() -> None:
    base = _figures()
    never = replace(base.teams["a"], p50=NEVER, p95=NEVER)
    head = replace(base, teams={**base.teams, "a": never})
    assert "a would no longer have started most of its jobs" in plain(_diff(base, head).sentence)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (40, "40 s"), (720, "12 min"), (11_160, "3.1 h"), (300_000, "3.5 days"), (NEVER, "never")],
)
def test_a_wait_is_written_in_the_unit_that_people_use(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text
