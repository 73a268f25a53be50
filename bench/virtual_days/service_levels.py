"""What users of a cluster wait for, and what a failure costs them, in virtual seconds.

A start is measured from the moment at which a gang has its quota and all nodes that were bought for it are
Ready to the one at which each of its pods has a node. One on nodes that a gang has left, be it this one, is
only counted: they are there before its turn. Quota after a failure is measured from the cloud's answer (the
request failed, or its capacity was revoked) to the moment at which others can have the gang's quota. Time in
which no controller runs, or the API server is down, is left out: a story draws how long that is.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from bench.gangs.figures import percentile
from muster.controller.kube.resource import Key


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Seconds, of `count` samples."""

    p50: float
    p99: float
    most: float
    count: int


def quantiles(seconds: Sequence[float]) -> Quantiles | None:
    """None without a sample."""
    if not seconds:
        return None
    p50, p99, most = (round(percentile(seconds, percent), 1) for percent in (50, 99, 100))
    return Quantiles(p50, p99, most, len(seconds))


@dataclass(slots=True)
class ServiceLevels:
    starts: list[float] = field(default_factory=list)
    on_taken_nodes: int = 0
    quota_after_failure: list[float] = field(default_factory=list)
    _failed: dict[Key, float] = field(default_factory=dict)
    _turns: list[tuple[float, bool]] = field(default_factory=list)

    def turn(self, *, acts: bool, at: float) -> None:
        """From now on a controller can act, or none can."""
        self._turns.append((at, acts))

    def _seconds(self, since: float, *, until: float) -> float:
        """Those in which a controller could act."""
        turns = pairwise((*self._turns, (until, False)))
        return sum(max(0.0, end - max(start, since)) for (start, acts), (end, _) in turns if acts)

    def start(self, complete_since: Iterable[float], *, at: float, takes_nodes: bool) -> None:
        """All pods of a gang have nodes now. `complete_since`: when it got its quota and each node."""
        if takes_nodes:
            self.on_taken_nodes += 1
        else:
            self.starts.append(self._seconds(max(complete_since), until=at))

    def fail(self, gang: Key, *, at: float) -> None:
        """The cloud has failed a gang that holds quota."""
        self._failed.setdefault(gang, at)

    def release(self, gang: Key, *, at: float) -> None:
        """The gang holds no quota from now on."""
        if (since := self._failed.pop(gang, None)) is not None:
            self.quota_after_failure.append(self._seconds(since, until=at))
