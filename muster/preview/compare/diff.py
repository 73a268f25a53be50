"""Everything that is known about one stack, before it is put into words."""

from dataclasses import dataclass
from typing import Final

from muster.live.snapshot import Snapshot
from muster.model.prices import BUILT_IN, PriceTable
from muster.model.stack import Stack
from muster.model.violations import Violation
from muster.preview.compare.changes import Changes
from muster.preview.events import PolicyViolation
from muster.preview.plan import Plan, Resource

GRAVE: Final = ("replaced", "deleted")


@dataclass(frozen=True, slots=True, kw_only=True)
class StackDiff:
    """Everything that is known about one stack. `changes` is None when a side is no stack."""

    name: str
    changes: Changes | None
    mistakes: tuple[str, ...] = ()
    warnings: tuple[Violation, ...] = ()
    base_plan: Plan | None = None
    head_plan: Plan | None = None
    base: Stack | None = None
    head: Stack | None = None
    prices: PriceTable = BUILT_IN
    snapshot: Snapshot | None = None

    @property
    def failures(self) -> tuple[str, ...]:
        return () if self.head_plan is None else self.head_plan.errors

    @property
    def breaches(self) -> tuple[PolicyViolation, ...]:
        return () if self.head_plan is None else self.head_plan.breaches

    @property
    def is_refused(self) -> bool:
        """Whether nothing of it can be deployed as it is."""
        return bool(self.mistakes or self.failures or any(each.is_mandatory for each in self.breaches))

    def resources(self, *, pending: bool) -> tuple[Resource, ...]:
        """What head would do to the cluster; with `pending`, the part that base would do just the same."""
        if self.head_plan is None:
            return ()
        same = frozenset() if self.base_plan is None else frozenset(self.base_plan.resources)
        return tuple(each for each in self.head_plan.resources if (each in same) is pending)

    @property
    def is_empty(self) -> bool:
        quiet = self.changes is not None and self.changes.is_empty
        return quiet and not (
            self.mistakes or self.failures or self.breaches or self.resources(pending=False)
        )
