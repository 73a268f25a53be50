"""What to do now about one Workload: the gang-admission check itself.

Decides, from API objects and the time alone, which writes bring the gang closer to standing whole or to
holding nothing. No I/O, no clock, no memory: after a crash the same objects lead to the same decision.

    waiting for quota
      -> asking, scarcest pool first, the next when it is Accepted   (turn_order.py: whose turn)
      -> all Provisioned, nodes verified                             (verify.py)
      -> Ready: Kueue admits and starts the job
    A failure or a passed deadline on the way releases every request and steps out of the quota until the
    next try. A gang that runs and loses its nodes queues again (running.py).

Its promises: never Ready before every request is provisioned and every node verified; never Retry on a
Workload that is being evicted; no refusal of what may pass; no write when nothing has changed.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Final

from muster.controller.gangs.actions import EmitEvent, deletions
from muster.controller.gangs.assembly import (
    AttemptFailed,
    CreateNext,
    HoldNodes,
    Ready,
    ReleaseEarly,
    Unsatisfiable,
    Wait,
    deadline_exceeded,
    delete_all,
    delete_outdated,
    next_step,
)
from muster.controller.gangs.capacity_claims import CapacityClaim
from muster.controller.gangs.create_errors import CreateRejected, failure_of
from muster.controller.gangs.deadlines import Deadline, ready_deadline
from muster.controller.gangs.identity import ATTEMPT
from muster.controller.gangs.progress import format_provisioned, format_release, format_wait
from muster.controller.gangs.retry import RetryHistory, next_attempt, switch_flavor
from muster.controller.kueue import scale_up
from muster.controller.kueue.actions import (
    Action,
    Deactivate,
    Decision,
    PatchAnnotations,
    Reactivate,
    SetFlavorAffinity,
    State,
)
from muster.controller.kueue.check_state import set_check_state, set_pending
from muster.controller.kueue.flavor_fallback import avoided_pools, next_flavor, pools_to_avoid
from muster.controller.kueue.objects import PodSetUpdate
from muster.controller.kueue.progress import format_backoff, format_refusal
from muster.controller.kueue.running import notice_at, while_running, while_scaling_up
from muster.controller.kueue.scale_up import remove_claims
from muster.controller.kueue.snapshot import WorkloadSnapshot
from muster.model.gangpolicy import GangPolicy, OnStockOut, format_duration
from muster.model.waiting import OUTSIDE

FLAVOR_CACHE_GRACE: Final = timedelta(minutes=1)
"""After so long it is no matter of caches any more that a flavor is not known."""


def decide(snapshot: WorkloadSnapshot) -> Decision:
    """The decision for this situation. Deterministic, and quiet where everything is as it should be."""
    if snapshot.is_finished:
        return Decision() if snapshot.has_running_successor else Decision(actions=delete_all(snapshot))
    if not snapshot.workload.spec.active:
        return _while_inactive(snapshot)
    if (snapshot.history.retry_at is not None or snapshot.history.refused) and not snapshot.is_scale_up:
        return Decision(actions=_after_activation(snapshot))
    if (
        snapshot.check_state is None
        and snapshot.history.avoid
        and not snapshot.workload.status.holds("QuotaReserved")
    ):
        return _without_quota(snapshot)
    if snapshot.check_state is None or (snapshot.check_is_being_removed and not snapshot.is_admitted):
        # Whoever takes over asks anew: what we hold would be held twice, and nobody else would give it back.
        return Decision(actions=(*_leave(snapshot), *delete_all(snapshot)))
    if (snapshot.history.nodes_missing or snapshot.history.lease_ends) and not (
        snapshot.is_admitted or snapshot.is_scale_up
    ):
        return Decision(
            actions=(
                PatchAnnotations(history=replace(snapshot.history, nodes_missing=None, lease_ends=None)),
            )
        )
    if not snapshot.has_quota:
        return _without_quota(snapshot)
    match snapshot.check_state.state:
        case State.RETRY | State.REJECTED:
            return Decision()  # Said already; Kueue evicts.
        case State.READY if snapshot.is_admitted:
            return while_running(snapshot)
        case State.PENDING if snapshot.is_admitted:
            # Its queue got this check while it ran. It has what it needs; asking would buy it once more.
            return Decision(
                actions=set_check_state(
                    snapshot, State.READY, "ran before this check came; nothing is asked for"
                )
            )
    if snapshot.unresolved_flavor:
        return _with_unresolved_flavor(snapshot)
    if snapshot.policy is None:
        return _without_policy(snapshot)
    try:
        return _assemble(snapshot, snapshot.policy)
    except ValueError as error:
        return _refuse(snapshot, f"the Workload cannot be read: {error}")


def after_rejection(snapshot: WorkloadSnapshot, rejected: CreateRejected) -> Decision:
    """The end of the attempt that was denied what it asked for. `snapshot`: with all that it has made."""
    if (
        snapshot.policy is None
        or not snapshot.is_provisioning
        or snapshot.labels[ATTEMPT] != rejected.attempt
    ):
        return Decision(requeue_at=snapshot.now)  # It has changed meanwhile.
    match failure_of(rejected):
        case Unsatisfiable(reason=reason):
            return _refuse(snapshot, reason)
        case AttemptFailed(failure=failure):
            return _release_and_retry(snapshot, snapshot.policy, failure)


def _leave(snapshot: WorkloadSnapshot) -> tuple[Action, ...]:
    """That nobody asks for it any more, first: Kueue must not start it on what is given back, and a check
    that is being removed goes only when no queue names it, which nobody else would tell.
    """
    if not snapshot.has_quota:
        return _clear_check_state(snapshot)
    if snapshot.check_state is None or snapshot.check_state.state in (State.RETRY, State.REJECTED):
        return ()
    what = f"AdmissionCheck {snapshot.check} is being removed: nothing is asked for"
    return set_pending(snapshot, f"{what}. Fix: take it off the ClusterQueue")


# Without quota


def _while_inactive(snapshot: WorkloadSnapshot) -> Decision:
    """Ours to activate again when the time has come, unless somebody else deactivated it.

    Kueue takes our entry off an inactive Workload that has lost its quota: the annotations are what is left
    to act on and, with the Event, to read.
    """
    history = snapshot.history
    released = delete_all(snapshot)
    if history.refused:
        is_out = not snapshot.workload.status.holds("QuotaReserved")
        return Decision(actions=(*released, *(_keep_refused(snapshot) if is_out else ())))
    if history.retry_at is None or history.grows:
        return Decision(actions=(*released, *_clear_check_state(snapshot), *_forget_history(snapshot)))
    if snapshot.workload.status.holds("QuotaReserved"):
        return Decision(actions=released)  # Kueue is still taking the quota back and will tell.
    if (clamped := snapshot.clamped_history) != history:
        return Decision(actions=(*released, PatchAnnotations(history=clamped)))
    if snapshot.check_is_being_removed or (snapshot.wants_retry and not snapshot.retry_delay):
        return Decision(
            actions=(*released, *_set_affinity(snapshot), Reactivate(history=replace(history, retry_at=None)))
        )
    requeue_at = max(history.retry_at, snapshot.now + snapshot.retry_delay)
    return Decision(
        actions=(*released, *set_pending(snapshot, format_backoff(history))), requeue_at=requeue_at
    )


def _after_activation(snapshot: WorkloadSnapshot) -> tuple[Action, ...]:
    """Somebody activated it. Take the note off: a later deactivation by others is not ours."""
    history = snapshot.history
    if not history.refused:
        return (PatchAnnotations(history=replace(history, retry_at=None, grows=False)),)
    if snapshot.workload.status.holds("QuotaReserved"):
        return (PatchAnnotations(history=RetryHistory(avoid=history.avoid)),)
    return (*_clear_affinity(snapshot), PatchAnnotations(history=RetryHistory()))


def _keep_refused(snapshot: WorkloadSnapshot) -> tuple[Action, ...]:
    """What it keeps away from is undone with it: whoever activates it again starts afresh."""
    history = snapshot.history
    if not history.avoid:
        return set_pending(snapshot, format_refusal(history))
    return (
        *set_pending(snapshot, format_refusal(history)),
        *_clear_affinity(snapshot),
        PatchAnnotations(history=replace(history, avoid=())),
    )


def _forget_history(snapshot: WorkloadSnapshot) -> tuple[Action, ...]:
    """Somebody else deactivated it: it starts afresh. What it keeps away from is noted until it is undone."""
    history = snapshot.history
    if history == RetryHistory() or (history.avoid and snapshot.workload.status.holds("QuotaReserved")):
        return ()
    return (*_clear_affinity(snapshot), PatchAnnotations(history=RetryHistory()))


def _clear_affinity(snapshot: WorkloadSnapshot) -> tuple[SetFlavorAffinity, ...]:
    """Nobody would ever take off what keeps it away from flavors once that is noted no more."""
    return (
        (SetFlavorAffinity(pools=(), policy=snapshot.policy or GangPolicy()),)
        if snapshot.history.avoid
        else ()
    )


def _set_affinity(snapshot: WorkloadSnapshot) -> tuple[SetFlavorAffinity, ...]:
    """Only while it holds no quota may its PodSets be changed."""
    wanted, policy = pools_to_avoid(snapshot), snapshot.policy or GangPolicy()
    return (
        ()
        if wanted == avoided_pools(snapshot.workload)
        else (SetFlavorAffinity(pools=wanted, policy=policy),)
    )


def _without_quota(snapshot: WorkloadSnapshot) -> Decision:
    """Nothing of an earlier reservation may outlive it: its capacity is somebody else's now."""
    policy, since = snapshot.policy or GangPolicy(), snapshot.unreserved_since
    if not snapshot.history.avoid or since is None:
        # The word first: who was Ready must not be while something is taken from it.
        return Decision(actions=(*_clear_check_state(snapshot), *delete_all(snapshot)))
    until = since + policy.retry.max
    if snapshot.now < until:
        return Decision(actions=(*_clear_check_state(snapshot), *delete_all(snapshot)), requeue_at=until)
    # The other flavors have no room for it: whatever it gets first is right again.
    free = replace(snapshot.history, avoid=())
    return Decision(
        actions=(*delete_all(snapshot), *_clear_affinity(snapshot), PatchAnnotations(history=free))
    )


def _clear_check_state(snapshot: WorkloadSnapshot) -> tuple[Action, ...]:
    """Our entry once more, explicitly empty.

    Kueue resets it at eviction by leaving podSetUpdates out, which removes nothing that we own: the next
    start would send its pods to a lease that is gone.
    """
    check_state, status = snapshot.check_state, snapshot.workload.status
    # A queue that is stopped takes the quota without an eviction: then nobody resets a Ready, and Kueue would
    # start the gang with its next quota, on what is given back here.
    is_left = (
        check_state is not None and check_state.state == State.READY and not status.holds("QuotaReserved")
    )
    if (
        check_state is not None
        and check_state.state != State.PENDING
        and not (status.holds("Evicted") or is_left)
    ):
        return ()  # Kueue acts on that answer and resets it itself.
    is_outdated = check_state is not None and check_state.message.startswith(OUTSIDE)
    if check_state is None or (
        check_state.state == State.PENDING and not check_state.pod_set_updates and not is_outdated
    ):
        return ()
    return set_pending(snapshot, "waits for quota")


# With quota


def _without_policy(snapshot: WorkloadSnapshot) -> Decision:
    """It cannot be known what it asks for. What it holds is not held for ever all the same."""
    limit = _pending_deadline(snapshot, GangPolicy())
    if limit.at <= snapshot.now:
        return _release_and_retry(snapshot, GangPolicy(), "there is no accepted GangPolicy")
    message = _progress(snapshot, "waits for an accepted GangPolicy (see its conditions)", limit)
    return Decision(actions=set_pending(snapshot, message), requeue_at=limit.at)


def _with_unresolved_flavor(snapshot: WorkloadSnapshot) -> Decision:
    """Nobody can tell where its pods would go: nothing is asked for, and its quota is held no longer than
    news of a flavor takes. The next quota may be for another.
    """
    policy = snapshot.policy or GangPolicy()
    whole = _pending_deadline(snapshot, policy)
    limit = replace(whole, at=min(whole.at, whole.began + FLAVOR_CACHE_GRACE))
    if limit.at <= snapshot.now:
        return _release_and_retry(snapshot, policy, snapshot.unresolved_flavor)
    event = set_pending(
        snapshot, _progress(snapshot, f"asks for nothing: {snapshot.unresolved_flavor}", limit)
    )
    return Decision(actions=(*event, *delete_all(snapshot)), requeue_at=limit.at)


def _pending_deadline(snapshot: WorkloadSnapshot, policy: GangPolicy) -> Deadline:
    """How long it may hold its quota without asking for anything. A growth never leaves it, so its time runs
    anew with each try.
    """
    since = scale_up.attempt_started(snapshot) if snapshot.is_scale_up else snapshot.began
    return Deadline(since + policy.queue_timeout, since, "queueTimeout")


def _assemble(snapshot: WorkloadSnapshot, policy: GangPolicy) -> Decision:
    """One step towards a gang that stands whole, or the way back."""
    if not snapshot.is_scale_up:
        return _step(snapshot, policy)
    if (blocked := while_scaling_up(snapshot)) is not None:
        return blocked
    found, notice = _step(snapshot, policy), notice_at(snapshot, policy)
    is_sooner = notice is not None and (found.requeue_at is None or notice < found.requeue_at)
    return replace(found, requeue_at=notice) if is_sooner else found


def _step(snapshot: WorkloadSnapshot, policy: GangPolicy) -> Decision:
    if (waits := scale_up.before_requesting(snapshot)) is not None:
        return waits
    if not snapshot.gang.request_specs:
        ready = set_check_state(
            snapshot, State.READY, "nothing to provision", updates=_pod_set_updates(snapshot, ())
        )
        return Decision(actions=(*delete_all(snapshot), *ready))
    match next_step(snapshot, policy, since=scale_up.attempt_started(snapshot)):
        case Unsatisfiable(reason=reason):
            return _refuse(snapshot, reason)
        case AttemptFailed(failure=failure, exhausted=exhausted):
            return _try_next_flavor(snapshot, policy, failure, exhausted) or _release_and_retry(
                snapshot, policy, failure
            )
        case CreateNext(actions=creates, limit=limit):
            return Decision(
                actions=(*_clear_ready(snapshot), *delete_outdated(snapshot), *creates), requeue_at=limit.at
            )
        case ReleaseEarly(releases=releases, event=event, history=next_history, limit=limit):
            return Decision(
                actions=(
                    PatchAnnotations(history=next_history),
                    *delete_outdated(snapshot),
                    *releases,
                    event,
                ),
                requeue_at=limit.at,
            )
        case HoldNodes(holds=holds, event=event, limit=limit):
            return Decision(actions=(*delete_outdated(snapshot), *holds, event), requeue_at=limit.at)
        case Wait() as step:
            return _wait(snapshot, step)
        case Ready(capacity_claims=capacity_claims):
            return _ready(snapshot, policy, capacity_claims)


def _ready(
    snapshot: WorkloadSnapshot, policy: GangPolicy, capacity_claims: tuple[CapacityClaim, ...]
) -> Decision:
    message = format_provisioned(snapshot.gang)
    actions = set_check_state(
        snapshot, State.READY, message, updates=_pod_set_updates(snapshot, capacity_claims)
    )
    check_state = snapshot.check_state
    since = check_state.last_transition_time if check_state and check_state.state == State.READY else None
    limit = ready_deadline(
        snapshot.current.values(), since=since or snapshot.now, policy=policy, now=snapshot.now
    )
    if not actions and limit.at <= snapshot.now:
        # Other checks keep Kueue from admitting it, and the booking does not wait for them.
        return _release_and_retry(
            snapshot, policy, deadline_exceeded(limit, _blocking_checks(snapshot)).failure
        )
    event = (EmitEvent(kind="Normal", reason="GangReady", message=message),) if actions else ()
    # The placeholders go first: a namespace's quota may have no room for them and the gang's own pods.
    freed = deletions((), (), snapshot.placeholders)
    clean = remove_claims(snapshot) if actions else ()
    return Decision(
        actions=(*freed, *delete_outdated(snapshot), *clean, *actions, *event), requeue_at=limit.at
    )


def _blocking_checks(snapshot: WorkloadSnapshot) -> str:
    """Why a gang that is Ready does not start."""
    entries = snapshot.workload.status.admission_checks
    others = ", ".join(check_state.name for check_state in entries if check_state.state != State.READY)
    return f"it was Ready, but not {others}" if others else "it was Ready, and Kueue did not admit it"


def _pod_set_updates(
    snapshot: WorkloadSnapshot, capacity_claims: tuple[CapacityClaim, ...]
) -> tuple[PodSetUpdate, ...]:
    own = {
        claim.pod_claim.pod_set: claim.pod_claim for claim in capacity_claims if claim.pod_claim is not None
    }
    return tuple(
        PodSetUpdate(name=name, annotations=dict(claim.annotations), node_selector=dict(claim.node_selector))
        for name, claim in {**scale_up.inherited_claims(snapshot), **own}.items()
    )


# The way back


def _try_next_flavor(
    snapshot: WorkloadSnapshot, policy: GangPolicy, failure: str, exhausted: str
) -> Decision | None:
    """Release everything and try the next flavor of the queue at once, where there is one. A growth stays
    where the rest of its gang runs.
    """
    wants_next = policy.on_stock_out is OnStockOut.NEXT_FLAVOR and exhausted and not snapshot.is_scale_up
    next_name = next_flavor(snapshot, policy, exhausted=exhausted) if wants_next else ""
    if not next_name:
        return None
    next_history = switch_flavor(
        snapshot.counted_history, began=snapshot.began, failure=failure, exhausted=exhausted, now=snapshot.now
    )
    message = f"{failure.rstrip('.')}. Everything is released; next it tries {next_name}"
    event = EmitEvent(kind="Warning", reason="GangMoves", message=message)
    return Decision(
        actions=(Deactivate(history=next_history), *delete_all(snapshot), event),
        requeue_at=next_history.retry_at,
    )


def _release_and_retry(snapshot: WorkloadSnapshot, policy: GangPolicy, failure: str) -> Decision:
    """Release every request and step out of the quota until the next try; after the last one, say so and
    stop.
    """
    if snapshot.is_scale_up:
        return scale_up.release_and_retry(snapshot, policy, failure)
    uid = snapshot.workload.metadata.uid
    # Time in which nothing could be asked for (no controller ran, no policy was accepted) is no try.
    began = snapshot.began if snapshot.attempted and snapshot.policy else snapshot.now
    next_history = next_attempt(
        snapshot.counted_history, uid=uid, began=began, failure=failure, now=snapshot.now, policy=policy.retry
    )
    if next_history is None:
        tries = snapshot.counted_history.tries + 1
        given = (
            f"gave up after {tries} tries, retry.deadline of {format_duration(policy.retry.deadline)} is over"
        )
        return _refuse(snapshot, f"{given}; last: {failure}")
    event = EmitEvent(kind="Warning", reason="GangReleased", message=format_release(next_history))
    # The note first: it is what a crash in the middle of the deletions is finished from.
    return Decision(
        actions=(Deactivate(history=next_history), *delete_all(snapshot), event),
        requeue_at=next_history.retry_at,
    )


def _refuse(snapshot: WorkloadSnapshot, reason: str) -> Decision:
    """Release everything and deactivate, until a person wants another try.

    Not by the state Rejected: after that, Kueue 0.19.2 never queues a Workload again that a person activates
    (it looks for the reason `Deactivated` and finds `DeactivatedDueToAdmissionCheck`).
    """
    if snapshot.is_scale_up:
        return scale_up.refuse(snapshot, reason)
    history = RetryHistory(refused=reason[:1000], avoid=snapshot.history.avoid)
    event = EmitEvent(kind="Warning", reason="GangRefused", message=format_refusal(history))
    return Decision(actions=(Deactivate(history=history), *delete_all(snapshot), event))


# Pieces


def _clear_ready(snapshot: WorkloadSnapshot) -> tuple[Action, ...]:
    """What it was Ready on is gone: Kueue must not admit it onto that while it asks again."""
    is_ready = snapshot.check_state is not None and snapshot.check_state.state == State.READY
    return set_pending(snapshot, "what was provisioned is gone; it is asked for again") if is_ready else ()


def _wait(snapshot: WorkloadSnapshot, step: Wait) -> Decision:
    message = _progress(snapshot, step.status, step.limit)
    return Decision(
        # The word first: who was Ready must not be while something is taken from it.
        actions=(*set_pending(snapshot, message), *delete_outdated(snapshot), *step.releases),
        requeue_at=min(step.limit.at, step.requeue_at) if step.requeue_at else step.limit.at,
        waiting_on=step.waiting_on,
    )


def _progress(snapshot: WorkloadSnapshot, what: str, limit: Deadline) -> str:
    event = snapshot.check_state.message if snapshot.check_state else ""
    return format_wait(what, limit, snapshot.now, previous=event)
