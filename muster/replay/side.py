"""Brings queues and a recording together: the objects of the queues, and the jobs as Workloads.

Responsible for which recorded jobs the queues can run, and as what. Not responsible for the player's input
format (player.py), for the objects (queues.py), nor for what a job was given that runs already (holding.py).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from muster.live.fields import items, text
from muster.live.snapshot import Expression, PodSet, State, Term, Toleration, Workload
from muster.model import names
from muster.model.pools import Pool
from muster.model.quantities import parse_quantity
from muster.model.queues import Team
from muster.model.quotas import is_unlimited
from muster.replay import stored
from muster.replay.assumptions import AS_RECORDED, Assumptions, Times
from muster.replay.figures import Played
from muster.replay.holding import Start
from muster.replay.moment import Moment
from muster.replay.player import Entry, Manifest, World
from muster.replay.queues import Queues
from muster.replay.recording import Job, Recording
from muster.replay.recording import PodSet as RecordedPods

NO_TEAM: Final = "whose namespace or team the stack does not have"
NO_QUEUE: Final = "of queues that the stack does not have"
NO_POOL: Final = "of pools that the stack does not have"
NO_RUN: Final = "never ran, so their duration is unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """What is played. `quotas`: (ClusterQueue, flavor) -> GPUs, and `gpus` those of all queues together, in
    which a quota without a bound is the pool. `left_out`: reason -> number of jobs.
    """

    world: World
    entries: Sequence[Entry]
    jobs: Sequence[Played]
    quotas: Mapping[tuple[str, str], int]
    gpus: int
    left_out: Mapping[str, int]


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
    times = Times(recording, assumptions, queues.pools)
    left_out: Counter[str] = Counter()
    entries: list[Entry] = []
    jobs: list[Played] = []
    for job in recording.jobs:
        seconds = times.seconds(job)
        reason = why_unplayable(job, queues)
        if reason or seconds is None:
            left_out[reason or NO_RUN] += 1
            continue
        team = queues.teams[job.team]
        workload = _workload(job, team, queues)
        queue = queues.cluster_queues[workload.namespace, workload.queue]
        waited = 0.0 if start is None else start.waited(job)
        delays = times.delays(job, waited=waited)
        entry = Entry(workload=stored.pending(workload), seconds=seconds, delays=delays)
        entries.append(entry if start is None else start.place(entry, job, workload, queue=queue))
        jobs.append(
            Played(
                key=job.key,
                label=f"{workload.namespace}/{workload.name}",
                team=team.name,
                queue=queue,
                priority=workload.priority_class or str(workload.priority),
                gpus=job.devices,
                created=int(job.created),
            )
        )
    quotas = dict(_quotas(queues.objects))
    return Side(
        world=World(objects=queues.objects, config=queues.config, grace=assumptions.grace),
        entries=entries,
        jobs=jobs,
        quotas=quotas,
        gpus=_gpus(quotas, queues.pools),
        left_out=left_out,
    )


def why_unplayable(job: Job, queues: Queues) -> str:
    """What the queues lack for the job, "" for nothing: a relative clause about jobs."""
    team = queues.teams.get(job.team)
    if team is None:
        return NO_TEAM
    if _local_queue(job, team) not in queues.cluster_queues:
        return NO_QUEUE
    return "" if all(_has_pool(pods, queues.pools) for pods in job.pod_sets) else NO_POOL


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
        pod_sets=tuple(_pods(each, queues.pools) for each in job.pod_sets),
        state=State.PENDING,
        priority=queues.priorities.get(job.priority_class, job.priority),
        priority_class=job.priority_class,
    )


def _pods(pods: RecordedPods, pools: Sequence[Pool]) -> PodSet:
    """A list that names pools gets the selector of these pools, and whatever their taints ask for. Pods with
    GPUs of no pool tolerate those of every pool, as admission fills in, and pods without GPUs of none.
    """
    known = _known(pods, pools)
    terms, tolerations = pods.terms, pods.tolerations
    if not (pods.node_selector or terms):
        terms = _pool_terms(known)
        asks = any(pods.requests.get(each) for each in names.DEVICE_RESOURCES)
        tolerations = tolerations or tuple(_tolerations(known or (pools if asks else ())))
    return PodSet(
        name=pods.name,
        count=pods.count,
        min_count=pods.min_count,
        requests=pods.requests,
        node_selector=pods.node_selector,
        tolerations=tolerations,
        terms=terms,
    )


def _known(pods: RecordedPods, pools: Sequence[Pool]) -> list[Pool]:
    return [pool for pool in pools if pool.name in pods.pools or pool.flavor in pods.pools]


def _has_pool(pods: RecordedPods, pools: Sequence[Pool]) -> bool:
    """Kueue judges a selector of the job's own; a list has names alone."""
    return bool(pods.node_selector or pods.terms or not pods.pools or _known(pods, pools))


def _pool_terms(pools: Sequence[Pool]) -> tuple[Term, ...]:
    if not pools:
        return ()
    return (Term((Expression(names.POOL_LABEL, "In", tuple(pool.name for pool in pools)),)),)


def _tolerations(pools: Sequence[Pool]) -> Iterator[Toleration]:
    for taint in sorted({pool.device_taint for pool in pools if pool.is_gpu}):
        yield Toleration(taint, "Exists", "", "")


def _quotas(objects: Sequence[Manifest]) -> Iterator[tuple[tuple[str, str], int]]:
    for each in objects:
        if each["kind"] != "ClusterQueue":
            continue
        for group in items(each, "spec", "resourceGroups"):
            for flavor in items(group, "flavors"):
                gpus = sum(_nominal(resource) for resource in items(flavor, "resources"))
                if gpus:
                    yield (text(each, "metadata", "name"), text(flavor, "name")), gpus


def _gpus(quotas: Mapping[tuple[str, str], int], pools: Sequence[Pool]) -> int:
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


def _nominal(resource: Mapping[str, Any]) -> int:
    if text(resource, "name") not in names.DEVICE_RESOURCES:
        return 0
    return int(parse_quantity(str(resource.get("nominalQuota", "0"))))
