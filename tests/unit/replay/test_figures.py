"""Figures of a playback that is worked out by hand, and the sentence that compares two."""

from dataclasses import replace
from typing import Any

import pytest

from muster.model import names
from muster.preview.banner import plain
from muster.preview.compare.replay import ReplayDiff, format_seconds
from muster.replay.figures import NEVER, Figures, Played, Preemption, Waits, to_figures, to_waits
from muster.replay.player import Playback, PlayedRun

HOUR = 3600


def _job(label: str, *, team: str = "a", gpus: int = 4, arrival: int = 0, priority: str = "dev") -> Played:
    return Played(
        key=label, label=label, team=team, queue=team, priority=priority, gpus=gpus, arrival=arrival
    )


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
        _job("b/owner", team="b", arrival=HOUR, priority="prod"),
        _job("b/large", team="b", gpus=9, priority="prod"),
    ]
    runs = {
        "a/own": (_run(0, 2 * HOUR),),
        "a/borrowing": (_run(0, HOUR, by="b/owner"), _run(2 * HOUR, 3 * HOUR)),
        "b/owner": (_run(HOUR, 2 * HOUR),),
        "b/large": (),
    }
    playback = Playback(runs=runs, digest="d", end=3 * HOUR, cycles=0, admissions=4, preemptions=1)
    return to_figures(jobs, playback, {("a", "h100"): 4, ("b", "h100"): 4}, gpus=8, start=0, until=4 * HOUR)


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


def test_a_job_older_than_the_recording_counts_from_its_start() -> None:
    jobs, runs = [_job("a/old", arrival=-100 * HOUR)], {"a/old": (_run(-100 * HOUR, HOUR),)}
    playback = Playback(runs=runs, digest="d", end=HOUR, cycles=0, admissions=1, preemptions=0)
    figures = to_figures(jobs, playback, {("a", "h100"): 4}, gpus=4, start=0, until=2 * HOUR)
    assert figures.hours["a"].guaranteed == pytest.approx(4)
    assert sum(figures.utilisation.used) * figures.utilisation.step == pytest.approx(4 * HOUR)


def test_percentiles_are_waits_that_occurred() -> None:
    waits = to_waits(range(1, 101))
    assert (waits.p50, waits.p95) == (50, 95)
    assert to_waits([7]).p95 == 7


def _diff(base: Figures, head: Figures) -> ReplayDiff:
    return ReplayDiff(start=0, end=30 * 86_400, played=4, base=base, head=head)


def test_the_sentence_names_what_is_worse_and_then_what_is_better() -> None:
    base = _figures()
    waits = to_waits([6 * HOUR])
    base = replace(base, teams={"vision": waits, "speech": to_waits([60])})
    teams = {"vision": replace(waits, p50=2.9 * HOUR), "speech": to_waits([1800])}
    more = {Preemption("b", "a", "dev", "InClusterQueue"): 15}
    assert plain(_diff(base, replace(base, teams=teams, preemptions=more)).sentence) == (
        "With these quotas, in the recorded 30 days speech would have waited 29 min longer in the median, "
        "14 dev runs more would have been preempted and vision would have waited 3.1 h less in the median."
    )


def test_the_sentence_says_when_nothing_changes() -> None:
    said = plain(_diff(_figures(), _figures()).sentence)
    assert said.endswith("no team would have waited noticeably longer or less.")


def _waits(jobs: int, *, never: int = 0, p50: float = 0.0, p95: float = 0.0) -> Waits:
    return Waits(jobs=jobs, never=never, p50=p50, p95=p95)


def _compare(base: dict[str, Waits], head: dict[str, Waits], **more: Any) -> ReplayDiff:
    """Sides that differ in the waits of teams alone."""
    sides = [
        replace(_figures(), teams=teams, jobs=sum(each.jobs for each in teams.values()))
        for teams in (base, head)
    ]
    return replace(_diff(*sides), **more)


@pytest.mark.parametrize(
    ("base", "head", "said"),
    [
        (_waits(20), _waits(20, never=2, p95=NEVER), "2 of vision's 20 jobs would never have started."),
        (_waits(62), _waits(62, never=2), "2 of vision's 62 jobs would never have started."),
        (_waits(9, never=1), _waits(9, never=3), "2 more of vision's 9 jobs would never have started."),
        (
            _waits(20, never=2, p95=NEVER),
            _waits(20, p95=60),
            "2 more of vision's 20 jobs would have started.",
        ),
        (
            _waits(20),
            _waits(20, never=2, p50=7200, p95=NEVER),
            "2 of vision's 20 jobs would never have started and vision would have waited 2.0 h longer "
            "in the median.",
        ),
    ],
)
def test_jobs_that_never_start_are_counted_first(base: Waits, head: Waits, said: str) -> None:
    found = _compare({"vision": base}, {"vision": head})
    assert plain(found.sentence) == f"With these quotas, in the recorded 30 days {said}"
    assert found.slower == (("vision",) if head.never > base.never else ())


def test_the_sentence_names_the_team_that_loses_before_the_one_that_gains_more() -> None:
    found = _compare(
        {"vision": _waits(9, p50=9 * HOUR), "speech": _waits(9)},
        {"vision": _waits(9), "speech": _waits(9, p95=2 * HOUR)},
    )
    assert plain(found.sentence) == (
        "With these quotas, in the recorded 30 days speech would have waited 2.0 h longer at the 95th "
        "percentile and vision would have waited 9.0 h less in the median."
    )


def test_the_sentence_names_the_priority_that_is_preempted_more_before_the_one_preempted_less() -> None:
    base, head = (
        replace(_figures(), preemptions={Preemption("b", "a", each, "InCohortReclamation"): count})
        for each, count in (("dev", 20), ("0", 14))
    )
    assert plain(_diff(base, head).sentence).endswith(
        "14 runs of priority 0 more would have been preempted "
        "and 20 dev runs fewer would have been preempted."
    )


def test_a_team_that_head_removes_is_named_first_and_does_not_look_faster() -> None:
    removed = frozenset({"notebooks"})
    teams = {"notebooks": _waits(6, p50=HOUR), "vision": _waits(2)}
    found = _compare(teams, {"vision": _waits(2)}, removed=removed)
    assert plain(found.sentence) == (
        "notebooks is not in head: its 6 jobs are not played. With these quotas, in the recorded 30 days "
        "no team would have waited noticeably longer or less."
    )
    alone = _compare({"notebooks": _waits(6)}, {}, removed=removed)
    assert plain(alone.sentence) == "notebooks is not in head: its 6 jobs are not played."


def test_jobs_that_head_cannot_play_are_named() -> None:
    found = _compare({"vision": _waits(9)}, {"vision": _waits(5)})
    assert plain(found.sentence).startswith("4 of vision's 9 jobs cannot be played in head. ")


def test_a_recording_of_which_nothing_could_be_played_is_no_all_clear() -> None:
    found = _compare({}, {}, played=0, unplayed=("62 jobs never ran",))
    assert plain(found.sentence) == "No job of the recording could be played: 62 jobs never ran."


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (40, "40 s"), (720, "12 min"), (11_160, "3.1 h"), (300_000, "3.5 days"), (NEVER, "never")],
)
def test_a_wait_is_written_in_the_unit_that_people_use(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_a_wait_ends_when_the_nodes_are_there_and_a_run_preempted_before_that_began_nothing() -> None:
    jobs = [_job("a/slow"), _job("b/owner", team="b", arrival=HOUR)]
    runs = {
        "a/slow": (
            replace(_run(0, HOUR, by="b/owner"), delay=2 * HOUR),
            replace(_run(2 * HOUR, 6 * HOUR), delay=HOUR),
        ),
        "b/owner": (_run(HOUR, 2 * HOUR),),
    }
    playback = Playback(runs=runs, digest="d", end=6 * HOUR, cycles=0, admissions=3, preemptions=1)
    found = to_figures(jobs, playback, {}, gpus=8, start=0, until=6 * HOUR)
    assert found.teams["a"].p50 == 3 * HOUR
    assert (found.worst[0].job, found.worst[0].wait) == ("a/slow", 3 * HOUR)
