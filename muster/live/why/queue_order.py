"""The Workloads that are ahead of a Workload in its queue.

The order is that of Kueue 0.19.2: by priority, then by the time since which the Workload is queued. That time
is reset when an admission check or the pods-ready timeout requeues it (pkg/workload, GetQueueOrderTimestamp).
Kueue's visibility API is preferred where it is served (job_status.py).
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from muster.live.snapshot import State, Workload

_REQUEUED: Final = ("PodsReadyTimeout", "AdmissionCheck")
_RECLAIMED: Final = "InCohortReclaimWhileBorrowing"


def queued_before(mine: Workload, others: Iterable[Workload]) -> tuple[Workload, ...]:
    """The pending ones of `others` that Kueue tries first, in their order."""
    place = _order_key(mine)
    pending = (each for each in others if each.state is State.PENDING)
    return tuple(sorted((each for each in pending if _order_key(each) < place), key=_order_key))


def _order_key(workload: Workload) -> tuple[int, datetime, str, str]:
    return (-workload.priority, _waits_since(workload), workload.namespace, workload.name)


def _waits_since(workload: Workload) -> datetime:
    for each in workload.conditions:
        if each.status != "True" or each.since is None:
            continue
        if each.type == "Evicted" and each.reason in _REQUEUED:
            return each.since
        if each.type == "Preempted" and each.reason == _RECLAIMED:
            return each.since + timedelta(milliseconds=1)
    return workload.created
