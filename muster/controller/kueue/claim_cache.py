"""Snapshots of other gangs that claim capacity, cached by version.

A gang that verifies its nodes leaves room for every unused claim: computing each of them again, every time,
would cost the square of their number.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from muster.controller.kueue.actions import State
from muster.controller.kueue.snapshot import WorkloadSnapshot

Version = tuple[object, ...]
Rank = tuple[bool, datetime, str]

_MAX_ENTRIES: Final = 4096
"""Gangs that are remembered: more than wait for their pods at a time, and a few megabytes."""


@dataclass(frozen=True, slots=True)
class CachedSnapshot:
    """A gang as it was at one version. `rank` is None when it holds no promises."""

    snapshot: WorkloadSnapshot
    rank: Rank | None


class ClaimCache:
    """The latest of each gang."""

    def __init__(self) -> None:
        self._cache: OrderedDict[tuple[str, str], tuple[Version, CachedSnapshot]] = OrderedDict()

    def get(
        self, uid: str, check: str, version: Version, make: Callable[[], WorkloadSnapshot]
    ) -> CachedSnapshot:
        """What is known of this version; made when that is nothing. Raises what `make` raises, and ValueError
        for a quantity that is none.
        """
        cached = self._cache.get((uid, check))
        if cached is None or cached[0] != version:
            snapshot = make()
            cached = (
                version,
                CachedSnapshot(snapshot, rank(snapshot) if snapshot.holds_capacity_claims else None),
            )
            self._cache[uid, check] = cached
            if len(self._cache) > _MAX_ENTRIES:
                self._cache.popitem(last=False)
        self._cache.move_to_end((uid, check))
        return cached[1]


def rank(snapshot: WorkloadSnapshot) -> Rank:
    """Priority of claims: gangs that are Ready, then the one that was provisioned first."""
    moments = [request.status.since("Provisioned") for request in snapshot.current.values()]
    last = max((moment for moment in moments if moment), default=snapshot.now)
    return not is_whole(snapshot), last, snapshot.workload.metadata.uid


def is_whole(snapshot: WorkloadSnapshot) -> bool:
    return snapshot.check_state is not None and snapshot.check_state.state == State.READY
