"""A recording by team: jobs, GPU-hours, waits, evictions. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from muster.model import names
from muster.replay.percentile import percentile
from muster.replay.recording import End, Job, Recording, Run

_HOUR: Final = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamSummary:
    """`started`: jobs that were admitted at least once. Waits are seconds from creation to the first
    admission, of the jobs that started; None where none did. `gpu_hours` are those in which quota was held
    within the window; `lost_gpu_hours` are the part whose run was preempted or evicted.
    """

    team: str
    jobs: int
    started: int
    gpu_hours: float
    lost_gpu_hours: float
    wait_p50: float | None
    wait_p95: float | None
    preempted: int
    evicted: int
    deleted: int


def summarize(recording: Recording) -> list[TeamSummary]:
    """One line a team, the largest use first."""
    teams: dict[str, list[Job]] = defaultdict(list)
    for job in recording.jobs:
        teams[job.team].append(job)
    found = [_summary(team, jobs, recording) for team, jobs in teams.items()]
    return sorted(found, key=lambda each: (-each.gpu_hours, each.team))


def _summary(team: str, jobs: Sequence[Job], recording: Recording) -> TeamSummary:
    waits = sorted(job.wait for job in jobs if job.wait is not None)
    runs = [(job, run) for job in jobs for run in job.runs]
    taken = [(job, run) for job, run in runs if run.end in (End.PREEMPTED, End.EVICTED)]
    return TeamSummary(
        team=team,
        jobs=len(jobs),
        started=len(waits),
        gpu_hours=_hours(runs, recording),
        lost_gpu_hours=_hours(taken, recording),
        wait_p50=percentile(waits, 50) if waits else None,
        wait_p95=percentile(waits, 95) if waits else None,
        preempted=sum(run.end is End.PREEMPTED for _, run in runs),
        evicted=sum(run.end is End.EVICTED for _, run in runs),
        deleted=sum(job.outcome is End.DELETED for job in jobs),
    )


def _hours(runs: Iterable[tuple[Job, Run]], recording: Recording) -> float:
    header = recording.header
    seconds = 0.0
    for job, run in runs:
        begin, end = max(run.reserved, header.start), header.end if run.ended is None else run.ended
        seconds += max(end - begin, 0.0) * _devices(job, run)
    return seconds / _HOUR


def _devices(job: Job, run: Run) -> int:
    counts = run.counts or tuple(pods.count for pods in job.pod_sets)
    return sum(
        count * pods.requests.get(resource, 0)
        for count, pods in zip(counts, job.pod_sets, strict=False)
        for resource in names.DEVICE_RESOURCES
    )
