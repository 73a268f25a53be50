"""The order of jobs that were created in the same second."""

from muster.replay.moment import by_treatment
from muster.replay.recording import Job, Run


def _job(id: str, team: str, *, created: float = 10.0, start: float | None = None) -> Job:
    runs = () if start is None else (Run(reserved=start),)
    return Job(id=id, team=team, created=created, pod_sets=(), queue="default", runs=runs)


def test_equal_jobs_of_different_queues_keep_the_order_in_which_kueue_started_them() -> None:
    jobs = [_job("a", "vision", start=30.0), _job("b", "speech", start=20.0), _job("c", "robotics")]
    assert [job.id for job in by_treatment(jobs)] == ["b", "a", "c"]


def test_jobs_of_a_queue_and_of_different_seconds_keep_their_order() -> None:
    jobs = [
        _job("a", "vision", start=30.0),
        _job("b", "vision", start=20.0),
        _job("c", "speech", start=25.0),
        _job("d", "speech", created=11.0, start=12.0),
    ]
    assert [job.id for job in by_treatment(jobs)] == ["c", "a", "b", "d"]
