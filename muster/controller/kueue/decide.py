"""What to do now about one Workload: the gang-admission check itself.

Decides, from API objects and the time alone, which writes bring the gang closer to standing whole or to
holding nothing. No I/O, no clock, no memory: after a crash the same objects lead to the same decision.

    waiting for quota
      -> asking, scarcest pool first, the next when it is Accepted   (line.py: whose turn)
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

from muster.controller.gangs.actions import Tell, deletions
from muster.controller.gangs.assembly import (
    Asking,
    Holding,
    Lost,
    Never,
    Parting,
    Standing,
    Waiting,
    everything,
    next_step,
    passed,
    surplus,
)
from muster.controller.gangs.capacity_claims import Promise
from muster.controller.gangs.create_errors import Denied, end
from muster.controller.gangs.deadlines import Deadline, after_ready
from muster.controller.gangs.identity import ATTEMPT
from muster.controller.gangs.progress import released, stands, waiting
from muster.controller.gangs.retry import History, moved, next_try
from muster.controller.kueue import scale_up
from muster.controller.kueue.actions import Action, Decision, Note, State, Steer, StepIn, StepOut
from muster.controller.kueue.check_state import say, set_entry
from muster.controller.kueue.flavor_fallback import avoided, elsewhere, pools_to_avoid
from muster.controller.kueue.objects import PodSetUpdate
from muster.controller.kueue.progress import outside, refused
from muster.controller.kueue.running import notice_at, while_growing, while_running
from muster.controller.kueue.scale_up import unclaim
from muster.controller.kueue.snapshot import Situation
from muster.model.gangpolicy import GangPolicy, OnStockOut, format_duration
from muster.model.waiting import OUTSIDE

_NEWS: Final = timedelta(minutes=1)
"""After so long it is no matter of caches any more that a flavor is not known."""


def decide(now_is: Situation) -> Decision:
    """The decision for this situation. Deterministic, and quiet where everything is as it should be."""
    if now_is.is_over:
        return Decision() if now_is.is_stood_on else Decision(actions=everything(now_is))
    if not now_is.workload.spec.active:
        return _while_inactive(now_is)
    if (now_is.past.retry_at is not None or now_is.past.refused) and not now_is.is_growth:
        return Decision(actions=_activated(now_is))
    if now_is.entry is None and now_is.past.avoid and not now_is.workload.status.holds("QuotaReserved"):
        return _without_quota(now_is)
    if now_is.entry is None or (now_is.is_leaving and not now_is.is_admitted):
        # Whoever takes over asks anew: what we hold would be held twice, and nobody else would give it back.
        return Decision(actions=(*_left(now_is), *everything(now_is)))
    if (now_is.past.nodes_missing or now_is.past.lease_ends) and not (now_is.is_admitted or now_is.is_growth):
        return Decision(actions=(Note(history=replace(now_is.past, nodes_missing=None, lease_ends=None)),))
    if not now_is.has_quota:
        return _without_quota(now_is)
    match now_is.entry.state:
        case State.RETRY | State.REJECTED:
            return Decision()  # Said already; Kueue evicts.
        case State.READY if now_is.is_admitted:
            return while_running(now_is)
        case State.PENDING if now_is.is_admitted:
            # Its queue got this check while it ran. It has what it needs; asking would buy it once more.
            return Decision(
                actions=set_entry(now_is, State.READY, "ran before this check came; nothing is asked for")
            )
    if now_is.untold:
        return _untold(now_is)
    if now_is.policy is None:
        return _without_policy(now_is)
    try:
        return _assemble(now_is, now_is.policy)
    except ValueError as error:
        return _refuse(now_is, f"the Workload cannot be read: {error}")


def after_denial(now_is: Situation, denied: Denied) -> Decision:
    """The end of the attempt that was denied what it asked for. `now_is`: with all that it has made."""
    if now_is.policy is None or not now_is.is_gathering or now_is.labels[ATTEMPT] != denied.attempt:
        return Decision(wake=now_is.now)  # It has changed meanwhile.
    match end(denied):
        case Never(reason=reason):
            return _refuse(now_is, reason)
        case Lost(failure=failure):
            return _retreat(now_is, now_is.policy, failure)


def _left(now_is: Situation) -> tuple[Action, ...]:
    """That nobody asks for it any more, first: Kueue must not start it on what is given back, and a check
    that is being removed goes only when no queue names it, which nobody else would tell.
    """
    if not now_is.has_quota:
        return _cleared(now_is)
    if now_is.entry is None or now_is.entry.state in (State.RETRY, State.REJECTED):
        return ()
    what = f"AdmissionCheck {now_is.check} is being removed: nothing is asked for"
    return say(now_is, f"{what}. Fix: take it off the ClusterQueue")


# Without quota


def _while_inactive(now_is: Situation) -> Decision:
    """Ours to activate again when the time has come, unless somebody else deactivated it.

    Kueue takes our entry off an inactive Workload that has lost its quota: the annotations are what is left
    to act on and, with the Event, to read.
    """
    past = now_is.past
    released = everything(now_is)
    if past.refused:
        is_out = not now_is.workload.status.holds("QuotaReserved")
        return Decision(actions=(*released, *(_refused(now_is) if is_out else ())))
    if past.retry_at is None or past.grows:
        return Decision(actions=(*released, *_cleared(now_is), *_forgotten(now_is)))
    if now_is.workload.status.holds("QuotaReserved"):
        return Decision(actions=released)  # Kueue is still taking the quota back and will tell.
    if (right := now_is.corrected) != past:
        return Decision(actions=(*released, Note(history=right)))
    if now_is.is_leaving or (now_is.wants_back and not now_is.pace):
        return Decision(actions=(*released, *_steered(now_is), StepIn(history=replace(past, retry_at=None))))
    wake = max(past.retry_at, now_is.now + now_is.pace)
    return Decision(actions=(*released, *say(now_is, outside(past))), wake=wake)


def _activated(now_is: Situation) -> tuple[Action, ...]:
    """Somebody activated it. Take the note off: a later deactivation by others is not ours."""
    past = now_is.past
    if not past.refused:
        return (Note(history=replace(past, retry_at=None, grows=False)),)
    if now_is.workload.status.holds("QuotaReserved"):
        return (Note(history=History(avoid=past.avoid)),)
    return (*_freed(now_is), Note(history=History()))


def _refused(now_is: Situation) -> tuple[Action, ...]:
    """What it keeps away from is undone with it: whoever activates it again starts afresh."""
    past = now_is.past
    if not past.avoid:
        return say(now_is, refused(past))
    return (*say(now_is, refused(past)), *_freed(now_is), Note(history=replace(past, avoid=())))


def _forgotten(now_is: Situation) -> tuple[Action, ...]:
    """Somebody else deactivated it: it starts afresh. What it keeps away from is noted until it is undone."""
    past = now_is.past
    if past == History() or (past.avoid and now_is.workload.status.holds("QuotaReserved")):
        return ()
    return (*_freed(now_is), Note(history=History()))


def _freed(now_is: Situation) -> tuple[Steer, ...]:
    """Nobody would ever take off what keeps it away from flavors once that is noted no more."""
    return (Steer(pools=(), policy=now_is.policy or GangPolicy()),) if now_is.past.avoid else ()


def _steered(now_is: Situation) -> tuple[Steer, ...]:
    """Only while it holds no quota may its PodSets be changed."""
    wanted, policy = pools_to_avoid(now_is), now_is.policy or GangPolicy()
    return () if wanted == avoided(now_is.workload) else (Steer(pools=wanted, policy=policy),)


def _without_quota(now_is: Situation) -> Decision:
    """Nothing of an earlier reservation may outlive it: its capacity is somebody else's now."""
    policy, since = now_is.policy or GangPolicy(), now_is.unreserved_since
    if not now_is.past.avoid or since is None:
        # The word first: who was Ready must not be while something is taken from it.
        return Decision(actions=(*_cleared(now_is), *everything(now_is)))
    until = since + policy.retry.max
    if now_is.now < until:
        return Decision(actions=(*_cleared(now_is), *everything(now_is)), wake=until)
    # The other flavors have no room for it: whatever it gets first is right again.
    free = replace(now_is.past, avoid=())
    return Decision(actions=(*everything(now_is), *_freed(now_is), Note(history=free)))


def _cleared(now_is: Situation) -> tuple[Action, ...]:
    """Our entry once more, explicitly empty.

    Kueue resets it at eviction by leaving podSetUpdates out, which removes nothing that we own: the next
    start would send its pods to a lease that is gone.
    """
    entry, status = now_is.entry, now_is.workload.status
    # A queue that is stopped takes the quota without an eviction: then nobody resets a Ready, and Kueue would
    # start the gang with its next quota, on what is given back here.
    is_left = entry is not None and entry.state == State.READY and not status.holds("QuotaReserved")
    if entry is not None and entry.state != State.PENDING and not (status.holds("Evicted") or is_left):
        return ()  # Kueue acts on that answer and resets it itself.
    is_outdated = entry is not None and entry.message.startswith(OUTSIDE)
    if entry is None or (entry.state == State.PENDING and not entry.pod_set_updates and not is_outdated):
        return ()
    return say(now_is, "waits for quota")


# With quota


def _without_policy(now_is: Situation) -> Decision:
    """It cannot be known what it asks for. What it holds is not held for ever all the same."""
    limit = _patience(now_is, GangPolicy())
    if limit.at <= now_is.now:
        return _retreat(now_is, GangPolicy(), "there is no accepted GangPolicy")
    message = _said(now_is, "waits for an accepted GangPolicy (see its conditions)", limit)
    return Decision(actions=say(now_is, message), wake=limit.at)


def _untold(now_is: Situation) -> Decision:
    """Nobody can tell where its pods would go: nothing is asked for, and its quota is held no longer than
    news of a flavor takes. The next quota may be for another.
    """
    policy = now_is.policy or GangPolicy()
    whole = _patience(now_is, policy)
    limit = replace(whole, at=min(whole.at, whole.began + _NEWS))
    if limit.at <= now_is.now:
        return _retreat(now_is, policy, now_is.untold)
    told = say(now_is, _said(now_is, f"asks for nothing: {now_is.untold}", limit))
    return Decision(actions=(*told, *everything(now_is)), wake=limit.at)


def _patience(now_is: Situation, policy: GangPolicy) -> Deadline:
    """How long it may hold its quota without asking for anything. A growth never leaves it, so its time runs
    anew with each try.
    """
    since = scale_up.since(now_is) if now_is.is_growth else now_is.began
    return Deadline(since + policy.queue_timeout, since, "queueTimeout")


def _assemble(now_is: Situation, policy: GangPolicy) -> Decision:
    """One step towards a gang that stands whole, or the way back."""
    if not now_is.is_growth:
        return _step(now_is, policy)
    if (lacks := while_growing(now_is)) is not None:
        return lacks
    found, notice = _step(now_is, policy), notice_at(now_is, policy)
    is_sooner = notice is not None and (found.wake is None or notice < found.wake)
    return replace(found, wake=notice) if is_sooner else found


def _step(now_is: Situation, policy: GangPolicy) -> Decision:
    if (waits := scale_up.before_asking(now_is)) is not None:
        return waits
    if not now_is.gang.asks:
        ready = set_entry(now_is, State.READY, "nothing to provision", updates=_updates(now_is, ()))
        return Decision(actions=(*everything(now_is), *ready))
    match next_step(now_is, policy, since=scale_up.since(now_is)):
        case Never(reason=reason):
            return _refuse(now_is, reason)
        case Lost(failure=failure, exhausted=exhausted):
            return _move(now_is, policy, failure, exhausted) or _retreat(now_is, policy, failure)
        case Asking(actions=asked, limit=limit):
            return Decision(actions=(*_unready(now_is), *surplus(now_is), *asked), wake=limit.at)
        case Parting(releases=releases, told=told, history=parted, limit=limit):
            return Decision(actions=(Note(history=parted), *surplus(now_is), *releases, told), wake=limit.at)
        case Holding(holds=holds, told=told, limit=limit):
            return Decision(actions=(*surplus(now_is), *holds, told), wake=limit.at)
        case Waiting() as step:
            return _wait(now_is, step)
        case Standing(promised=promised):
            return _ready(now_is, policy, promised)


def _ready(now_is: Situation, policy: GangPolicy, promised: tuple[Promise, ...]) -> Decision:
    message = stands(now_is.gang)
    actions = set_entry(now_is, State.READY, message, updates=_updates(now_is, promised))
    entry = now_is.entry
    since = entry.last_transition_time if entry and entry.state == State.READY else None
    limit = after_ready(now_is.current.values(), since=since or now_is.now, policy=policy, now=now_is.now)
    if not actions and limit.at <= now_is.now:
        # Other checks keep Kueue from admitting it, and the booking does not wait for them.
        return _retreat(now_is, policy, passed(limit, _held_up(now_is)).failure)
    told = (Tell(kind="Normal", reason="GangReady", message=message),) if actions else ()
    # The placeholders go first: a namespace's quota may have no room for them and the gang's own pods.
    freed = deletions((), (), now_is.placeholders)
    clean = unclaim(now_is) if actions else ()
    return Decision(actions=(*freed, *surplus(now_is), *clean, *actions, *told), wake=limit.at)


def _held_up(now_is: Situation) -> str:
    """Why a gang that is Ready does not start."""
    entries = now_is.workload.status.admission_checks
    others = ", ".join(entry.name for entry in entries if entry.state != State.READY)
    return f"it was Ready, but not {others}" if others else "it was Ready, and Kueue did not admit it"


def _updates(now_is: Situation, promised: tuple[Promise, ...]) -> tuple[PodSetUpdate, ...]:
    own = {promise.claim.pod_set: promise.claim for promise in promised if promise.claim is not None}
    return tuple(
        PodSetUpdate(name=name, annotations=dict(claim.annotations), node_selector=dict(claim.node_selector))
        for name, claim in {**scale_up.inherited(now_is), **own}.items()
    )


# The way back


def _move(now_is: Situation, policy: GangPolicy, failure: str, exhausted: str) -> Decision | None:
    """Release everything and try the next flavor of the queue at once, where there is one. A growth stays
    where the rest of its gang runs.
    """
    wants_next = policy.on_stock_out is OnStockOut.NEXT_FLAVOR and exhausted and not now_is.is_growth
    following = elsewhere(now_is, policy, exhausted=exhausted) if wants_next else ""
    if not following:
        return None
    future = moved(now_is.tried, began=now_is.began, failure=failure, exhausted=exhausted, now=now_is.now)
    message = f"{failure.rstrip('.')}. Everything is released; next it tries {following}"
    told = Tell(kind="Warning", reason="GangMoves", message=message)
    return Decision(actions=(StepOut(history=future), *everything(now_is), told), wake=future.retry_at)


def _retreat(now_is: Situation, policy: GangPolicy, failure: str) -> Decision:
    """Release every request and step out of the quota until the next try; after the last one, say so and
    stop.
    """
    if now_is.is_growth:
        return scale_up.retreat(now_is, policy, failure)
    uid = now_is.workload.metadata.uid
    # Time in which nothing could be asked for (no controller ran, no policy was accepted) is no try.
    began = now_is.began if now_is.attempted and now_is.policy else now_is.now
    future = next_try(
        now_is.tried, uid=uid, began=began, failure=failure, now=now_is.now, policy=policy.retry
    )
    if future is None:
        tries = now_is.tried.tries + 1
        given = (
            f"gave up after {tries} tries, retry.deadline of {format_duration(policy.retry.deadline)} is over"
        )
        return _refuse(now_is, f"{given}; last: {failure}")
    told = Tell(kind="Warning", reason="GangReleased", message=released(future))
    # The note first: it is what a crash in the middle of the deletions is finished from.
    return Decision(actions=(StepOut(history=future), *everything(now_is), told), wake=future.retry_at)


def _refuse(now_is: Situation, reason: str) -> Decision:
    """Release everything and deactivate, until a person wants another try.

    Not by the state Rejected: after that, Kueue 0.19.2 never queues a Workload again that a person activates
    (it looks for the reason `Deactivated` and finds `DeactivatedDueToAdmissionCheck`).
    """
    if now_is.is_growth:
        return scale_up.refuse(now_is, reason)
    history = History(refused=reason[:1000], avoid=now_is.past.avoid)
    told = Tell(kind="Warning", reason="GangRefused", message=refused(history))
    return Decision(actions=(StepOut(history=history), *everything(now_is), told))


# Pieces


def _unready(now_is: Situation) -> tuple[Action, ...]:
    """What it was Ready on is gone: Kueue must not admit it onto that while it asks again."""
    is_ready = now_is.entry is not None and now_is.entry.state == State.READY
    return say(now_is, "what was provisioned is gone; it is asked for again") if is_ready else ()


def _wait(now_is: Situation, step: Waiting) -> Decision:
    message = _said(now_is, step.what, step.limit)
    return Decision(
        # The word first: who was Ready must not be while something is taken from it.
        actions=(*say(now_is, message), *surplus(now_is), *step.releases),
        wake=min(step.limit.at, step.wake) if step.wake else step.limit.at,
        waits_for=step.waits_for,
    )


def _said(now_is: Situation, what: str, limit: Deadline) -> str:
    told = now_is.entry.message if now_is.entry else ""
    return waiting(what, limit, now_is.now, told=told)
