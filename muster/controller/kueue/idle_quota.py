"""Quota that a running gang holds while none of its pods uses it.

Computes since when, for a metric and one log line. Changes nothing: a job between two of its own retries has
no pods either, and Kueue bounds a start that never happens (waitForPodsReady). Kept in memory only: a new
leader counts from its first check. A gang without a request of ours cannot be recognised by its pods, and is
left out.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import structlog

from muster.controller.gangs.metrics import GangMetrics, GangState
from muster.controller.kube.resource import Key
from muster.controller.kueue.objects import Workload
from muster.controller.kueue.slices import earlier_slices
from muster.controller.kueue.snapshot import claims_of

PERIOD: Final = 60.0
"""Seconds between two checks: pod changes do not reconcile gangs that run."""
REPORT_AFTER: Final = timedelta(minutes=30)
_BATCH: Final = 200
"""Gangs that are checked before other tasks run."""


class IdleQuotaMonitor:
    """`find`: the Workload of a key; `has_pod`: whether a pod that consumes this request is on a node."""

    def __init__(
        self,
        metrics: GangMetrics,
        *,
        find: Callable[[Key], Workload | None],
        has_pod: Callable[[Key], bool],
        clock: Callable[[], datetime],
    ) -> None:
        self._metrics, self._find, self._has_pod, self._clock = metrics, find, has_pod, clock
        self._since: dict[str, datetime] = {}
        self._reported: set[str] = set()
        self._log = structlog.get_logger("gangs")

    async def run(self) -> None:
        """Check forever; a failure must not end the process."""
        while True:
            try:
                await self.check_all()
            except Exception:
                self._log.exception("not looked for unused quota")
            await asyncio.sleep(PERIOD)

    async def check_all(self) -> None:
        """Check every gang that runs; a process that does not lead knows of none."""
        now, since, reported = self._clock(), dict[str, datetime](), set[str]()
        for number, key in enumerate(self._metrics.of(GangState.RUNNING), start=1):
            workload = self._find(key)
            if workload is not None and self._is_idle(workload):
                uid = workload.metadata.uid
                since[uid] = self._since.get(uid, now)
                if now - since[uid] >= REPORT_AFTER:
                    reported.add(uid)
                    self._report(key, uid, since[uid])
            if number % _BATCH == 0:
                await asyncio.sleep(0)
        self._since, self._reported = since, reported
        oldest = min(since.values(), default=None)
        self._metrics.unused_since.set(oldest.timestamp() if oldest else 0)

    def _report(self, key: Key, uid: str, since: datetime) -> None:
        if uid not in self._reported:
            self._log.warning("quota without a pod", key=str(key), uid=uid, since=since.isoformat())

    def _is_idle(self, workload: Workload) -> bool:
        requests = claimed_requests(workload, self._find)
        return bool(requests) and not any(self._has_pod(request) for request in requests)


def claimed_requests(workload: Workload, find: Callable[[Key], Workload | None]) -> set[Key]:
    """The requests of a gang, and of its earlier slices, whose PodSets still want pods."""
    return {
        Key(workload.metadata.namespace, name)
        for each in (workload, *earlier_slices(workload, find))
        for name in _claimed_requests(each, workload)
    }


def _claimed_requests(held: Workload, now: Workload) -> set[str]:
    """Those of one slice. `now`: the slice that counts."""
    done = {entry.name: entry.count for entry in now.status.reclaimable_pods}
    wanted = {each.name for each in now.spec.pod_sets if each.count > done.get(each.name, 0)}
    claims = (claim for entry in held.status.admission_checks for claim in claims_of(entry).values())
    return {claim.request for claim in claims if claim.request and claim.pod_set in wanted}
