"""How a replay varies durations and provisioning times."""

from dataclasses import replace

import pytest

from muster.model import names
from muster.model.stack import Scheduler
from muster.replay.assumptions import (
    AssumptionError,
    Assumptions,
    Times,
    parse_grace,
    parse_provisioning,
    parse_scale,
)
from muster.replay.recording import End, Header, Job, PodSet, Recording, Run
from tests.unit.model.model_stacks import H100, L4

_PODS = PodSet(name="main", count=1, requests={names.GPU_RESOURCE: 1}, pools=("h100",))


def _job(number: int, *, seconds: float, waited: float = 0.0, pool: str = "h100") -> Job:
    """It held quota for `waited` seconds before it was admitted."""
    run = Run(reserved=0.0, admitted=waited, ended=waited + seconds, end=End.FINISHED, flavors=(pool,))
    return Job(
        id=f"job-{number}",
        team="vision",
        created=0.0,
        pod_sets=(_PODS,),
        priority_class="dev",
        runs=(run,),
        left=run.ended,
        outcome=End.FINISHED,
    )


_JOBS = tuple(_job(number, seconds=100.0 + number, waited=10.0 * number) for number in range(40))


def _times(assumptions: Assumptions, jobs: tuple[Job, ...] = _JOBS) -> Times:
    header = Header(scheduler=Scheduler.KUEUE, start=0.0, end=1000.0, source="test")
    return Times(Recording(header=header, jobs=jobs), assumptions, (H100, L4))


def test_jobs_run_for_their_longest_run_times_the_factor() -> None:
    assert _times(Assumptions()).seconds(_JOBS[0]) == 100
    assert _times(Assumptions(scale=1.5)).seconds(_JOBS[0]) == 150


@pytest.mark.parametrize("scale", [1.0, None])
def test_a_job_that_never_ran_has_no_duration(scale: float | None) -> None:
    assert _times(Assumptions(scale=scale)).seconds(replace(_JOBS[0], runs=())) is None


def test_a_preempted_job_takes_its_recorded_time_to_stop_and_others_one_of_these() -> None:
    def preempted(number: int, *graces: float) -> Job:
        runs = [
            Run(reserved=0.0, admitted=0.0, evicted=9.0, ended=9.0 + each, end=End.PREEMPTED)
            for each in graces
        ]
        return replace(_JOBS[number], runs=(*runs, *_JOBS[number].runs))

    jobs = (preempted(0, 4.0, 30.0, 31.5), preempted(1, 2.5), *_JOBS[2:])
    times = _times(Assumptions(grace=None), jobs)
    assert (times.grace(jobs[0]), times.grace(jobs[1])) == (30.0, 2.5)
    assert {times.grace(job) for job in jobs[2:]} == {4.0, 30.0, 31.5, 2.5}
    assert _times(Assumptions(grace=None)).grace(_JOBS[0]) == 0.0, "none was preempted"
    assert _times(Assumptions(grace=60), jobs).grace(jobs[0]) == 60.0


def test_runs_are_replayed_as_recorded_only_where_nothing_is_assumed_about_them() -> None:
    taken = Run(reserved=0.0, admitted=0.0, evicted=9.0, ended=12.0, end=End.PREEMPTED)
    run = Run(reserved=20.0, admitted=20.0, ended=90.0, end=End.FINISHED)
    job = replace(_JOBS[0], runs=(taken, run))
    assert _times(Assumptions(), (job,)).recorded(job) == [run]
    assert _times(Assumptions(grace=None), (job,)).recorded(job) == [taken, run]
    assert _times(Assumptions(scale=1.2), (job,)).recorded(job) == []
    assert _times(Assumptions(provisioning={"h100": 60}), (job,)).recorded(job) == []
    waited = replace(job, runs=(replace(run, admitted=80.0),))
    assert _times(Assumptions(), (waited,)).recorded(waited) == [], "nodes are there at once"


def test_a_decision_takes_as_long_as_decisions_at_once_took() -> None:
    def job(number: int, *runs: Run, arrived: float | None) -> Job:
        return replace(_JOBS[number], runs=runs, arrived=arrived)

    victim = Run(reserved=1.01, evicted=7.03, ended=8.0, end=End.PREEMPTED, by="job-2")
    jobs = (
        job(0, victim, arrived=1.0),
        job(1, Run(reserved=2.02), arrived=2.0),
        job(2, Run(reserved=8.0), arrived=7.0),
    )
    assert _times(Assumptions(), jobs).cycle == pytest.approx(0.02)
    assert _times(Assumptions(), tuple(replace(each, arrived=None) for each in jobs)).cycle == 0.0


@pytest.mark.parametrize("written", ["", "-1", "1.5", "5m", "drawn"])
def test_a_grace_that_is_no_number_of_seconds_is_refused(written: str) -> None:
    with pytest.raises(AssumptionError, match="--grace"):
        parse_grace(written)
    assert (parse_grace("60"), parse_grace("recorded")) == (60, None)


def test_drawn_durations_are_recorded_ones_and_depend_on_the_seed_and_the_job_alone() -> None:
    def drawn(seed: int, jobs: tuple[Job, ...] = _JOBS) -> dict[str, float | None]:
        times = _times(Assumptions(scale=None, seed=seed))
        return {job.id: times.seconds(job) for job in jobs}

    found = drawn(1)
    assert set(found.values()) <= {100 + number for number in range(40)}
    assert len(set(found.values())) > 10
    assert found == drawn(1, _JOBS[::-1])
    assert found != drawn(2)


def test_a_fixed_provisioning_time_is_that_of_its_pool_alone() -> None:
    assert _times(Assumptions(provisioning={"h100": 480})).delays(_JOBS[0]) == {"h100": 480}


def test_recorded_provisioning_times_are_those_from_reservation_to_admission() -> None:
    times = _times(Assumptions(provisioning={"h100": None}))
    found = [times.delays(job)["h100"] for job in _JOBS]
    assert set(found) <= {10 * number for number in range(40)}
    assert len(set(found)) > 10


def test_provisioning_times_that_the_recording_lacks_are_refused() -> None:
    with pytest.raises(AssumptionError, match="no run that was admitted in pool l4"):
        _times(Assumptions(provisioning={"l4": None}))


def test_provisioning_of_a_pool_that_the_stack_lacks_is_refused() -> None:
    with pytest.raises(
        AssumptionError, match=r"pool b200, which the stack lacks\. Fix: name one of: h100, l4"
    ):
        _times(Assumptions(provisioning={"b200": 60}))


def test_options_are_read() -> None:
    assert [parse_scale(text) for text in ("recorded", "x1.2", "drawn")] == [1.0, 1.2, None]
    assert parse_provisioning(["h100=8m", "l4=recorded"]) == {"h100": 480, "l4": None}


@pytest.mark.parametrize("text", ["1.2", "x0", "x", "x-1", "xnan", "often", "x99999"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(AssumptionError, match=r"Fix: write a factor such as x1\.2"):
        parse_scale(text)


@pytest.mark.parametrize("values", [["h100"], ["h100=8"], ["=8m"], ["h100=1m", "h100=2m"]])
def test_other_provisioning_times_are_refused(values: list[str]) -> None:
    with pytest.raises(AssumptionError, match="--provisioning"):
        parse_provisioning(values)


def test_the_report_says_what_was_assumed() -> None:
    varied = Assumptions(scale=1.2, provisioning={"h100": 480, "l4": None}, seed=3, grace=30)
    assert varied.sentences == (
        "Each job runs 1.2 times as long as it was recorded to run, once all its quota is reserved. A "
        "preempted job starts from its beginning.",
        "Nodes of h100 are there after 8m, in which the job holds its quota.",
        "Nodes of l4 are there after a time drawn (seed 3) from the recording, in which the job holds "
        "its quota.",
        "Nodes of other pools are there at once, every admission check is ready, and pods become ready.",
        "A preempted job gives its quota back after 30 s.",
    )
