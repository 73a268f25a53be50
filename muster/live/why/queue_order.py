"""How many stand before a Workload in its queue.

Decides the order as Kueue 0.19.2 does: by priority, then by the time since when it waits, which begins anew
when its check or its pods' deadline sent it back (pkg/workload, GetQueueOrderTimestamp). Kueue's own answer,
the visibility API, goes before this one where it is served.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from muster.live.snapshot import State, Workload

_REQUEUED: Final = ("PodsReadyTimeout", "AdmissionCheck")
_RECLAIMED: Final = "InCohortReclaimWhileBorrowing"


def queued_before(mine: Workload, others: Iterable[Workload]) -> tuple[Workload, ...]:
    """Those of the same queue that are tried first, in their order."""
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
