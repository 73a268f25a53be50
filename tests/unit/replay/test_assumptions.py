"""How a replay varies durations and provisioning times."""

from __future__ import annotations

from dataclasses import replace

import pytest

from muster.model import names
from muster.model.stack import Scheduler
from muster.replay.assumptions import AssumptionError, Assumptions, Times, parse_provisioning, parse_scale
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


def test_drawn_durations_are_recorded_ones_and_depend_on_the_seed_and_the_job_alone() -> None:
    def drawn(seed: int, jobs: tuple[Job, ...] = _JOBS) -> dict[str, int | None]:
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
