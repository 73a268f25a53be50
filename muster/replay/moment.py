"""What was known at one moment: who ran, who waited, and how long jobs had been seen running. Pure.

Of a recording, nothing that happened later is used. Of a cluster, its Workloads or its PodGroups are the
moment, and no job of the past is known.
"""

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from muster.live.fields import text
from muster.live.snapshot import Node, PodGroup, Snapshot, State, Workload
from muster.model.stack import Scheduler
from muster.replay import kai, kueue
from muster.replay.durations import Kind, Seen
from muster.replay.recording import End, Ids, Job, Recording, Run, deleted

# Jobs that were created in the same second, in the order in which Kueue treated them. Pure.
# Within a queue Kueue compares UIDs then. Between queues chance decides, anew in each of its cycles: their
# heads come from a map (Kueue 0.19, pkg/cache/queue/manager.go, heads), and nothing orders equal ones
# (pkg/scheduler/scheduler.go, makeClassicalIterator). A recording has the outcome.


def by_treatment(jobs: Sequence[Job]) -> Iterator[Job]:
    """Jobs in the order of a recording; of those of one second, the first in their queues by their starts."""
    for _, found in groupby(jobs, key=lambda job: int(job.created)):
        yield from _merged([*found])


def _merged(jobs: Sequence[Job]) -> Iterator[Job]:
    queues: dict[tuple[str, str], list[Job]] = {}
    for job in reversed(jobs):
        queues.setdefault((job.team, job.queue), []).append(job)
    while queues:
        # The queue whose first job started first.
        key = min(queues, key=lambda each: (_start(queues[each][-1]), each))
        yield queues[key].pop()
        if not queues[key]:
            del queues[key]


def _start(job: Job) -> float:
    return job.runs[0].reserved if job.runs else math.inf


# Keeps the jobs of a cluster that have not left, and returns those that have changed.
# Pure: fed with Workloads, in any order and any number of times.


@dataclass(slots=True)
class Tracker:
    """`start`: what finished before is not part of the recording. `open`: jobs that have not left, by id.
    `left`: ids of jobs that left and whose objects may still exist.
    """

    ids: Ids
    start: float
    with_names: bool = False
    open: dict[str, Job] = field(default_factory=dict)
    left: set[str] = field(default_factory=set)

    def restore(self, recording: Recording) -> None:
        """Go on where a recording ends."""
        self.open = {job.id: job for job in recording.jobs if job.left is None}
        self.left = {job.id for job in recording.jobs if job.left is not None}

    def observe(self, found: Mapping[str, object], *, at: float | None = None) -> Job | None:
        """The job of this Workload where it has changed. `at`: when a watch delivered it; None where it was
        listed, and may have changed long before.
        """
        id = self.ids.of(text(found, "metadata", "uid"))
        if id in self.left:
            return None
        before = self.open.get(id)
        finished = kueue.finished_at(found)
        if before is None and finished is not None and finished < self.start:
            self.left.add(id)
            return None
        job = kueue.observe(found, before=before, at=at, ids=self.ids, with_names=self.with_names)
        self._keep(job)
        return None if job == before else job

    def remove(self, uid: str, *, at: float) -> Job | None:
        """The job of a Workload that is gone, where it had not left before."""
        id = self.ids.of(uid)
        self.left.discard(id)
        before = self.open.pop(id, None)
        return None if before is None else deleted(before, at=at)

    def keep_only(self, uids: Set[str], *, at: float) -> list[Job]:
        """The jobs that have left, because only Workloads of these UIDs exist."""
        known = {self.ids.of(uid) for uid in uids}
        self.left &= known
        gone = [job for id, job in self.open.items() if id not in known]
        for job in gone:
            del self.open[job.id]
        return [deleted(job, at=at) for job in gone]

    def _keep(self, job: Job) -> None:
        if job.left is None:
            self.open[job.id] = job
        else:
            self.open.pop(job.id, None)
            self.left.add(job.id)


# Jobs that a team creates within these hours are taken to belong together: in the public trace (bench/traces)
# most of the variance of durations lies between such groups, and hardly less between longer or shorter ones.
_SESSION: Final = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class Running:
    """A job that holds quota. `run` is the one that goes on. `workload`: as its cluster has it, with the
    flavor of each resource; None where only a recording is known.
    """

    job: Job
    run: Run
    workload: Workload | None = None

    @property
    def since(self) -> float:
        return self.run.reserved if self.run.admitted is None else self.run.admitted


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """`running` by start, `waiting` by creation, `past` the jobs that had been created.

    `groups` and `nodes`: of a cluster with KAI, the PodGroup of each job by its key, and where its pods may
    be.
    """

    at: float
    running: Sequence[Running]
    waiting: Sequence[Job]
    past: Sequence[Job]
    groups: Mapping[str, PodGroup] = field(default_factory=dict)
    nodes: Sequence[Node] = ()


def at_moment(recording: Recording, at: float) -> Moment:
    past = [job for job in recording.jobs if job.created <= at]
    running: list[Running] = []
    waiting: list[Job] = []
    for job in past:
        if job.left is not None and job.left <= at:
            continue
        run = _current(job, at)
        if run is None:
            waiting.append(job)
        else:
            running.append(Running(job, run))
    running.sort(key=lambda each: each.since)
    return Moment(at=at, running=running, waiting=waiting, past=past)


def moment_of(snapshot: Snapshot) -> Moment:
    """Of a cluster. Inactive Workloads are in no queue and are left out, as are PodGroups without pods."""
    return _MOMENTS[snapshot.scheduler](snapshot)


def _of_workloads(snapshot: Snapshot) -> Moment:
    jobs = sorted(map(kueue.to_job, snapshot.workloads), key=lambda job: (job.created, job.key))
    workloads = {f"{each.namespace}/{each.name}": each for each in snapshot.workloads}
    running = [Running(job, job.runs[-1], workloads[job.key]) for job in jobs if job.runs]
    return Moment(
        at=snapshot.taken.timestamp(),
        running=sorted(running, key=lambda each: each.since),
        waiting=[job for job in jobs if workloads[job.key].state is State.PENDING],
        past=(),
    )


def _of_groups(snapshot: Snapshot) -> Moment:
    at = snapshot.taken.timestamp()
    groups = [each for each in snapshot.pod_groups or () if not all(pod.is_ending for pod in each.pods)]
    jobs = [kai.to_job(each, at=at) for each in groups]
    running = [Running(job, job.runs[-1]) for job in jobs if job.runs]
    return Moment(
        at=at,
        running=sorted(running, key=lambda each: each.since),
        waiting=sorted((job for job in jobs if not job.runs), key=lambda job: (job.created, job.key)),
        past=(),
        groups={job.key: group for job, group in zip(jobs, groups, strict=True)},
        nodes=snapshot.nodes or (),
    )


_MOMENTS: Final = {Scheduler.KUEUE: _of_workloads, Scheduler.KAI: _of_groups}


def kind_of(job: Job, teams: Mapping[str, str]) -> Kind:
    """`teams`: namespace -> team, where namespaces and teams are told apart."""
    team = teams.get(job.team, job.team)
    return Kind(team=team, priority=priority_of(job), session=int(job.created // _SESSION))


def seen(moment: Moment, teams: Mapping[str, str] | None = None) -> Iterator[Seen]:
    """What each job that had run says about durations."""
    for job in moment.past:
        seconds = seconds_until(job, moment.at)
        if seconds > 0:
            yield Seen(seconds=seconds, is_over=is_over(job, moment.at), kind=kind_of(job, teams or {}))


def seconds_until(job: Job, at: float) -> float:
    """How long its longest run had lasted at a moment: the job is at least as long."""
    return max((_lasted(run, at) for run in job.runs), default=0.0)


def is_over(job: Job, at: float) -> bool:
    """Whether its duration was known at a moment: its last run was not taken from it."""
    return job.left is not None and job.left <= at and not _is_taken(job)


def priority_of(job: Job) -> str:
    return job.priority_class or str(job.priority)


def _is_taken(job: Job) -> bool:
    return bool(job.runs) and job.runs[-1].end in (End.PREEMPTED, End.EVICTED)


def _current(job: Job, at: float) -> Run | None:
    return next(
        (run for run in job.runs if run.reserved <= at and (run.ended is None or run.ended > at)), None
    )


def _lasted(run: Run, at: float) -> float:
    if run.admitted is None:
        return 0.0
    ends = [each for each in (run.evicted, run.ended, at) if each is not None]
    return max(min(ends) - run.admitted, 0.0)
