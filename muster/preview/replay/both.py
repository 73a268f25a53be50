"""Plays a recording in both stacks at the same time, each in a process of its own.

A KAI stack and a recording become what KAI's player gets: queues, schedulers and nodes, and the jobs as
PodGroups. Here is which recorded jobs a stack can run, and as what. For Kueue, muster/replay has the same.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar, Final, Self

from muster.errors import MusterError
from muster.live.snapshot import GroupPod, PodGroup
from muster.model import names
from muster.model.kai import DEFAULT_PRIORITY, Sharding, Unlimited
from muster.model.kai.tree import nodes, sharding
from muster.model.kueue.tree import to_tree
from muster.model.pools import Pool
from muster.model.prices import BUILT_IN
from muster.model.priorities import Priority
from muster.model.quantities import many
from muster.model.queues import Team
from muster.model.stack import Scheduler, Stack
from muster.preview.compare.replay import MonthlyBill, Replay, ReplayDiff
from muster.preview.whatif.kai import (
    all_nodes,
    flavors_of,
    group_manifest,
    is_bounded,
    pod_manifest,
    protections,
    refuse_roots,
    to_manifest,
    to_queues,
    to_shards,
)
from muster.preview.whatif.kueue import queue_objects
from muster.render import kai, kueue
from muster.render.manifest import manifest
from muster.replay.assumptions import AS_RECORDED, AssumptionError, Assumptions, Times
from muster.replay.figures import Figures, Played, devices, to_figures
from muster.replay.kai_player import VERSION, KaiCourse, KaiEntry, ensure_kai_player, play_course
from muster.replay.moment import Moment, Running
from muster.replay.player import Manifest, Playback, PlayerPool, ensure_player
from muster.replay.recording import Job, Recording
from muster.replay.side import NO_POOL, NO_RUN, NO_TEAM, Decider, KueueDecider, Queues, Subject, quota_of_all
from muster.replay.stored import has_pool, to_pods
from muster.usage.inputs import rates_of, to_quotas, to_terms
from muster.usage.ledger import Hold, Window, book

MONTH_SECONDS: Final = 30 * 86_400.0

# What a job is to KAI's player when the play begins: it runs, it waits, or it arrives later.
# A cluster shows on which nodes a job's pods run. A recording does not: there KAI places what runs, a second
# before the others arrive.


@dataclass(frozen=True)
class KaiStart:
    moment: Moment

    def place(self, entry: KaiEntry, job: Job) -> KaiEntry:
        """The job in its place at the start. `entry` is the job as it would be submitted then."""
        at, group = int(self.moment.at), self.moment.groups.get(job.key)
        if group is not None:
            entry = _as_it_is(entry, group)
        running = self._running.get(job.key)
        if running is None:
            return replace(entry, at=max(at, int(job.arrival)))
        at = at if group is not None else at - 1
        return replace(entry, at=at, ran=max(at - int(running.since), 1), delays={})

    @cached_property
    def _running(self) -> Mapping[str, Running]:
        return {each.job.key: each for each in self.moment.running}


def _as_it_is(entry: KaiEntry, group: PodGroup) -> KaiEntry:
    """With the PodGroup and the pods of the cluster, and the nodes of those that have one."""
    pods = [(1, pod_manifest(group, pod)) for pod in group.pods if not pod.is_ending]
    return replace(entry, label=group.label, group=group_manifest(group), pods=pods)


NO_KAI_QUEUE: Final = "whose queue is unknown: the team has a queue for each pool, and they name no pool"
# More than any pool has: the GPUs of a queue without a bound.
_UNBOUND: Final = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class KaiSide(Subject):
    """What KAI plays."""

    course: KaiCourse
    entries: Sequence[KaiEntry]

    def play(self, program: Path) -> Playback:
        return play_course(self.course, self.entries, program=program)

    def until(self, second: int, *, limit: float = 0) -> Self:
        """KAI's player has a limit of its own, of processor time."""
        entries, horizon = self.arrived(self.entries, second)
        return replace(self, entries=entries, course=replace(self.course, horizon=int(horizon)))


@dataclass(frozen=True)
class KaiDecider(Decider):
    """A play costs some times the processor time of one of Kueue, so a forecast has half as many futures."""

    stack: Stack
    scheduler: ClassVar[Scheduler] = Scheduler.KAI
    runs: ClassVar[int] = 20

    @cached_property
    def teams(self) -> Mapping[str, str]:
        """A recording of KAI calls a team by its queue."""
        by_name = {name: team.name for name, team in self.stack.teams_by_namespace().items()}
        return {leaf.queue: leaf.team.name for leaf in self._leaves.all} | by_name

    @property
    def pools(self) -> Sequence[Pool]:
        return self.stack.pools

    def why_unplayable(self, job: Job) -> str:
        found = self._leaves.of(job)
        return found if isinstance(found, str) else ""

    def side(
        self, recording: Recording, assumptions: Assumptions = AS_RECORDED, *, now: Moment | None = None
    ) -> KaiSide:
        return to_kai_side(self.stack, recording, assumptions, now=now)

    @cached_property
    def _leaves(self) -> "_Leaves":
        return _Leaves(self.stack)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A queue that holds work. `pool` None: of any pool."""

    queue: str
    team: Team
    pool: str | None


def to_kai_side(
    stack: Stack,
    recording: Recording,
    assumptions: Assumptions = AS_RECORDED,
    *,
    now: Moment | None = None,
) -> KaiSide:
    """With `now` the play begins at that moment: its running jobs hold their nodes, its waiting ones keep
    their age. UnplayableError where KAI 0.12 cannot have this stack.
    """
    start = None if now is None else KaiStart(now)
    queues = to_queues(stack)
    leaves, times = _Leaves(stack), Times(recording, assumptions, stack.pools)
    priorities = _Priorities(stack)
    left_out: Counter[str] = Counter()
    entries: list[KaiEntry] = []
    jobs: list[Played] = []
    for job in recording.jobs:
        seconds = times.seconds(job)
        leaf = leaves.of(job)
        if seconds is None or isinstance(leaf, str):
            left_out[leaf if isinstance(leaf, str) else NO_RUN] += 1
            continue
        priority = priorities.name_of(job)
        group = _group(job, leaf, stack, priority=priority)
        pods = [
            (recorded.count, pod_manifest(group, pod))
            for recorded, pod in zip(job.pod_sets, group.pods, strict=True)
        ]
        entry = KaiEntry(
            label=group.label,
            group=group_manifest(group),
            pods=pods,
            seconds=round(seconds),
            delays=times.delays(job),
        )
        entry = entry if start is None else start.place(entry, job)
        entries.append(entry)
        jobs.append(
            Played(
                key=job.key,
                label=entry.label,
                team=leaf.team.name,
                queue=leaf.queue,
                priority=job.priority_class or str(job.priority),
                value=priorities.value_of(priority),
                gpus=job.devices,
                arrival=int(job.created),
            )
        )
    refuse_roots(queues, [each.queue for each in jobs])
    quotas = dict(_quotas(stack, leaves))
    nodes = all_nodes(stack, () if now is None else now.nodes)
    return KaiSide(
        course=KaiCourse(
            shards=to_shards(stack),
            queues=queues,
            nodes=[to_manifest(each) for each in nodes],
            topologies=kai.topologies(stack),
            priority_classes=priorities.manifests(),
            flavors=flavors_of(stack, nodes),
            grace=_grace(assumptions),
            protected=protections(stack, queues),
        ),
        entries=entries,
        jobs=jobs,
        quotas=quotas,
        gpus=quota_of_all(quotas, stack.pools),
        left_out=left_out,
        notes=tuple(_notes(stack)),
    )


class _Leaves:
    """The queues of a stack that hold work, by what a recorded job says."""

    def __init__(self, stack: Stack) -> None:
        teams = {team.name: team for _, team in stack.teams()}
        self.all = [
            _Leaf(queue, teams[team], pool)
            for team, queues in kai.leaf_queues(stack).items()
            for pool, queue in queues.items()
        ]
        self._stack, self._teams = stack, stack.teams_by_namespace()

    def of(self, job: Job) -> _Leaf | str:
        """The job's queue, or why it cannot run. A recording of KAI names it, all others name the team."""
        if not all(has_pool(pods, self._stack.pools) for pods in job.pod_sets):
            return NO_POOL
        team = self._teams.get(job.team)
        named = [each for each in self.all if each.queue == job.queue]
        if found := next((each for each in named if each.team is team), next(iter(named), None)):
            return found
        if team is None:
            return NO_TEAM
        own = [each for each in self.all if each.team is team]
        if len(own) > 1:
            own = [each for each in own if each.pool in self._pools(job)]
        return own[0] if len(own) == 1 else NO_KAI_QUEUE

    def _pools(self, job: Job) -> set[str]:
        """Those that its pods name; those of its pods with devices where any has one."""
        with_devices = [
            pods for pods in job.pod_sets if any(pods.requests.get(each) for each in names.DEVICE_RESOURCES)
        ]
        named = {
            each
            for pods in with_devices or job.pod_sets
            for each in (*pods.pools, pods.node_selector.get(names.POOL_LABEL, ""))
        }
        return {pool.name for pool in self._stack.pools if not named.isdisjoint({pool.name, pool.flavor})}


class _Priorities:
    """PriorityClasses of the stack, and those of recorded numbers that no class of the stack has."""

    def __init__(self, stack: Stack) -> None:
        self._own = kai.priority_classes(stack)
        self._values = {str(each["metadata"]["name"]): int(each["value"]) for each in self._own}
        self._more: dict[str, int] = {}

    def name_of(self, job: Job) -> str:
        """Its class; that of its number where the stack does not know the class. "" leaves it to KAI."""
        if job.priority_class in self._values or not job.priority:
            return job.priority_class
        name = next((each for each, value in self._values.items() if value == job.priority), "")
        if not name:
            name = f"recorded-{job.priority}"
            self._more[name] = job.priority
        return name

    def value_of(self, name: str) -> int:
        return (self._values | self._more).get(name, DEFAULT_PRIORITY)

    def manifests(self) -> list[Manifest]:
        more = [Priority(value, name) for name, value in sorted(self._more.items())]
        return [
            *self._own,
            *(
                manifest("scheduling.k8s.io/v1", "PriorityClass", each.name, value=each.value)
                for each in more
            ),
        ]


def _group(job: Job, leaf: _Leaf, stack: Stack, *, priority: str) -> PodGroup:
    """With one pod for each kind of pods."""
    shapes = [to_pods(each, stack.pools) for each in job.pod_sets]
    pods = tuple(
        GroupPod(
            name=f"{job.id}-{index}",
            requests=each.requests,
            node_selector=each.node_selector,
            tolerations=each.tolerations,
            terms=each.terms,
        )
        for index, each in enumerate(shapes)
    )
    is_sharded = sharding(stack) is Sharding.PER_POOL
    return PodGroup(
        namespace=job.team if job.team in leaf.team.namespaces else leaf.team.namespace,
        name=job.id,
        queue=leaf.queue,
        created=datetime.fromtimestamp(job.created, UTC),
        pods=pods,
        min_member=sum(each.count if each.min_count is None else each.min_count for each in job.pod_sets),
        priority_class=priority,
        partition=leaf.pool or "" if is_sharded else "",
    )


def _quotas(stack: Stack, leaves: _Leaves) -> Iterator[tuple[tuple[str, str], int]]:
    """A queue without a pool of its own holds work of the stack's one GPU pool."""
    gpus = {node.name: node.figures["gpu"].quota for node in nodes(stack)}
    gpu_pools = {pool.name: pool for pool in stack.pools if pool.is_gpu}
    for leaf in leaves.all:
        pool = gpu_pools.get(leaf.pool or next(iter(gpu_pools), ""))
        if pool is not None:
            quota = gpus[leaf.queue]
            yield (leaf.queue, pool.flavor), _UNBOUND if isinstance(quota, Unlimited) else quota // 1000


def _notes(stack: Stack) -> Iterator[str]:
    yield f"KAI {VERSION}'s own scheduler decides, ties by chance. Newer versions differ."
    yield "Every pool has its largest size. A gang's pods are created at once, and Muster's gate is open."
    if is_bounded(stack):
        yield "A queue's quota of GPUs counts as its limit, as Muster's gate has it."


def _grace(assumptions: Assumptions) -> int:
    if assumptions.grace is None:
        raise AssumptionError(
            "--grace recorded: is not played with KAI.", fix="write seconds such as --grace 60."
        )
    return assumptions.grace


# The queues that a stack renders, for the player.


def queues_of(stack: Stack) -> Queues:
    """Of a stack with Kueue."""
    return Queues(
        objects=queue_objects(stack),
        config=kueue.deciding_config(stack),
        tree=to_tree(stack),
        teams=stack.teams_by_namespace(),
        priorities={each.name: each.value for each in stack.priorities},
        pools=stack.pools,
    )


# The scheduler that plays a stack's jobs, and its program.


_DECIDERS: Final[Mapping[Scheduler, tuple[Callable[[Stack], Decider], Callable[[], Path]]]] = {
    Scheduler.KUEUE: (lambda stack: KueueDecider(queues_of(stack)), ensure_player),
    Scheduler.KAI: (KaiDecider, ensure_kai_player),
}


def decider_of(stack: Stack) -> Decider:
    return _DECIDERS[stack.scheduler][0](stack)


def ensure_player_of(scheduler: Scheduler) -> Path:
    """The program that plays it; it is built the first time."""
    return _DECIDERS[scheduler][1]()


Programs = Callable[[Scheduler], Path]
"""The player of a scheduler; it is built the first time."""


def replay(recording: Recording, *, programs: Programs, assumptions: Assumptions = AS_RECORDED) -> Replay:
    return partial(_replay, recording, programs=programs, assumptions=assumptions)


def _replay(
    recording: Recording, base: Stack, head: Stack, *, programs: Programs, assumptions: Assumptions
) -> ReplayDiff:
    if base.scheduler is not head.scheduler:
        raise MusterError(
            f"--replay compares quotas under one scheduler, and base has {base.scheduler} where head has "
            f"{head.scheduler}.",
            fix="leave --replay out for this stack.",
        )
    sides = [decider_of(stack).side(recording, assumptions) for stack in (base, head)]
    played = _play(sides, programs(base.scheduler))
    return compare(recording, (base, head), sides, played, assumptions)


def compare(
    recording: Recording,
    stacks: tuple[Stack, Stack],
    sides: Sequence[Subject],
    played: tuple[Playback, Playback],
    assumptions: Assumptions,
) -> ReplayDiff:
    """What was played in both stacks, base before head."""
    (base, head), (before, after) = stacks, played
    # Both curves end where the later of both has run out of work.
    until = max(before.end, after.end)
    # They begin with the recording: one job may be weeks older than it.
    first = min((job.arrival for side in sides for job in side.jobs), default=0.0)
    start = int(max(recording.header.start, first))
    return ReplayDiff(
        start=recording.header.start,
        end=recording.header.end,
        removed=frozenset(_team_names(base) - _team_names(head)),
        played=max(len(side.jobs) for side in sides),
        base=_figures(sides[0], before, start=start, until=until),
        head=_figures(sides[1], after, start=start, until=until),
        unplayed=tuple(_unplayed(*sides)),
        assumptions=(*assumptions.sentences, *dict.fromkeys((*sides[0].notes, *sides[1].notes))),
        gaps=recording.header.left_out,
        bills=(
            bill_by_team(base, sides[0].jobs, before, start=start, until=until),
            bill_by_team(head, sides[1].jobs, after, start=start, until=until),
        ),
    )


def bill_by_team(
    stack: Stack, jobs: Sequence[Played], played: Playback, *, start: float, until: float
) -> Mapping[str, MonthlyBill]:
    """What `muster usage` would bill for what was played, scaled to 30 days. Nodes are not played, so only
    hours in which jobs run are in it.
    """
    terms, pools = to_terms(stack), {pool.flavor: pool.name for pool in stack.pools}
    holds = [
        Hold(
            job=job.label,
            team=job.team,
            queue=terms.queues.get(job.queue, ""),
            pool=pools.get(flavor, flavor),
            gpus=devices(amounts),
            reserved=run.begin,
            admitted=run.begin,
            ended=until if run.end is None else run.end,
            is_lost=run.is_evicted,
        )
        for job in jobs
        for run in played.runs[job.label]
        for flavor, amounts in run.usage.items()
        if run.begin is not None and devices(amounts)
    ]
    rates, scale = rates_of(stack, BUILT_IN), MONTH_SECONDS / max(until - start, 1)
    hours: defaultdict[str, float] = defaultdict(float)
    costs: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for entry in book(holds, (), to_quotas(stack), Window(start=start, end=until)).entries:
        if entry.hold is not None:
            team = entry.hold.team
            hours[team] += entry.hours * scale
            if (rate := rates.get(entry.pool)) is not None:
                costs[team][rate.price.currency] += entry.hours * scale * rate.hourly
    budgets = stack.budgets.teams
    return {
        team: MonthlyBill(hours=hours[team], costs=dict(costs[team]), budget=budgets.get(team))
        for team in sorted({job.team for job in jobs})
    }


def _figures(side: Subject, played: Playback, *, start: int, until: float) -> Figures:
    return to_figures(side.jobs, played, side.quotas, gpus=side.gpus, start=start, until=until)


def _team_names(stack: Stack) -> set[str]:
    return {team.name for _, team in stack.teams()}


def _play(sides: list[Subject], program: Path) -> tuple[Playback, Playback]:
    """Equal sides are played once."""
    base, head = sides
    if base == head:
        played = base.play(program)
        return played, played
    with PlayerPool(2) as pool:
        playing = [pool.submit(side.play, program) for side in sides]
        return playing[0].result(), playing[1].result()


def _unplayed(base: Subject, head: Subject) -> Iterator[str]:
    for reason in sorted(base.left_out.keys() | head.left_out.keys()):
        before, after = base.left_out.get(reason, 0), head.left_out.get(reason, 0)
        where = (
            f"{many(after, 'job')}"
            if before == after
            else f"{many(before, 'job')} in base and {after} in head"
        )
        yield f"{where} {reason}"
