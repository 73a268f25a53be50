"""What to do about a Workload without quota: deactivated, activated again, or queued.

Responsible for what may outlive a reservation: nothing that was requested, and of the history what the next
attempt needs. The annotations say whether this controller deactivated the Workload; without them another
client did, and the controller does not reactivate it.
"""

from dataclasses import replace
from typing import Final

from muster.controller.gangs.actions import EmitEvent
from muster.controller.gangs.assembly import delete_all
from muster.controller.gangs.progress import format_backoff
from muster.controller.gangs.retry import RetryHistory, truncate_seconds
from muster.controller.kueue.actions import (
    Action,
    Deactivate,
    Decision,
    PatchAnnotations,
    Reactivate,
    SetCheckState,
    SetFlavorAffinity,
    State,
)
from muster.controller.kueue.flavor_fallback import avoided_pools, pools_to_avoid
from muster.controller.kueue.snapshot import WorkloadSnapshot, set_pending
from muster.model import waiting
from muster.model.gangpolicy import GangPolicy

WAITS_FOR_QUOTA: Final = "waits for quota"


def stopped(snapshot: WorkloadSnapshot) -> Decision | None:
    """Keep the gang outside the quota while a person's annotation is on it.

    `spec.active: false` alone stops every gang but one that backs off: it is false already, so the API server
    sees no change, and the controller no person.
    """
    if not snapshot.is_stopped:
        return None
    history = snapshot.history
    if snapshot.workload.spec.active:
        ended = replace(history, nodes_missing=None, lease_ends=None, unclaimed="")
        ended = replace(ended, retry_at=truncate_seconds(snapshot.now), refused="", first_try=None)
        event = EmitEvent(kind="Normal", reason="GangStopped", message=waiting.stopped())
        return Decision(actions=(Deactivate(history=ended), event, *delete_all(snapshot)))
    if history.retry_at is None or history.refused:
        return None  # It is inactive for another reason, and stays so.
    if snapshot.is_reserved:
        return Decision(actions=delete_all(snapshot))  # Kueue is still taking the quota back.
    # retry.deadline does not run while it is stopped.
    fresh = replace(history, first_try=None)
    noted = () if fresh == history else (PatchAnnotations(history=fresh),)
    return Decision(actions=(*delete_all(snapshot), *set_pending(snapshot, waiting.stopped()), *noted))


def inactive(snapshot: WorkloadSnapshot) -> Decision | None:
    """Reactivate the Workload when its backoff ends, unless another client deactivated it.

    Kueue removes our check state from an inactive Workload that has lost its quota: the annotations are what
    is left to act on and, with the Event, to read.
    """
    if snapshot.workload.spec.active:
        return None
    history, released = snapshot.history, delete_all(snapshot)
    if history.refused:
        return Decision(actions=(*released, *(() if snapshot.is_reserved else _keep_refused(snapshot))))
    if history.retry_at is None or history.grows:
        return Decision(actions=(*released, *clear_check_state(snapshot), *_forget_history(snapshot)))
    if snapshot.is_reserved or not snapshot.workload.status.holds("Evicted"):
        # Kueue is still taking the quota back, or stops the job: its write brings us back.
        return Decision(actions=released)
    if (clamped := snapshot.clamped_history) != history:
        return Decision(actions=(*released, PatchAnnotations(history=clamped)))
    if snapshot.check_is_gone or (snapshot.wants_retry and not snapshot.retry_delay):
        return Decision(actions=(*released, *_set_affinity(snapshot), *reactivate(snapshot)))
    requeue_at = max(history.retry_at, snapshot.now + snapshot.retry_delay)
    return Decision(
        actions=(*released, *set_pending(snapshot, format_backoff(history))), requeue_at=requeue_at
    )


def activated(snapshot: WorkloadSnapshot) -> Decision | None:
    """Another client activated it: remove the note, so that a later deactivation does not count as ours."""
    history = snapshot.history
    if snapshot.keeps_quota or not (history.retry_at or history.refused):
        return None
    if not history.refused:
        kept = replace(history, retry_at=None, grows=False)
        return Decision(actions=(*_end_backoff(snapshot), PatchAnnotations(history=kept)))
    if snapshot.is_reserved:
        return Decision(actions=(PatchAnnotations(history=RetryHistory(avoid=history.avoid)),))
    return Decision(actions=(*_clear_affinity(snapshot), PatchAnnotations(history=RetryHistory())))


def stranded(snapshot: WorkloadSnapshot) -> Decision | None:
    """Have Kueue stop the job: it evicts a slice that is deactivated, and stops its job with it. It waits
    for its quota again at once, as an evicted gang does.
    """
    if not snapshot.is_stranded:
        return None
    what = "Kueue took the quota of its running pods back; they are stopped, and the job waits for quota"
    history = replace(snapshot.history, retry_at=truncate_seconds(snapshot.now))
    event = EmitEvent(kind="Warning", reason="GangStopped", message=what)
    return Decision(actions=(Deactivate(history=history), event))


def queued(snapshot: WorkloadSnapshot) -> Decision | None:
    """Release what an earlier reservation requested: that quota may be another gang's now."""
    if snapshot.has_quota:
        return None
    policy, since = snapshot.policy or GangPolicy(), snapshot.unreserved_since
    # Clear Ready before deleting requests, so that Kueue cannot start the gang on capacity being released.
    released: tuple[Action, ...] = (*clear_check_state(snapshot), *delete_all(snapshot))
    if not snapshot.history.avoid or since is None:
        return Decision(actions=released)
    until = since + policy.retry.max
    if snapshot.now < until:
        return Decision(actions=released, requeue_at=until)
    # The other flavors have no room for it: any flavor is allowed again.
    free = replace(snapshot.history, avoid=())
    return Decision(
        actions=(*delete_all(snapshot), *_clear_affinity(snapshot), PatchAnnotations(history=free))
    )


def reactivate(snapshot: WorkloadSnapshot) -> tuple[Action, ...]:
    """Let it queue again, and remove the note that this controller deactivated it."""
    return (*_end_backoff(snapshot), Reactivate(history=replace(snapshot.history, retry_at=None)))


def clear_check_state(snapshot: WorkloadSnapshot) -> tuple[SetCheckState, ...]:
    """Write our whole check state again, explicitly without podSetUpdates.

    Kueue resets it at eviction by leaving podSetUpdates out, which does not remove what we own: the next
    start would send its pods to a lease that is gone.
    """
    if snapshot.state == State.PENDING:
        has_updates = snapshot.check_state is not None and bool(snapshot.check_state.pod_set_updates)
        return set_pending(snapshot, WAITS_FOR_QUOTA) if has_updates else ()
    # A stopped queue takes the quota without an eviction. No reset follows, and Kueue would start a gang that
    # is still Ready with its next quota, on capacity that is released here.
    is_left = snapshot.state == State.READY and not snapshot.is_reserved
    if snapshot.workload.status.holds("Evicted") or is_left:
        return set_pending(snapshot, WAITS_FOR_QUOTA)
    return ()  # Kueue acts on that answer and resets it itself.


def _end_backoff(snapshot: WorkloadSnapshot) -> tuple[SetCheckState, ...]:
    """The check state names the next attempt, which begins now."""
    found = snapshot.check_state
    is_outdated = found is not None and found.message == format_backoff(snapshot.history)
    return set_pending(snapshot, WAITS_FOR_QUOTA) if is_outdated else ()


def _keep_refused(snapshot: WorkloadSnapshot) -> tuple[Action, ...]:
    """Undo the flavor affinity: a person who activates the Workload starts afresh."""
    history = snapshot.history
    message = set_pending(snapshot, waiting.refused(history.refused))
    if not history.avoid:
        return message
    return (*message, *_clear_affinity(snapshot), PatchAnnotations(history=replace(history, avoid=())))


def _forget_history(snapshot: WorkloadSnapshot) -> tuple[Action, ...]:
    """Another client deactivated it: it starts afresh. Avoided flavors stay noted until that is undone."""
    history = snapshot.history
    if history == RetryHistory() or (history.avoid and snapshot.is_reserved):
        return ()
    forgotten = PatchAnnotations(history=RetryHistory())
    return (*set_pending(snapshot, WAITS_FOR_QUOTA), *_clear_affinity(snapshot), forgotten)


def _clear_affinity(snapshot: WorkloadSnapshot) -> tuple[SetFlavorAffinity, ...]:
    """Allow all flavors again, before the annotation that lists the avoided ones is removed."""
    policy = snapshot.policy or GangPolicy()
    return (SetFlavorAffinity(pools=(), policy=policy),) if snapshot.history.avoid else ()


def _set_affinity(snapshot: WorkloadSnapshot) -> tuple[SetFlavorAffinity, ...]:
    """PodSets may be changed only while the Workload holds no quota."""
    pools, policy = pools_to_avoid(snapshot), snapshot.policy or GangPolicy()
    if pools == avoided_pools(snapshot.workload, policy):
        return ()
    return (SetFlavorAffinity(pools=pools, policy=policy),)
