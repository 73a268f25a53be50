"""How long jobs run: a distribution that also counts the jobs which have not ended. Pure.

Leaving out what still runs would make every job look short. The estimate is Kaplan and Meier's: the weight of
a job that was last seen running goes to the jobs that ran longer.

Jobs of one team and priority are alike, and jobs that a team submits together (a session: a sweep, a series)
are more so. Taken as independent, they give intervals that are too narrow. A draw is therefore made from a
mixture of all jobs, the team's and those of its priority (shrinkage). Jobs of one session that have not run
yet are drawn together, as much alike as the recording shows (a Gaussian copula).
"""

import math
import random
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from statistics import NormalDist, fmean
from typing import Final

# A group in which as many jobs have ended counts as much as the larger group around it. Of 5 to 200, tried on
# the public trace (bench/traces), 100 and more kept the intervals of durations close to their nominal share.
_SHRINKAGE: Final = 100
# How far beyond the longest known run a draw may go, as a multiple.
_MOST: Final = 20.0
# As much of the variance remains to each job of a session.
_LEAST_OWN: Final = 0.05
# A normal distribution has no values for shares of 0 and 1.
_EDGE: Final = 1e-4
_NORMAL: Final = NormalDist()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What is known of a job before it runs. `session`: of those that its team submitted together."""

    team: str = ""
    priority: str = ""
    session: int = 0

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """The narrowest first."""
        return (self.team, self.priority), (self.team,), ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """How long a job has been seen running. `is_over`: it ended by itself then."""

    seconds: float
    is_over: bool
    kind: Kind = Kind()


@dataclass(frozen=True, slots=True)
class Distribution:
    """`lengths` ascend; `shares` are the shares of jobs that are at most as long. Where the last one is below
    1, the others are longer than any that ended: half of them twice as long.
    """

    lengths: Sequence[float]
    shares: Sequence[float]

    def share(self, seconds: float) -> float:
        """Of jobs that are at most as long."""
        index = bisect_right(self.lengths, seconds)
        if not index:
            return 0.0
        known = self.shares[index - 1]
        return known if index < len(self.lengths) else 1.0 - (1.0 - known) * self.lengths[-1] / seconds

    def length(self, share: float) -> float:
        """The shortest that so many are at most as long as."""
        index = bisect_left(self.shares, share)
        if index < len(self.shares):
            return self.lengths[index]
        if not self.lengths:
            return 0.0
        return self.lengths[-1] * min((1.0 - self.shares[-1]) / max(1.0 - share, 1e-9), _MOST)

    def draw(self, dice: random.Random, *, beyond: float = 0.0) -> float:
        """The length of a job that has run for `beyond` seconds already."""
        if not beyond:
            return self.length(dice.random())
        least = self.share(beyond)
        found = self.length(least + (1.0 - least) * dice.random())
        return found if found > beyond else beyond * min(1.0 / (1.0 - dice.random()), _MOST)


@dataclass(frozen=True)
class Durations:
    """`groups`: the estimate of each group and its weight, of what narrower groups leave. `shared`: the share
    of the variance that jobs of one session have in common.
    """

    groups: Mapping[tuple[str, ...], tuple[Distribution, float]]
    shared: float = 0.0
    _mixtures: dict[tuple[str, ...], Distribution] = field(default_factory=dict)

    def draw(self, kind: Kind, dice: random.Random, *, session: random.Random, beyond: float = 0.0) -> float:
        """The length of a job. Jobs that have not run yet are alike where `session` begins alike. One that
        has run for `beyond` seconds is longer than that.
        """
        mixture = self.mixture(kind)
        if not beyond:
            common, own = math.sqrt(self.shared), math.sqrt(1.0 - self.shared)
            share = _NORMAL.cdf(common * session.gauss(0, 1) + own * dice.gauss(0, 1))
            return mixture.length(share)
        return mixture.draw(dice, beyond=beyond)

    def mixture(self, kind: Kind) -> Distribution:
        key = kind.groups[0]
        if key not in self._mixtures:
            self._mixtures[key] = _mix([self.groups[each] for each in kind.groups if each in self.groups])
        return self._mixtures[key]


def learn(seen: Iterable[Seen]) -> Durations:
    groups: dict[tuple[str, ...], list[Seen]] = defaultdict(list, {(): []})
    for each in seen:
        for key in each.kind.groups:
            groups[key].append(each)
    found = Durations(
        {key: (to_distribution(members), _weight(key, members)) for key, members in groups.items()}
    )
    return replace(found, shared=_shared(found, groups[()]))


def _shared(durations: Durations, seen: Sequence[Seen]) -> float:
    sessions: dict[tuple[str, int], list[float]] = defaultdict(list)
    for each in seen:
        if each.is_over:
            share = durations.mixture(each.kind).share(each.seconds)
            score = _NORMAL.inv_cdf(min(max(share, _EDGE), 1.0 - _EDGE))
            sessions[each.kind.team, each.kind.session].append(score)
    return min(intraclass_correlation([*sessions.values()]), 1.0 - _LEAST_OWN)


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


def intraclass_correlation(groups: Sequence[Sequence[float]]) -> float:
    """The share of the variance that values of one group have in common (one-way analysis of variance)."""
    total = sum(map(len, groups))
    if len(groups) < 2 or total == len(groups):
        return 0.0
    means, mean = [fmean(each) for each in groups], fmean(value for each in groups for value in each)
    within = sum((value - own) ** 2 for each, own in zip(groups, means, strict=True) for value in each) / (
        total - len(groups)
    )
    between = sum(len(each) * (own - mean) ** 2 for each, own in zip(groups, means, strict=True))
    size = (total - sum(len(each) ** 2 for each in groups) / total) / (len(groups) - 1)
    common = max((between / (len(groups) - 1) - within) / size, 0.0)
    return common / (common + within) if common else 0.0


def _mix(groups: Sequence[tuple[Distribution, float]]) -> Distribution:
    """`groups`: the narrowest first, with the share that each has of what the ones before it leave."""
    steps: list[tuple[float, float]] = []
    rest = 1.0
    for distribution, weight in groups:
        before = 0.0
        for length, share in zip(distribution.lengths, distribution.shares, strict=True):
            steps.append((length, rest * weight * (share - before)))
            before = share
        rest *= 1.0 - weight
    steps.sort()
    shares = accumulate(step for _, step in steps)
    # Each has the lengths of all jobs: as tuples, those of 120 kinds of 120,000 jobs took 430 MiB.
    lengths = array("d", (length for length, _ in steps))
    return Distribution(lengths, array("d", (min(each, 1.0) for each in shares)))


def _weight(key: tuple[str, ...], seen: Sequence[Seen]) -> float:
    ended = sum(each.is_over for each in seen)
    return ended / (ended + _SHRINKAGE) if key else 1.0
