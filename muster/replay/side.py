"""Brings queues and a recording together: the objects of the queues, those of a stack
(muster/preview/replay/both.py) or of a cluster, and the recorded jobs that they can run, as Workloads.
"""

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol, Self, TypeVar

from muster.live.fields import mapping, text, texts
from muster.live.snapshot import PodSet, State, Workload
from muster.live.snapshot.kueue import read_tree
from muster.model import names
from muster.model.kueue import Group
from muster.model.kueue.tree import Tree
from muster.model.pools import Pool
from muster.model.queues import Team
from muster.model.quotas import is_unlimited
from muster.model.stack import Scheduler
from muster.replay import stored
from muster.replay.assumptions import AS_RECORDED, Assumptions, Times
from muster.replay.figures import Played
from muster.replay.kueue import NodePool
from muster.replay.moment import Moment, Running, by_treatment
from muster.replay.player import Entry, Manifest, Playback, World, play
from muster.replay.recording import Job, Recording
from muster.replay.recording import PodSet as RecordedPods
from muster.replay.stored import has_pool, to_pods

# Whether a cloud has capacity cannot be known.
_CHECKS: Final = "admissionChecksStrategy"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorPool:
    """A pool as its ResourceFlavor describes it (provisioning.NodePool)."""

    name: str
    flavor: str
    is_gpu: bool


@dataclass(frozen=True, kw_only=True)
class Queues:
    """`objects` and `config` are what Kueue decides by, and `tree` has its queues. `teams`: by namespace, and
    by name for lists that know no namespaces. `priorities`: name -> value; a name that is missing has the
    value that was recorded. `pools`: for lists that name pools, and to say which part of a quota without a
    bound is real; a cluster has none.
    """

    objects: Sequence[Manifest]
    config: Manifest
    tree: Tree
    teams: Mapping[str, Team]
    priorities: Mapping[str, int] = field(default_factory=dict)
    pools: Sequence[Pool] = ()

    @cached_property
    def cluster_queues(self) -> Mapping[tuple[str, str], str]:
        """(namespace, name) of each LocalQueue -> its ClusterQueue."""
        return {
            (text(each, "metadata", "namespace"), text(each, "metadata", "name")): text(
                each, "spec", "clusterQueue"
            )
            for each in self.objects
            if each["kind"] == "LocalQueue"
        }

    @cached_property
    def node_pools(self) -> Sequence[NodePool]:
        """The pools of the stack, or else those that the flavors name."""
        return self.pools or [*_flavor_pools(self.objects, self.tree)]


def of_cluster(objects: Iterable[Mapping[str, object]], config: Manifest) -> Queues:
    """Of the Namespaces, ResourceFlavors, Cohorts, ClusterQueues and LocalQueues that a cluster has. Labels
    of the LocalQueues name the teams; a namespace without one is a team of its own.
    """
    played = [_plain(each) for each in objects]
    return Queues(objects=played, config=config, tree=read_tree(played), teams=_teams(played))


def _teams(objects: Iterable[Manifest]) -> dict[str, Team]:
    queues = (each["metadata"] for each in objects if each["kind"] == "LocalQueue")
    spaces: defaultdict[str, list[str]] = defaultdict(list)
    for each in sorted(queues, key=itemgetter("namespace")):
        team = each["labels"].get(names.TEAM_LABEL, each["namespace"])
        if each["namespace"] not in spaces[team]:
            spaces[team].append(each["namespace"])
    teams = (
        Team(name=name, namespace=first, further_namespaces=tuple(others))
        for name, (first, *others) in spaces.items()
    )
    return {space: team for team in teams for space in team.namespaces}


def _flavor_pools(objects: Sequence[Manifest], tree: Tree) -> Iterator[FlavorPool]:
    counted = {flavor.name for node in tree.nodes.values() for flavor in node.flavors if flavor.gpus}
    for each in objects:
        if each["kind"] == "ResourceFlavor":
            flavor = text(each, "metadata", "name")
            pool = texts(each, "spec", "nodeLabels").get(names.POOL_LABEL, flavor)
            yield FlavorPool(name=pool, flavor=flavor, is_gpu=flavor in counted)


def _plain(found: Mapping[str, object]) -> dict[str, Any]:
    """What Kueue decides by, without checks."""
    kept = ("name", "namespace", "uid")
    head = {key: value for key in kept if (value := text(found, "metadata", key))}
    spec = {key: value for key, value in mapping(found, "spec").items() if key != _CHECKS}
    return {
        "apiVersion": text(found, "apiVersion"),
        "kind": text(found, "kind"),
        "metadata": {**head, "labels": texts(found, "metadata", "labels")},
        "spec": spec,
    }


# What a job is to the player when the play begins: it holds quota, waits, or arrives later.
# A cluster shows the flavor of each resource that a running job was given. A recording has the names of its
# flavors: each pod set is taken to hold the one that its pools and its devices fit.


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The jobs that run when the play begins, by their keys, and what they may have been given. `groups`: by
    ClusterQueue, each pod set is given one flavor of a group for all its resources. `pools`: by flavor.
    """

    at: int
    running: Mapping[str, Running]
    pools: Mapping[str, Pool]
    groups: Mapping[str, Sequence[Group]]

    @classmethod
    def of(cls, queues: Queues, moment: Moment) -> Self:
        return cls(
            at=int(moment.at),
            running={each.job.key: each for each in moment.running},
            pools={pool.flavor: pool for pool in queues.pools},
            groups={queue.object_name: queue.groups for queue in queues.tree.teams()},
        )

    def place(self, entry: Entry, job: Job, workload: Workload, *, queue: str) -> Entry:
        """The job in its place at the start. `workload` is the job as it would wait in ClusterQueue `queue`,
        which `entry` plays.
        """
        running = self.running.get(job.key)
        if running is None:
            return replace(entry, at=max(self.at, int(job.arrival)))
        since = running.run.admitted
        ran = -self._left(running, entry) if since is None else max(self.at - int(since), 0)
        held = running.workload or self._assigned(running, workload, queue)
        if held is None:
            # Kueue chooses its flavors a second before the others arrive.
            left = max((entry.seconds or 0) - ran, 1)
            return replace(entry, seconds=left, at=self.at - 1, delays={})
        return replace(
            entry, workload=stored.holding(replace(held, cluster_queue=queue)), ran=ran, at=self.at
        )

    def waited(self, job: Job) -> float:
        """How long it has waited for its nodes."""
        running = self.running.get(job.key)
        if running is None or running.run.admitted is not None:
            return 0.0
        return max(self.at - running.run.reserved, 0.0)

    def _left(self, running: Running, entry: Entry) -> float:
        """Seconds until the nodes are there that it waits for."""
        delays = [entry.delays.get(flavor, 0) for flavor in running.run.flavors]
        return max(max(delays, default=0) - int(self.waited(running.job)), 0)

    def _assigned(self, running: Running, workload: Workload, queue: str) -> Workload | None:
        """The Workload with the flavors that its job was given; None where the recording has none."""
        run, recorded = running.run, running.job.pod_sets
        counts = run.counts or tuple(pods.count for pods in recorded)
        pod_sets: list[PodSet] = []
        for pods, asked, count in zip(recorded, workload.pod_sets, counts, strict=True):
            flavors = self._flavors(pods, run.flavors, queue)
            if flavors is None:
                return None
            usage = {resource: pods.requests[resource] * count for resource in flavors}
            pod_sets.append(replace(asked, assigned=count, flavors=flavors, usage=usage))
        return replace(workload, state=State.ADMITTED, pod_sets=tuple(pod_sets))

    def _flavors(self, pods: RecordedPods, given: Sequence[str], queue: str) -> dict[str, str] | None:
        """The flavor of each resource that the queue counts; None where none of those given fits."""
        found: dict[str, str] = {}
        for group in self.groups.get(queue, ()):
            resources = set(group.covered_resources) & pods.requests.keys()
            flavors = {flavor.name for flavor in group.flavors}
            fitting = [each for each in given if each in flavors and self._fits(pods, each)]
            if resources and not fitting:
                return None
            # Pods without a device run on nodes without one where the job has any.
            flavor = min(fitting, key=self._has_devices, default="")
            found |= dict.fromkeys(sorted(resources), flavor)
        return found

    def _fits(self, pods: RecordedPods, flavor: str) -> bool:
        pool = self.pools.get(flavor)
        if pool is None:
            return True
        is_named = not pods.pools or not {pool.name, pool.flavor}.isdisjoint(pods.pools)
        devices = [each for each in names.DEVICE_RESOURCES if pods.requests.get(each)]
        return is_named and (pool.is_gpu and pool.device in devices if devices else True)

    def _has_devices(self, flavor: str) -> bool:
        pool = self.pools.get(flavor)
        return pool is not None and pool.is_gpu


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
