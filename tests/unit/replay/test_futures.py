"""What may happen after a moment of a recording."""

from dataclasses import replace
from datetime import UTC, datetime

from muster.live.snapshot import Condition, Snapshot, State, Workload
from muster.live.snapshot import PodSet as LivePods
from muster.model import names
from muster.model.stack import Scheduler
from muster.replay.forecast import futures
from muster.replay.moment import Moment, at_moment, is_over, moment_of, seconds_until
from muster.replay.recording import End, Header, Job, PodSet, Recording, Run

_DAY = 86_400.0
_AT = 3 * _DAY


def _job(name: str, *, created: float, runs: tuple[Run, ...] = (), left: float | None = None) -> Job:
    return Job(
        id=name,
        team="vision",
        created=created,
        pod_sets=(PodSet(name="main", count=1, requests={names.GPU_RESOURCE: 1}),),
        runs=runs,
        left=left,
        outcome=End.FINISHED if left else None,
    )


def _run(start: float, end: float | None = None, kind: End | None = End.FINISHED) -> Run:
    return Run(reserved=start, admitted=start, ended=end, end=kind if end else None, flavors=("l4",))


_PAST = [
    _job(
        f"past-{day}-{hour}",
        created=day * _DAY + hour * 3600,
        runs=(_run(day * _DAY + hour * 3600, _AT - 1),),
        left=_AT - 1,
    )
    for day in range(3)
    for hour in range(1, 11)
]
_NOW = [
    _job("runs", created=_AT - 500, runs=(_run(_AT - 400, _AT + 4000),), left=_AT + 4000),
    _job(
        "preempted",
        created=_AT - 300,
        runs=(_run(_AT - 300, _AT - 100, End.PREEMPTED), _run(_AT + 50, _AT + 60)),
        left=_AT + 60,
    ),
    _job("waits", created=_AT - 200, runs=(_run(_AT + 70, _AT + 90),), left=_AT + 90),
]
_LATER = _job("later", created=_AT + 10, runs=(_run(_AT + 10, _AT + 20),), left=_AT + 20)
_HEADER = Header(scheduler=Scheduler.KUEUE, start=0, end=4 * _DAY, source="test")
_RECORDING = Recording(header=_HEADER, jobs=(*_PAST, *_NOW, _LATER))


def test_a_moment_knows_who_runs_and_who_waits() -> None:
    moment = at_moment(_RECORDING, _AT)
    assert [each.job.id for each in moment.running] == ["runs"]
    assert [job.id for job in moment.waiting] == ["preempted", "waits"]
    assert "later" not in {job.id for job in moment.past}


def test_what_happened_later_changes_no_future() -> None:
    others = [
        replace(job, runs=tuple(run for run in job.runs if run.reserved <= _AT), left=None, outcome=None)
        for job in _NOW
    ]
    # The run that goes on has no end yet.
    others[0] = replace(others[0], runs=(_run(_AT - 400),))
    known = Recording(header=_HEADER, jobs=(*_PAST, *others))
    drawn = [
        futures(_HEADER, at_moment(each, _AT), seconds=_DAY, seed=1).draw(0) for each in (_RECORDING, known)
    ]
    assert drawn[0] == drawn[1]


def test_a_preempted_job_is_at_least_as_long_as_it_ran() -> None:
    preempted = _NOW[1]
    assert (seconds_until(preempted, _AT), is_over(preempted, _AT)) == (200, False)
    future = futures(_HEADER, at_moment(_RECORDING, _AT), seconds=_DAY, seed=1).draw(3)
    found = {job.id: job.runs[0].seconds or 0 for job in future.jobs}
    assert found["preempted"] > 200
    assert found["runs"] > 400


def test_as_many_jobs_arrive_as_on_a_day_before() -> None:
    drawn = futures(_HEADER, at_moment(_RECORDING, _AT), seconds=2 * _DAY, seed=1).draw(0)
    arrivals = [job for job in drawn.jobs if job.id.startswith("future")]
    assert all(_AT < job.created <= _AT + 2 * _DAY for job in arrivals)
    assert 20 <= len(arrivals) <= 26
    assert len({job.id for job in drawn.jobs}) == len(drawn.jobs)


def test_a_cluster_has_the_jobs_and_the_recording_their_durations_and_arrivals() -> None:
    """The recording ended half a day ago: hours of the day are kept."""
    now = _AT + _DAY / 2
    snapshot = Snapshot(
        taken=datetime.fromtimestamp(now, UTC),
        scheduler=Scheduler.KUEUE,
        queues=(),
        workloads=(
            _workload("holds", State.ADMITTED, since=now - 100),
            _workload("waits", State.PENDING),
            _workload("stopped", State.INACTIVE),
        ),
    )
    moment = moment_of(snapshot)
    assert [each.job.key for each in moment.running] == ["vision/holds"]
    assert [job.key for job in moment.waiting] == ["vision/waits"]
    history = at_moment(_RECORDING, _AT)
    drawn = futures(_HEADER, moment, history=history, seconds=2 * _DAY, seed=1).draw(0)
    held = next(job for job in drawn.jobs if job.id == "holds")
    assert (held.runs[0].seconds or 0) > 100
    arrivals = [job for job in drawn.jobs if job.id.startswith("future")]
    assert all(now <= job.created <= now + 2 * _DAY for job in arrivals)
    assert 20 <= len(arrivals) <= 26
    hours = {job.created % _DAY for job in _RECORDING.jobs}
    assert {job.created % _DAY for job in arrivals} <= hours


def test_durations_of_a_team_count_for_its_namespace() -> None:
    past = [replace(job, id=f"{job.id}-{copy}") for job in _PAST for copy in range(20)]
    others = [
        replace(job, id=f"other-{job.id}", team="speech", runs=(_run(job.created, job.created + 1),))
        for job in past
    ]
    recording = Recording(header=_HEADER, jobs=(*past, *others))
    waits = replace(_NOW[2], team="speech-prod", runs=(), left=None, outcome=None)
    moment = Moment(at=_AT, running=(), waiting=(waits,), past=())
    drawn = futures(
        _HEADER,
        moment,
        history=at_moment(recording, _AT),
        seconds=_DAY,
        seed=1,
        teams={"speech-prod": "speech"},
    )
    found = [job for number in range(30) for job in drawn.draw(number).jobs if job.id == "waits"]
    assert sum(job.runs[0].seconds == 1 for job in found) >= 28


def test_a_job_in_the_place_of_another_changes_no_other_draw() -> None:
    moment = at_moment(_RECORDING, _AT)
    other = replace(moment, waiting=[replace(moment.waiting[0], id="other"), *moment.waiting[1:]])
    drawn = [
        {job.id: job for job in futures(_HEADER, each, seconds=_DAY, seed=1).draw(0).jobs}
        for each in (moment, other)
    ]
    assert drawn[0].keys() ^ drawn[1].keys() == {"preempted", "other"}
    assert all(drawn[0][id] == drawn[1][id] for id in drawn[0].keys() & drawn[1].keys())


def _workload(name: str, state: State, *, since: float = 0) -> Workload:
    at = datetime.fromtimestamp(since, UTC)
    kinds = ("QuotaReserved", "Admitted") if state is State.ADMITTED else ()
    return Workload(
        namespace="vision",
        name=name,
        queue="default",
        created=datetime.fromtimestamp(_AT, UTC),
        pod_sets=(LivePods(name="main", count=1, requests={names.GPU_RESOURCE: 1}),),
        state=state,
        conditions=tuple(Condition(kind, "True", kind, at) for kind in kinds),
    )
