"""Brings queues and a recording together: the objects of the queues, and the jobs as Workloads.

Responsible for which recorded jobs the queues can run, and as what.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol, Self, TypeVar

from muster.live.snapshot import State, Workload
from muster.model.pools import Pool
from muster.model.queues import Team
from muster.model.quotas import is_unlimited
from muster.model.stack import Scheduler
from muster.replay import stored
from muster.replay.assumptions import AS_RECORDED, Assumptions, Times
from muster.replay.figures import Played
from muster.replay.kueue import NodePool
from muster.replay.moment import Moment, by_treatment
from muster.replay.player import Entry, Playback, World, play
from muster.replay.queues import Queues, Start
from muster.replay.recording import Job, Recording
from muster.replay.stored import has_pool, to_pods

# What a side of a replay plays with either scheduler: its jobs, and the quotas that count them.


class Timed(Protocol):
    @property
    def at(self) -> float | None: ...


E = TypeVar("E", bound=Timed)

NO_TEAM: Final = "whose namespace or team the stack does not have"
NO_QUEUE: Final = "of queues that the stack does not have"
NO_POOL: Final = "of pools that the stack does not have"
NO_RUN: Final = "never ran, so their duration is unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject(ABC):
    """`quotas`: (queue, flavor) -> GPUs, and `gpus` those of all queues together, in which a quota without a
    bound is the pool. `left_out`: reason -> number of jobs. `notes`: what is assumed of this side, in
    sentences.
    """

    jobs: Sequence[Played]
    quotas: Mapping[tuple[str, str], int]
    gpus: int
    left_out: Mapping[str, int]
    notes: tuple[str, ...] = ()

    @abstractmethod
    def play(self, program: Path) -> Playback:
        """What its scheduler decides. UnplayableError where the player would decide otherwise."""

    @abstractmethod
    def until(self, second: int, *, limit: float = 0) -> Self:
        """The same in a play that ends then, or after `limit` seconds of the real clock, 0 for no limit."""

    def arrived(self, entries: Sequence[E], second: int) -> tuple[list[E], float]:
        """Of the entries of the jobs, those that have arrived by then, and how long before the first did."""
        pairs = zip(entries, self.jobs, strict=True)
        kept = [entry for entry, job in pairs if job.arrival <= second]
        return kept, second - min((each.at for each in kept if each.at is not None), default=second)


class Decider(ABC):
    """A scheduler and the queues in which it decides.

    `teams`: what recordings and clusters call a team -> its name in the stack. `runs`: how many futures a
    forecast has by default.
    """

    scheduler: ClassVar[Scheduler]
    runs: ClassVar[int]

    @property
    @abstractmethod
    def teams(self) -> Mapping[str, str]: ...

    @property
    @abstractmethod
    def pools(self) -> Sequence[NodePool]: ...

    @abstractmethod
    def why_unplayable(self, job: Job) -> str:
        """What the queues lack for the job, "" for nothing: a relative clause about jobs."""

    @abstractmethod
    def side(
        self, recording: Recording, assumptions: Assumptions = AS_RECORDED, *, now: Moment | None = None
    ) -> Subject:
        """The recording in these queues. With `now` the play begins at that moment: what runs then goes on,
        and what waits keeps its age.
        """


def quota_of_all(quotas: Mapping[tuple[str, str], int], pools: Sequence[Pool]) -> int:
    """The GPUs of all queues together."""
    by_flavor = {pool.flavor: pool for pool in pools}
    sums: Counter[str] = Counter()
    for (_, flavor), amount in quotas.items():
        pool = by_flavor.get(flavor)
        if pool is None or not is_unlimited(pool, amount):
            sums[flavor] += amount
    for (_, flavor), amount in quotas.items():
        pool = by_flavor.get(flavor)
        if pool is not None and is_unlimited(pool, amount):
            sums[flavor] = max(sums[flavor], int(pool.max_gpus))
    return sums.total()


@dataclass(frozen=True, slots=True, kw_only=True)
class Side(Subject):
    """What Kueue plays."""

    world: World
    entries: Sequence[Entry]

    def play(self, program: Path) -> Playback:
        return play(self.world, self.entries, program=program)

    def until(self, second: int, *, limit: float = 0) -> Self:
        entries, horizon = self.arrived(self.entries, second)
        return replace(self, entries=entries, world=replace(self.world, horizon=horizon, limit=limit))


@dataclass(frozen=True)
class KueueDecider(Decider):
    queues: Queues
    scheduler: ClassVar[Scheduler] = Scheduler.KUEUE
    runs: ClassVar[int] = 40

    @property
    def teams(self) -> Mapping[str, str]:
        return {namespace: team.name for namespace, team in self.queues.teams.items()}

    @property
    def pools(self) -> Sequence[NodePool]:
        return self.queues.node_pools

    def why_unplayable(self, job: Job) -> str:
        return why_unplayable(job, self.queues)

    def side(
        self, recording: Recording, assumptions: Assumptions = AS_RECORDED, *, now: Moment | None = None
    ) -> Side:
        return to_side(self.queues, recording, assumptions, now=now)


def to_side(
    queues: Queues,
    recording: Recording,
    assumptions: Assumptions = AS_RECORDED,
    *,
    now: Moment | None = None,
) -> Side:
    """With `now` the play begins at that moment: its running jobs hold quota, its waiting ones keep their
    age.
    """
    start = None if now is None else Start.of(queues, now)
    times = Times(recording, assumptions, queues.node_pools)
    left_out: Counter[str] = Counter()
    entries: list[Entry] = []
    jobs: list[Played] = []
    for job in by_treatment(recording.jobs):
        seconds = times.seconds(job)
        reason = why_unplayable(job, queues)
        if reason or seconds is None:
            left_out[reason or NO_RUN] += 1
            continue
        team = queues.teams[job.team]
        workload = _workload(job, team, queues)
        queue = queues.cluster_queues[workload.namespace, workload.queue]
        waited = 0.0 if start is None else start.waited(job)
        entry = Entry(
            workload=_stored(workload, job, number=len(entries)),
            seconds=seconds,
            at=job.arrived,
            delays=times.delays(job, waited=waited),
            grace=times.grace(job),
            recorded=times.recorded(job) if now is None else (),
        )
        entries.append(entry if start is None else start.place(entry, job, workload, queue=queue))
        jobs.append(
            Played(
                key=job.key,
                label=f"{workload.namespace}/{workload.name}",
                team=team.name,
                queue=queue,
                priority=workload.priority_class or str(workload.priority),
                value=workload.priority,
                gpus=job.devices,
                arrival=job.arrival,
            )
        )
    quotas = {
        (queue.object_name, flavor.name): flavor.gpus
        for queue in queues.tree.teams()
        for flavor in queue.flavors
        if flavor.gpus
    }
    return Side(
        world=World(objects=queues.objects, config=queues.config, cycle=times.cycle if now is None else 0),
        entries=entries,
        jobs=jobs,
        quotas=quotas,
        gpus=quota_of_all(quotas, queues.pools),
        left_out=left_out,
    )


def why_unplayable(job: Job, queues: Queues) -> str:
    """What the queues lack for the job, "" for nothing: a relative clause about jobs."""
    team = queues.teams.get(job.team)
    if team is None:
        return NO_TEAM
    if _local_queue(job, team) not in queues.cluster_queues:
        return NO_QUEUE
    return "" if all(has_pool(pods, queues.pools) for pods in job.pod_sets) else NO_POOL


def _local_queue(job: Job, team: Team) -> tuple[str, str]:
    namespace = job.team if job.team in team.namespaces else team.namespace
    return namespace, job.queue or team.local_queue


def _workload(job: Job, team: Team, queues: Queues) -> Workload:
    """The job as it would be submitted now. A priority has the value that its name has now."""
    namespace, queue = _local_queue(job, team)
    return Workload(
        namespace=namespace,
        name=job.id,
        queue=queue,
        created=datetime.fromtimestamp(job.created, UTC),
        pod_sets=tuple(to_pods(each, queues.pools) for each in job.pod_sets),
        state=State.PENDING,
        priority=queues.priorities.get(job.priority_class, job.priority),
        priority_class=job.priority_class,
    )


def _stored(workload: Workload, job: Job, *, number: int) -> dict[str, Any]:
    """Its object, with a UID that Kueue orders among others as the job's own: by what was recorded of it."""
    found = stored.pending(workload)
    found["metadata"]["uid"] = f"{job.tie:04x}0000-0000-4000-8000-{number:012x}"
    return found
