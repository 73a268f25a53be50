"""The result of comparing one stack: everything that a page, a comment or JSON shows.

Everything is computed here, once. An output format gets a StackDiff and neither stacks, prices nor a
snapshot, so two formats cannot disagree.
"""

from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Final

from muster.config.today import today
from muster.live.snapshot import Snapshot
from muster.model.prices import BUILT_IN, PriceTable
from muster.model.stack import Stack
from muster.model.transitions import Verdict
from muster.model.violations import Violation
from muster.preview.compare.changes import Changes, compare
from muster.preview.compare.kai import KaiDiff, diff_kai
from muster.preview.compare.overuse import (
    QueuedWork,
    QuotaOveruse,
    Used,
    current_usage,
    queued_work,
    quota_overuse,
)
from muster.preview.compare.pools import PoolCost, TotalCost, pool_costs, total_cost
from muster.preview.compare.replay import Replay, ReplayDiff
from muster.preview.compare.side import LoadedSide
from muster.preview.events import PolicyViolation
from muster.preview.plan import Plan, Resource

GRAVE: Final = ("replaced", "deleted")


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
