"""How long jobs run: a distribution that also counts the jobs which have not ended. Pure.

Leaving out what still runs would make every job look short. The estimate is Kaplan and Meier's: the weight of
a job that was last seen running goes to the jobs that ran longer.
"""

import random
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

# Fewer ends than this say too little about a group of jobs.
_ENOUGH: Final = 20
# How far beyond the longest known run a draw may go, as a multiple.
_MOST: Final = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """How long a job has been seen running. `is_over`: it ended by itself then."""

    team: str
    priority: str
    seconds: float
    is_over: bool


@dataclass(frozen=True, slots=True)
class Distribution:
    """`lengths` ascend; `shares` are the shares of jobs that are at most as long. Where the last one is below
    1, the others are longer than any that ended.
    """

    lengths: tuple[float, ...]
    shares: tuple[float, ...]

    def draw(self, dice: random.Random, *, beyond: float = 0.0) -> float:
        """The length of a job that has run for `beyond` seconds already."""
        index = bisect_right(self.lengths, beyond)
        least = self.shares[index - 1] if index else 0.0
        share = least + (1.0 - least) * dice.random()
        if self.lengths and beyond < self.lengths[-1] and share <= self.shares[-1]:
            return self.lengths[max(bisect_right(self.shares, share - 1e-12), index)]
        known = max(beyond, self.lengths[-1] if self.lengths else 0.0, 1.0)
        return known * min(1.0 / (1.0 - dice.random()), _MOST)


@dataclass(frozen=True, slots=True)
class Durations:
    """By team and priority, else by team, else of all: the first of these with enough ended jobs."""

    groups: Mapping[tuple[str, ...], Distribution]

    def draw(self, dice: random.Random, *, team: str, priority: str, beyond: float = 0.0) -> float:
        for key in ((team, priority), (team,)):
            if key in self.groups:
                return self.groups[key].draw(dice, beyond=beyond)
        return self.groups[()].draw(dice, beyond=beyond)


def learn(seen: Iterable[Seen]) -> Durations:
    groups: dict[tuple[str, ...], list[Seen]] = defaultdict(list)
    for each in seen:
        for key in ((each.team, each.priority), (each.team,), ()):
            groups[key].append(each)
    enough = {
        key: to_distribution(found)
        for key, found in groups.items()
        if sum(each.is_over for each in found) >= _ENOUGH
    }
    return Durations({(): to_distribution(groups[()]), **enough})


def to_distribution(seen: Iterable[Seen]) -> Distribution:
    # A job that ended comes before one that was still running after as long.
    ordered = sorted(seen, key=lambda each: (each.seconds, not each.is_over))
    lengths: list[float] = []
    shares: list[float] = []
    surviving = 1.0
    for index, each in enumerate(ordered):
        if not each.is_over:
            continue
        surviving *= 1.0 - 1.0 / (len(ordered) - index)
        lengths.append(each.seconds)
        shares.append(1.0 - surviving)
    return Distribution(tuple(lengths), tuple(shares))
