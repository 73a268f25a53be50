"""Where a Workload stands, as an onlooker says it.

Decides the one state that metrics and logs give a gang, and since when it is in it. Decides nothing about
the gang: that is machine.py's.
"""

from collections.abc import Sequence
from datetime import datetime

from muster.controller.gangs.gang_state import Sight
from muster.controller.gangs.metrics import GangState
from muster.controller.gangs.retry import History, history
from muster.controller.kueue.actions import State
from muster.controller.kueue.objects import CheckEntry, Workload


def look(workload: Workload, checks: Sequence[str]) -> Sight | None:
    """The gang of this Workload, or None: it is over, or no check of ours is on it. `checks`: ours, and those
    that it has left something of.
    """
    if workload.metadata.deletion_timestamp or workload.status.holds("Finished"):
        return None
    past = history(workload)
    entries = [workload.entry(check) for check in checks]
    if not entries and not past.refused:
        return None
    found = _stands(workload, [entry for entry in entries if entry], past)
    return Sight(workload.metadata.uid, *found, past.refused or past.last_failure) if found else None


def _stands(
    workload: Workload, entries: Sequence[CheckEntry], past: History
) -> tuple[GangState, datetime | None] | None:
    status = workload.status
    if not workload.spec.active:
        if past.refused:
            return GangState.REFUSED, status.since("Evicted")
        # Without our note somebody else deactivated it, and it is nobody's concern here.
        return (GangState.BACKING_OFF, status.since("Evicted")) if past.retry_at and not past.grows else None
    if not status.holds("QuotaReserved"):
        lost = status.condition("QuotaReserved")
        return GangState.QUEUED, lost.last_transition_time if lost else workload.metadata.creation_timestamp
    if status.holds("Evicted") or any(entry.state in (State.RETRY, State.REJECTED) for entry in entries):
        return GangState.EVICTING, status.since("Evicted")
    if status.holds("Admitted"):
        return GangState.RUNNING, status.since("Admitted")
    if entries and all(entry.state == State.READY for entry in entries):
        return GangState.READY, max(filter(None, (e.last_transition_time for e in entries)), default=None)
    return GangState.PROVISIONING, status.since("QuotaReserved")
