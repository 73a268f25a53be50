"""How an attempt ends: release everything, then retry, try another flavor, or refuse.

Responsible for the order of the writes: the history comes first, because a crash during the deletions is
finished from it. Scale-ups of elastic gangs end differently: scale_up.py.
"""

from muster.controller.gangs.actions import EmitEvent
from muster.controller.gangs.assembly import delete_all
from muster.controller.gangs.progress import format_release
from muster.controller.gangs.retry import RetryHistory, next_attempt, switch_flavor
from muster.controller.kueue import scale_up
from muster.controller.kueue.actions import Action, Deactivate, Decision
from muster.controller.kueue.flavor_fallback import next_flavor
from muster.controller.kueue.snapshot import WorkloadSnapshot
from muster.model.gangpolicy import GangPolicy, OnStockOut
from muster.model.waiting import refused


def try_next_flavor(
    snapshot: WorkloadSnapshot, policy: GangPolicy, failure: str, exhausted: str
) -> Decision | None:
    """Release everything and try the next flavor of the queue at once, where there is one. A scale-up stays
    where the rest of its gang runs.
    """
    wants_next = policy.on_stock_out is OnStockOut.NEXT_FLAVOR and exhausted and not snapshot.keeps_quota
    next_name = next_flavor(snapshot, policy, exhausted=exhausted) if wants_next else ""
    if not next_name:
        return None
    next_history = switch_flavor(
        snapshot.counted_history, began=snapshot.began, failure=failure, exhausted=exhausted, now=snapshot.now
    )
    message = f"{failure.rstrip('.')}. Everything is released; next it tries {next_name}"
    return _leave_quota(snapshot, next_history, "GangMoves", message)


def release_and_retry(snapshot: WorkloadSnapshot, policy: GangPolicy, failure: str) -> Decision:
    """Release every request and step out of the quota until the next try; after the last one, say so and
    stop.
    """
    if snapshot.keeps_quota:
        return scale_up.release_and_retry(snapshot, policy, failure)
    uid = snapshot.workload.metadata.uid
    # Time in which nothing could be requested (no controller ran, no policy was accepted) is no attempt.
    began = snapshot.began if snapshot.attempted and snapshot.policy else snapshot.now
    next_history = next_attempt(
        snapshot.counted_history,
        uid=uid,
        began=began,
        failure=failure,
        now=snapshot.now,
        policy=policy.retry,
        in_turn=snapshot.kept_turn,
    )
    if next_history.refused:
        return refuse(snapshot, next_history.refused)
    return _leave_quota(snapshot, next_history, "GangReleased", format_release(next_history))


def refuse(snapshot: WorkloadSnapshot, reason: str) -> Decision:
    """Release everything and deactivate, until a person wants another try.

    Not by the state Rejected: after that, Kueue 0.19.2 never queues a Workload again that a person activates
    (it looks for the reason `Deactivated` and finds `DeactivatedDueToAdmissionCheck`).
    """
    if snapshot.keeps_quota:
        return scale_up.refuse(snapshot, reason)
    history = RetryHistory(refused=reason[:1000], avoid=snapshot.history.avoid)
    return _leave_quota(snapshot, history, "GangRefused", refused(history.refused))


def _leave_quota(snapshot: WorkloadSnapshot, history: RetryHistory, reason: str, message: str) -> Decision:
    """The history first: after a crash during the deletions it is what they are finished from."""
    event = EmitEvent(kind="Warning", reason=reason, message=message)
    actions: tuple[Action, ...] = (Deactivate(history=history), *delete_all(snapshot), event)
    return Decision(actions=actions, requeue_at=history.retry_at)
