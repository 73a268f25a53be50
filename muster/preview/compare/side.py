"""One side of a comparison, as it was loaded."""

from dataclasses import dataclass

from muster.model.stack import Stack
from muster.model.violations import Violation
from muster.preview.plan import Plan


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
