"""A scheduler that is simple and fast: one pool of GPUs, by priority, then by age, with backfill.

In Kueue's place it measures how far drawn futures are right at hundreds of moments, in minutes. It knows no
teams, no borrowing and no preemption.
"""

import heapq
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from muster.live.fields import items, number, text
from muster.model import names
from muster.replay.player import Entry, Playback, PlayedRun, World


@dataclass(frozen=True, slots=True, order=True)
class _Job:
    """In the order of the queue."""

    rank: int
    created: str
    number: int
    label: str = field(compare=False)
    gpus: int = field(compare=False)
    entry: Entry = field(compare=False)

    @property
    def arrival(self) -> float:
        if self.entry.at is not None:
            return self.entry.at
        return datetime.fromisoformat(self.created).timestamp()

    @property
    def is_holding(self) -> bool:
        return "status" in self.entry.workload


@dataclass(slots=True)
class _Pool:
    free: int
    waiting: list[_Job] = field(default_factory=list)
    runs: dict[str, tuple[float, float | None]] = field(default_factory=dict)
    ends: list[tuple[float, int, _Job]] = field(default_factory=list)

    def start(self, job: _Job, now: float, *, ran: float = 0) -> None:
        self.free -= job.gpus
        self.runs[job.label] = now, None
        heapq.heappush(self.ends, (now + max((job.entry.seconds or 0) - ran, 1), job.number, job))

    def end_until(self, now: float) -> None:
        while self.ends and self.ends[0][0] <= now:
            at, _, job = heapq.heappop(self.ends)
            self.free += job.gpus
            self.runs[job.label] = self.runs[job.label][0], at

    def fill(self, now: float) -> None:
        left: list[_Job] = []
        for job in self.waiting:
            if job.gpus <= self.free:
                self.start(job, now)
            else:
                left.append(job)
        self.waiting = left


def play(world: World, entries: Sequence[Entry], *, gpus: int) -> Playback:
    """Like the player's, without evictions and reasons."""
    arrivals = sorted(map(_job, range(len(entries)), entries), key=lambda job: (job.arrival, job.number))
    pool = _Pool(gpus)
    first = arrivals[0].arrival
    until = first + world.horizon if world.horizon else None
    now, place = first, 0
    while place < len(arrivals) or pool.ends:
        next_arrival = arrivals[place].arrival if place < len(arrivals) else None
        next_end = pool.ends[0][0] if pool.ends else None
        now = min(each for each in (next_arrival, next_end) if each is not None)
        if until is not None and now > until:
            break
        pool.end_until(now)
        while place < len(arrivals) and arrivals[place].arrival == now:
            job = arrivals[place]
            place += 1
            if job.is_holding:
                pool.start(job, now, ran=job.entry.ran)
            else:
                insort(pool.waiting, job)
        pool.fill(now)
    return Playback(
        runs={job.label: _runs(pool.runs.get(job.label)) for job in arrivals},
        digest="",
        end=now,
        cycles=0,
        admissions=len(pool.runs),
        preemptions=0,
    )


def _runs(found: tuple[float, float | None] | None) -> tuple[PlayedRun, ...]:
    return () if found is None else (PlayedRun(start=found[0], end=found[1], usage={"gpu": {}}),)


def _job(index: int, entry: Entry) -> _Job:
    workload = entry.workload
    gpus = 0
    for pods in items(workload, "spec", "podSets"):
        for container in items(pods, "template", "spec", "containers"):
            amount = text(container, "resources", "requests", names.GPU_RESOURCE)
            gpus += (number(pods, "count") or 0) * int(amount or 0)
    return _Job(
        rank=-(number(workload, "spec", "priority") or 0),
        created=text(workload, "metadata", "creationTimestamp"),
        number=index,
        label=f"{text(workload, 'metadata', 'namespace')}/{text(workload, 'metadata', 'name')}",
        gpus=gpus,
        entry=entry,
    )
