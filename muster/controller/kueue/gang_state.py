"""The state of a Workload's gang, for metrics and logs: which one, and since when."""

from collections.abc import Sequence
from datetime import datetime

from muster.controller.gangs.gang_state import GangObservation
from muster.controller.gangs.metrics import GangState
from muster.controller.gangs.retry import RetryHistory, parse_history
from muster.controller.kueue.actions import State
from muster.controller.kueue.objects import CheckState, Workload
from muster.model.waiting import is_stopped


def observe(workload: Workload, checks: Sequence[str]) -> GangObservation | None:
    """The gang of this Workload, or None: it is over, or no check of ours is on it. `checks`: ours, and those
    that it has left something of.
    """
    if workload.metadata.deletion_timestamp or workload.status.holds("Finished"):
        return None
    history = parse_history(workload)
    entries = [workload.check_state(check) for check in checks]
    if not entries and not history.refused:
        return None
    found = _state(workload, [entry for entry in entries if entry], history)
    return (
        GangObservation(workload.metadata.uid, *found, history.refused or history.last_failure)
        if found
        else None
    )


def _state(
    workload: Workload, entries: Sequence[CheckState], history: RetryHistory
) -> tuple[GangState, datetime | None] | None:
    status = workload.status
    if not workload.spec.active:
        if history.refused:
            return GangState.REFUSED, status.since("Evicted")
        # Without our annotation another client deactivated it, or a person has stopped it: no gang of ours.
        backs_off = history.retry_at and not history.grows and not is_stopped(workload.metadata.annotations)
        return (GangState.BACKING_OFF, status.since("Evicted")) if backs_off else None
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
