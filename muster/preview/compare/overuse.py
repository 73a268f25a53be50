"""Compares a change with the running work: which teams use more than their new quota.

Kueue ends no work because a quota shrinks. What exceeds the new quota counts as borrowed from then on, and
can be reclaimed. KAI counts what a queue holds without pools, so its queues are compared in kai.py.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from muster.live.snapshot import Snapshot, State
from muster.model.kueue.tree import Tree, in_pool_unit, nominal_quota
from muster.model.pools import Pool
from muster.model.stack import Scheduler
from muster.preview.compare.changes import Changes

Used = Mapping[tuple[str, str], int]
"""The amount by team and pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaOveruse:
    """A team that uses more of a pool than its new quota. All amounts are in the pool's unit.

    `most` is what it could hold if all other queues lent everything. A team that `is_gone` no longer has a
    quota.
    """

    team: str
    pool: Pool
    used: int
    before: int
    after: int
    most: int
    is_gone: bool

    @property
    def is_new(self) -> bool:
        """Whether the team was within its quota before."""
        return self.used <= self.before


@dataclass(frozen=True, slots=True)
class QueuedWork:
    """How many Workloads of a team's queue are pending, and how many hold quota."""

    team: str
    pending: int
    holding: int


def current_usage(changes: Changes, snapshot: Snapshot) -> Used:
    """What teams use now of every pool, in the pool's unit. KAI counts without pools, so it is unknown."""
    if snapshot.scheduler is Scheduler.KAI:
        return {}
    pools = {**changes.before.pools, **changes.after.pools}.values()
    amounts = {
        (queue.name, each.flavor, each.resource): each.amount
        for queue in snapshot.queues
        for each in queue.usage
    }
    return {
        (queue.name, pool.name): amounts.get((queue.name, pool.flavor, _resource(pool)), 0)
        for queue in snapshot.queues
        for pool in pools
    }


def quota_overuse(changes: Changes, used: Used) -> tuple[QuotaOveruse, ...]:
    """Teams whose quota of a pool shrinks or goes away, and who use more than what is left."""
    return tuple(sorted(_find_overuse(changes, used), key=lambda each: (not each.is_new, each.team)))


def queued_work(changes: Changes, snapshot: Snapshot) -> tuple[QueuedWork, ...]:
    """The work of every team whose own quota changes."""
    if snapshot.scheduler is Scheduler.KAI:
        return ()
    touched = {each.name for each in changes.quotas if each.is_team and not each.is_indirect}
    queues = {(each.namespace, each.name): each.cluster_queue for each in snapshot.local_queues}
    found = {team: [0, 0] for team in sorted(touched)}
    for workload in snapshot.workloads:
        team = workload.cluster_queue or queues.get((workload.namespace, workload.queue), "")
        if team in found and workload.state is not State.INACTIVE:
            found[team][workload.is_holding] += 1
    return tuple(QueuedWork(team, *counts) for team, counts in found.items() if any(counts))


def _find_overuse(changes: Changes, used: Used) -> Iterator[QuotaOveruse]:
    pools = {**changes.before.pools, **changes.after.pools}
    for change in changes.quotas:
        if not change.is_team or change.is_indirect:
            continue
        pool = pools[change.pool.name]
        now = used.get((change.name, pool.name), 0)
        after = _quota_of(changes.after, change.name, pool)
        if now > after:
            yield QuotaOveruse(
                team=change.name,
                pool=pool,
                used=now,
                before=_quota_of(changes.before, change.name, pool),
                after=after,
                most=0 if change.after is None else change.after.most,
                is_gone=change.name not in changes.after.nodes,
            )


def _quota_of(tree: Tree, name: str, pool: Pool) -> int:
    node = tree.nodes.get(name)
    return 0 if node is None else in_pool_unit(pool, nominal_quota(node, pool.name))


def _resource(pool: Pool) -> str:
    return pool.device if pool.is_gpu else "cpu"
