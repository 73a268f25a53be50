"""The trials of a run, their order, and its time limit.

Each case is run to its end before the next one. Its contenders take turns, and each round starts with
another one, so that load on the machine affects both. When the time is over no further trial starts, so the
least important case comes last.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from bench.gangs.cases import Case
from bench.gangs.variants import Contender


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A case, and how often it is to be run; None for as often as all."""

    case: Case
    rounds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One trial that is due."""

    case: Case
    contender: Contender
    number: int
    rounds: int

    def __str__(self) -> str:
        return f"round {self.number} of {self.rounds}, {self.case.name}, {self.contender.name}"


def turns(plan: Sequence[Planned], contenders: Sequence[Contender], *, rounds: int) -> Iterator[Turn]:
    """`rounds`: for cases without a number of their own."""
    for planned in plan:
        count = planned.rounds or rounds
        for number in range(count):
            first = number % len(contenders)
            for contender in (*contenders[first:], *contenders[:first]):
                yield Turn(case=planned.case, contender=contender, number=number + 1, rounds=count)


@dataclass(slots=True)
class Allowance:
    """The time that a run may take; None for no bound."""

    minutes: float | None = None
    _begun: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        """Seconds."""
        if self.minutes is None:
            return float("inf")
        return 60 * self.minutes - (time.monotonic() - self._begun)

    def cut(self, case: Case) -> Case:
        """The case, ended when the time is."""
        return replace(case, most=min(case.most, max(1.0, self.left)))
