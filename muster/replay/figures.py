"""What a playback means: waits, GPU-hours, preemptions and utilisation. Pure.

GPUs here are all devices, TPU chips included. Responsible for one side.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from muster.live.snapshot.workloads import Amounts
from muster.model import names
from muster.replay.player import Playback, PlayedRun
from muster.replay.recording import End, Job, Recording, Run

# Percentiles by nearest rank, and intervals by order.


def percentile(ordered: Sequence[float], percent: int) -> float:
    """The smallest value that at least this many percent of the values do not exceed. There must be one."""
    return ordered[max(-(-len(ordered) * percent // 100) - 1, 0)]


def interval(ordered: Sequence[float], percent: int) -> tuple[float, float]:
    """The middle values between which another value of the same kind lies with this probability, or a little
    more. There must be some.
    """
    # Another value lies in each gap between n values, before them or after them with equal probability.
    rank = max((len(ordered) + 1) * (100 - percent) // 200, 1)
    return ordered[rank - 1], ordered[-rank]


_HOUR: Final = 3600.0
_WORST: Final = 10
# Points of the curve of utilisation: as many as a picture shows.
_POINTS: Final = 240
NEVER: Final = math.inf
"""The wait of a job that never starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A job that was played. `key` is that of the recorded job, `label` is "namespace/name", `queue` the one
    in which it waits, `value` that of its priority, `gpus` its request, `arrival` when it was submitted.
    """

    key: str
    label: str
    team: str
    queue: str
    priority: str
    value: int = 0
    gpus: int
    arrival: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """Seconds from arrival to the first start, NEVER where too many jobs never start."""

    jobs: int
    never: int
    p50: float
    p95: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuHours:
    """`guaranteed` is within the queue's own quota, `borrowed` above it. `lost` is the part of both that
    preempted jobs ran for nothing.
    """

    guaranteed: float
    borrowed: float
    lost: float


@dataclass(frozen=True, slots=True, order=True)
class Preemption:
    """Who preempted whom. `reason` is Kueue's."""

    by: str
    of: str
    priority: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstJob:
    """A job that fares badly. `wait` is the time that it waited in all, after preemptions as well."""

    job: str
    team: str
    gpus: int
    wait: float
    preemptions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """GPUs in use: the mean of each of equal steps of time."""

    start: int
    step: float
    used: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One side. `quota` is the GPUs of all queues together."""

    jobs: int
    quota: int
    teams: Mapping[str, Waits]
    priorities: Mapping[str, Waits]
    sizes: Mapping[int, Waits]
    hours: Mapping[str, GpuHours]
    preemptions: Mapping[Preemption, int]
    utilisation: Curve
    worst: tuple[WorstJob, ...]
    digest: str

    @property
    def preempted(self) -> int:
        return sum(self.preemptions.values())


def to_figures(
    jobs: Sequence[Played],
    playback: Playback,
    quotas: Mapping[tuple[str, str], int],
    *,
    gpus: int,
    start: int,
    until: float,
) -> Figures:
    """`quotas`: (ClusterQueue, flavor) -> GPUs, `gpus` those of all queues together. Utilisation and
    GPU-hours are counted from `start` to `until`: the same seconds for sides that are compared.
    """
    runs = playback.runs
    waits = {job.label: wait_of(job, runs[job.label]) for job in jobs}

    def grouped(key: Callable[[Played], str | int]) -> dict[str | int, Waits]:
        groups: dict[str | int, list[float]] = defaultdict(list)
        for job in jobs:
            groups[key(job)].append(waits[job.label])
        return {name: to_waits(found) for name, found in sorted(groups.items())}

    return Figures(
        jobs=len(jobs),
        quota=gpus,
        teams={str(name): found for name, found in grouped(lambda job: job.team).items()},
        priorities={str(name): found for name, found in grouped(lambda job: job.priority).items()},
        sizes={int(name): found for name, found in grouped(lambda job: job.gpus).items()},
        hours=_gpu_hours(jobs, playback, quotas, start=start, until=until),
        preemptions=_preemptions(jobs, runs),
        utilisation=_utilisation(jobs, playback, start=start, until=until),
        worst=_worst(jobs, playback),
        digest=playback.digest,
    )


def to_waits(seconds: Iterable[float]) -> Waits:
    """The nearest-rank percentiles of at least one wait."""
    ordered = sorted(seconds)
    return Waits(
        jobs=len(ordered),
        never=sum(each == NEVER for each in ordered),
        p50=percentile(ordered, 50),
        p95=percentile(ordered, 95),
    )


def devices(usage: Amounts) -> int:
    return sum(usage.get(resource, 0) for resource in names.DEVICE_RESOURCES)


def wait_of(job: Played, runs: Sequence[PlayedRun]) -> float:
    """Seconds from its arrival until its pods began first; NEVER where they never did."""
    first = next((run.begin for run in runs if run.begin is not None), None)
    return NEVER if first is None else float(first - job.arrival)


def run_gpus(run: PlayedRun) -> int:
    return sum(devices(amounts) for amounts in run.usage.values())


def _gpu_hours(
    jobs: Sequence[Played],
    playback: Playback,
    quotas: Mapping[tuple[str, str], int],
    *,
    start: int,
    until: float,
) -> dict[str, GpuHours]:
    """By team. A queue of several teams has one quota, whose use is shared out by their GPU-hours."""
    changes: dict[tuple[str, str], list[tuple[float, int]]] = defaultdict(list)
    used: dict[tuple[str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    lost: dict[str, float] = defaultdict(float)
    for job in jobs:
        for run in playback.runs[job.label]:
            begin, end = _clip(run, playback, start=start, until=until)
            for flavor, amounts in run.usage.items():
                gpus, line = devices(amounts), (job.queue, flavor)
                changes[line] += [(begin, gpus), (end, -gpus)]
                used[line][job.team] += gpus * (end - begin)
                lost[job.team] += gpus * (end - begin) * run.is_evicted
    own: dict[str, float] = defaultdict(float)
    more: dict[str, float] = defaultdict(float)
    for line, found in changes.items():
        within, above = _split(sorted(found), quotas.get(line, 0))
        for team, seconds in used[line].items():
            share = seconds / max(within + above, 1)
            own[team] += within * share
            more[team] += above * share
    teams = sorted({job.team for job in jobs})
    return {
        team: GpuHours(guaranteed=own[team] / _HOUR, borrowed=more[team] / _HOUR, lost=lost[team] / _HOUR)
        for team in teams
    }


def _split(changes: Iterable[tuple[float, int]], quota: int) -> tuple[float, float]:
    """GPU-seconds within the quota and above it."""
    within = above = last = 0.0
    level = 0
    for at, change in changes:
        within += min(level, quota) * (at - last)
        above += max(level - quota, 0) * (at - last)
        level, last = level + change, at
    return within, above


def _preemptions(jobs: Sequence[Played], runs: Mapping[str, Sequence[PlayedRun]]) -> dict[Preemption, int]:
    team_of = {job.label: job.team for job in jobs}
    found = Counter(
        Preemption(team_of.get(run.by, ""), job.team, job.priority, run.reason)
        for job in jobs
        for run in runs[job.label]
        if run.is_evicted
    )
    return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))


def _utilisation(jobs: Sequence[Played], playback: Playback, *, start: int, until: float) -> Curve:
    step = max(until - start, 1) / _POINTS
    spent = [0.0] * _POINTS
    for job in jobs:
        for run in playback.runs[job.label]:
            begin, end = _clip(run, playback, start=start, until=until)
            for index, seconds in _spread(begin - start, end - start, step):
                spent[index] += seconds * run_gpus(run)
    return Curve(start=start, step=step, used=tuple(each / step for each in spent))


def _clip(run: PlayedRun, playback: Playback, *, start: int, until: float) -> tuple[float, float]:
    """The part of the run in the window; it is empty where the run ended before."""
    begin = max(run.start, start)
    return begin, max(min(until, playback.end if run.end is None else run.end), begin)


def _spread(begin: float, end: float, step: float) -> Iterator[tuple[int, float]]:
    """(index, seconds) of the steps that the time from `begin` to `end` touches."""
    for index in range(int(begin // step), min(math.ceil(end / step), _POINTS)):
        seconds = min(end, (index + 1) * step) - max(begin, index * step)
        if seconds > 0:
            yield index, seconds


def _worst(jobs: Sequence[Played], playback: Playback) -> tuple[WorstJob, ...]:
    """Jobs that never start, then those that waited longest in all."""
    found = [
        WorstJob(
            job=job.label,
            team=job.team,
            gpus=job.gpus,
            wait=_waited(job, playback.runs[job.label]),
            preemptions=sum(run.is_evicted for run in playback.runs[job.label]),
        )
        for job in jobs
    ]
    return tuple(sorted(found, key=lambda each: (-each.wait, -each.preemptions, each.job))[:_WORST])


def _waited(job: Played, runs: Sequence[PlayedRun]) -> float:
    """Seconds until its last start in which it did not run; NEVER where it waits at the end."""
    if not runs or runs[-1].is_evicted:
        return NEVER
    since, waited = job.arrival, 0.0
    for run in runs:
        ready = run.start + run.delay
        end = ready if run.end is None else run.end
        waited += min(ready, end) - since
        since = end
    return waited


# A recording by team: jobs, GPU-hours, waits, evictions. Pure.


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
