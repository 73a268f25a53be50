"""Every minute of every GPU node, by what it was spent on.

Two books that share nothing but the clock: nodes from the moment at which they are bought to the one at which
the cloud takes them back, cause after cause, and gangs by the time for which they ran on how many nodes. What
was bought and not used has to be the sum of all causes.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

USED: Final = "used"


@dataclass(slots=True)
class _Spell:
    cause: str
    since: float
    bought_at: float


@dataclass(slots=True)
class Minutes:
    """Moments are virtual seconds."""

    by_cause: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    bought: float = 0.0
    used: float = 0.0
    """By the gangs' book."""
    _spells: dict[str, _Spell] = field(default_factory=dict)
    _runs: dict[str, tuple[float, int]] = field(default_factory=dict)

    def buy(self, node: str, cause: str, *, at: float) -> None:
        self._spells[node] = _Spell(cause, at, at)

    def turn(self, node: str, cause: str, *, at: float) -> None:
        """From now on this node costs for that cause."""
        spell = self._spells[node]
        if spell.cause != cause:
            self._close(spell, at)
            spell.cause, spell.since = cause, at

    def give_back(self, node: str, *, at: float) -> None:
        spell = self._spells.pop(node)
        self._close(spell, at)
        self.bought += at - spell.bought_at

    def _close(self, spell: _Spell, at: float) -> None:
        self.by_cause[spell.cause] += at - spell.since

    def run(self, gang: str, nodes: int, *, at: float) -> None:
        self._runs.setdefault(gang, (at, nodes))

    def stop(self, gang: str, *, at: float) -> None:
        if (run := self._runs.pop(gang, None)) is not None:
            since, nodes = run
            self.used += (at - since) * nodes

    def settled(self, *, at: float) -> "Minutes":
        """Both books closed at this moment, while everything goes on."""
        closed = Minutes(defaultdict(float, self.by_cause), self.bought, self.used)
        for spell in self._spells.values():
            closed.by_cause[spell.cause] += at - spell.since
            closed.bought += at - spell.bought_at
        closed.used += sum((at - since) * nodes for since, nodes in self._runs.values())
        return closed

    def unused(self) -> dict[str, float]:
        """GPU-minutes by cause, the largest first."""
        return {cause: spent / 60 for cause, spent in self._largest_first() if cause != USED and spent}

    def _largest_first(self) -> list[tuple[str, float]]:
        return sorted(self.by_cause.items(), key=lambda item: -item[1])

    def check(self) -> None:
        """What was bought and not used is accounted for by cause."""
        unused = sum(self.unused().values())
        difference = (self.bought - self.used) / 60 - unused
        assert abs(difference) < 0.001, f"{difference} GPU-minutes have no cause"
