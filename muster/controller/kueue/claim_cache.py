"""Snapshots of other gangs that claim capacity, cached by version.

A gang that verifies its nodes leaves room for every unused claim: computing each of them again, every time,
would cost the square of their number.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from muster.controller.kueue.actions import State
from muster.controller.kueue.objects import Workload
from muster.controller.kueue.snapshot import WorkloadSnapshot

Version = tuple[object, ...]
Rank = tuple[bool, datetime, str]


@dataclass(frozen=True, slots=True)
class CachedSnapshot:
    """A gang as it was at one version. `rank` is None when it holds no promises."""

    snapshot: WorkloadSnapshot
    rank: Rank | None


class ClaimCache:
    """The latest of each gang, until it changes or all its pods have a node."""

    def __init__(self) -> None:
        self._cache: dict[str, dict[str, tuple[Version, CachedSnapshot]]] = {}

    def get(
        self, uid: str, check: str, version: Version, make: Callable[[], WorkloadSnapshot]
    ) -> CachedSnapshot:
        """What is known of this version; made when that is nothing. Raises what `make` raises, and ValueError
        for a quantity that is none.
        """
        checks = self._cache.get(uid, {})
        cached = checks.get(check)
        if cached is None or cached[0] != version:
            snapshot = make()
            cached = (
                version,
                CachedSnapshot(snapshot, rank(snapshot) if snapshot.holds_capacity_claims else None),
            )
            self._cache[uid] = {**checks, check: cached}
        return cached[1]

    def changed(self, before: Workload | None, after: Workload | None) -> None:
        """Listens to the cache of Workloads: what is known of this one is out of date."""
        if before is not None:
            self.forget(before.metadata.uid)

    def forget(self, uid: str) -> None:
        self._cache.pop(uid, None)


def rank(snapshot: WorkloadSnapshot) -> Rank:
    """Priority of claims: gangs that are Ready, then the one that was provisioned first."""
    moments = [request.status.since("Provisioned") for request in snapshot.current.values()]
    last = max((moment for moment in moments if moment), default=snapshot.now)
    return not is_whole(snapshot), last, snapshot.workload.metadata.uid


def is_whole(snapshot: WorkloadSnapshot) -> bool:
    return snapshot.check_state is not None and snapshot.check_state.state == State.READY
