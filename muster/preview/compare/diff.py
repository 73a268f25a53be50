"""The result of comparing two sides of one stack: everything that a page, a comment or JSON shows.

`compare` puts together every difference between the queues, pools and settings of two stacks. `diff_stack`
adds prices, a snapshot, a plan and a recording. Everything is computed here, once: an output format gets a
StackDiff and neither stacks, prices nor a snapshot, so two formats cannot disagree.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType

from muster.config.stack import today
from muster.live.snapshot import Snapshot, State
from muster.model.clusters import ReleaseChannel
from muster.model.kueue.tree import Tree, in_pool_unit, nominal_quota, to_tree
from muster.model.pools import Pool
from muster.model.prices import BUILT_IN, PriceTable
from muster.model.stack import Stack
from muster.model.tenancy import Namespaces
from muster.model.transitions import Judgement, Verdict
from muster.model.violations import Violation
from muster.preview.compare.kai import KaiDiff, diff_kai
from muster.preview.compare.pools import (
    PoolChange,
    PoolCost,
    PoolOrder,
    TotalCost,
    pool_changes,
    pool_costs,
    pool_order,
    total_cost,
    version_changes,
)
from muster.preview.compare.preemption import (
    AccessChange,
    PreemptionChange,
    PriorityChange,
    access_changes,
    preemption_changes,
    priority_changes,
    rules_of,
)
from muster.preview.compare.preemption_rules import Rules
from muster.preview.compare.quota import (
    FlavorMove,
    PoolSum,
    QuotaChange,
    flavor_moves,
    pool_sums,
    quota_changes,
)
from muster.preview.compare.replay import Replay, ReplayDiff
from muster.preview.compare.settings import (
    LostNamespace,
    LostVolume,
    SettingChange,
    lost_namespaces,
    lost_volumes,
    setting_changes,
)
from muster.preview.plan import Plan, PolicyViolation, Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """All differences. `quotas` go down the tree. `rules` are those of base and head. `not_compared` names
    what could not be compared, and why. `has_flavors`: both sides count by pools.
    """

    quotas: tuple[QuotaChange, ...]
    sums: tuple[PoolSum, ...]
    preemption: tuple[PreemptionChange, ...]
    pools: tuple[PoolChange, ...]
    settings: tuple[SettingChange, ...]
    before: Tree
    after: Tree
    order: PoolOrder | None
    rules: tuple[Rules, Rules]
    not_compared: tuple[str, ...] = ()
    versions: tuple[Judgement, ...] = ()
    priorities: tuple[PriorityChange, ...] = ()
    access: tuple[AccessChange, ...] = ()
    namespaces: tuple[LostNamespace, ...] = ()
    volumes: tuple[LostVolume, ...] = ()
    beside_pools: tuple[FlavorMove, ...] = ()
    has_flavors: bool = True

    @property
    def is_empty(self) -> bool:
        figures = self.quotas or self.sums or self.pools or self.order
        return not (figures or self.preemption or self.settings or self.versions)

    @property
    def removed_teams(self) -> tuple[str, ...]:
        """Teams that head does not have, by name."""
        return tuple(sorted(self.before.team_names - self.after.team_names))

    @property
    def releases_namespaces(self) -> bool:
        """Whether head leaves the namespaces alone that base makes and guards."""
        return any(
            each.path == ("tenancy", "namespaces") and each.after == Namespaces.EXISTING.value
            for each in self.settings
        )

    @property
    def channel(self) -> SettingChange | None:
        """The release channel of GKE that head moves the cluster to."""
        found = (each for each in self.settings if each.path == ("cluster", "release channel"))
        return next((each for each in found if each.after not in (None, ReleaseChannel.NONE)), None)

    def borrowing(self) -> Iterator[tuple[QuotaChange, int, int]]:
        """Teams whose borrowing of a pool became possible or impossible, with the most they could borrow."""
        for change in self.quotas:
            before, after = change.borrowable
            if change.is_team and bool(before) is not bool(after):
                yield change, before, after


def compare(base: Stack | None, head: Stack | None) -> Changes:
    """The changes from base to head. None is a stack that does not exist, and compares as an empty one."""
    before, after = _tree(base), _tree(head)
    rules = (rules_of(base, before), rules_of(head, after))
    preemption, not_compared = preemption_changes(*rules)
    return Changes(
        quotas=quota_changes(before, after),
        sums=pool_sums(before, after),
        preemption=preemption,
        pools=pool_changes(before.pools, after.pools),
        settings=setting_changes(base, head),
        before=before,
        after=after,
        order=pool_order(base, head),
        rules=rules,
        not_compared=not_compared,
        versions=version_changes(base, head),
        priorities=priority_changes(base, head),
        access=access_changes(base, head),
        namespaces=lost_namespaces(base, head),
        volumes=lost_volumes(base, head),
        beside_pools=tuple(flavor_moves(before, after)),
        has_flavors=all(each is None or each.scheduler.traits.has_flavors for each in (base, head)),
    )


def _tree(stack: Stack | None) -> Tree:
    return Tree() if stack is None else to_tree(stack)


# One side of a comparison, as it was loaded.


@dataclass(frozen=True, slots=True)
class LoadedSide:
    """Base or head of one stack. `exists` is False where this side does not have the stack. `stack` is None
    where it does not exist, or does not validate because of `mistakes`, whose paths begin with the line.
    """

    exists: bool = False
    stack: Stack | None = None
    mistakes: tuple[Violation, ...] = ()
    warnings: tuple[Violation, ...] = ()
    plan: Plan | None = None

    @property
    def is_valid(self) -> bool:
        """Whether it can be compared. A stack that does not exist compares as an empty one."""
        return self.stack is not None or not self.exists


# Compares a change with the running work: which teams use more than their new quota.
#
# Kueue ends no work because a quota shrinks. What exceeds the new quota counts as borrowed from then on, and
# can be reclaimed. KAI counts what a queue holds without pools, so its queues are compared in kai.py.

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
    if not snapshot.scheduler.traits.has_flavors:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class StackDiff:
    """What changes in one stack. `changes` is None when a side does not validate, and then nothing else of
    the stacks is compared. `kai` is None when KAI schedules neither side. `taken` is the snapshot's time,
    None without one, and `used` is what teams used then, by team and pool. `old_warnings`: of base.
    `lacks_replay`: a recording was given, and a side that is missing kept it from being played.
    """

    name: str
    changes: Changes | None
    has_head: bool = True
    base_mistakes: tuple[Violation, ...] = ()
    head_mistakes: tuple[Violation, ...] = ()
    warnings: tuple[Violation, ...] = ()
    old_warnings: tuple[Violation, ...] = ()
    base_plan: Plan | None = None
    head_plan: Plan | None = None
    pools: tuple[PoolCost, ...] = ()
    cost: TotalCost | None = None
    taken: datetime | None = None
    used: Used = field(default_factory=lambda: MappingProxyType({}))
    overuse: tuple[QuotaOveruse, ...] = ()
    queued: tuple[QueuedWork, ...] = ()
    kai: KaiDiff | None = None
    replay: ReplayDiff | None = None
    lacks_replay: bool = False

    @property
    def mistakes(self) -> tuple[str, ...]:
        """The mistakes of both stack files; those of base are marked."""
        return (*(f"(base) {mistake}" for mistake in self.base_mistakes), *map(str, self.head_mistakes))

    @property
    def failures(self) -> tuple[str, ...]:
        return () if self.head_plan is None else self.head_plan.errors

    @property
    def policy_violations(self) -> tuple[PolicyViolation, ...]:
        return () if self.head_plan is None else self.head_plan.policy_violations

    @property
    def is_refused(self) -> bool:
        """Whether it cannot be deployed as it is."""
        return bool(
            self.mistakes
            or self.failures
            or any(each.is_mandatory for each in self.policy_violations)
            or any(
                each.verdict is Verdict.REFUSED for each in (self.changes.versions if self.changes else ())
            )
        )

    def resources(self, *, pending: bool) -> tuple[Resource, ...]:
        """What head would change in the cluster; with `pending`, the part that base would change as well."""
        if self.head_plan is None:
            return ()
        same = frozenset() if self.base_plan is None else frozenset(self.base_plan.resources)
        return tuple(each for each in self.head_plan.resources if (each in same) is pending)

    @property
    def is_empty(self) -> bool:
        quiet = self.changes is not None and self.changes.is_empty
        return quiet and not (
            self.mistakes or self.failures or self.policy_violations or self.resources(pending=False)
        )


def diff_stack(
    name: str,
    base: LoadedSide,
    head: LoadedSide,
    *,
    prices: PriceTable = BUILT_IN,
    snapshot: Snapshot | None = None,
    replay: Replay | None = None,
) -> StackDiff:
    """Compare both sides with each other, with `prices`, with what runs at the time of the snapshot, and by
    what a recording does in both.
    """
    if not (base.is_valid and head.is_valid):
        return StackDiff(
            name=name,
            changes=None,
            has_head=head.exists,
            base_mistakes=base.mistakes,
            head_mistakes=head.mistakes,
            warnings=head.warnings,
            old_warnings=base.warnings,
            base_plan=base.plan,
            head_plan=head.plan,
        )
    changes = compare(base.stack, head.stack)
    pools = pool_costs(changes.pools, base.stack, head.stack, prices, day=today())
    played = _replay(base.stack, head.stack, replay)
    used = {} if snapshot is None else current_usage(changes, snapshot)
    return StackDiff(
        name=name,
        changes=changes,
        has_head=head.exists,
        warnings=head.warnings,
        old_warnings=base.warnings,
        base_plan=base.plan,
        head_plan=head.plan,
        pools=pools,
        cost=total_cost(pools),
        taken=None if snapshot is None else snapshot.taken,
        used=used,
        overuse=() if snapshot is None else quota_overuse(changes, used),
        queued=() if snapshot is None else queued_work(changes, snapshot),
        kai=diff_kai(base.stack, head.stack, snapshot),
        replay=played,
        lacks_replay=replay is not None and played is None,
    )


def _replay(base: Stack | None, head: Stack | None, replay: Replay | None) -> ReplayDiff | None:
    """A stack that is new or goes has nothing to compare with."""
    return None if replay is None or base is None or head is None else replay(base, head)
