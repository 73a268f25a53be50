"""What to do now about one Workload: the gang-admission check itself.

Decides, from API objects and the time alone, which writes bring the gang closer to standing whole or to
holding nothing. No I/O, no clock, no memory: after a crash the same objects lead to the same decision.

    waiting for quota
      -> asking, scarcest pool first, the next when it is Accepted   (line.py: whose turn)
      -> all Provisioned, nodes verified                             (verify.py)
      -> Ready: Kueue admits and starts the job
    A failure or a passed deadline on the way releases every request and steps out of the quota until the
    next try; a lease that is revoked later makes the running gang queue again.

Its promises: never Ready before every request is provisioned and every node verified; never Retry on a
Workload that is being evicted; no refusal of what may pass; no write when nothing has changed.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

from controller.admission.actions import (
    Action,
    CreateRequest,
    CreateTemplates,
    Decision,
    Note,
    SetEntry,
    State,
    StepIn,
    StepOut,
    Tell,
    delete,
)
from controller.admission.deadlines import Deadline, deadline
from controller.admission.identity import template_name
from controller.admission.limits import never_fits
from controller.admission.line import Place, ahead, crossed
from controller.admission.objects import Belonging, PodSetUpdate, PodTemplate, ProvisioningRequest
from controller.admission.progress import OUTSIDE, nodes, outside, refused, released, waiting
from controller.admission.promises import Promise, missing_detail, pod_set_updates, promises
from controller.admission.reasons import Outcome, loss
from controller.admission.retry import History, next_try
from controller.admission.situation import Situation
from controller.admission.split import Ask
from controller.admission.verify import verify
from model.gangpolicy import GangPolicy, format_duration


def decide(now_is: Situation) -> Decision:
    """The decision for this situation. Deterministic, and quiet where everything is as it should be."""
    if now_is.is_over:
        return Decision(actions=_release_all(now_is))
    if not now_is.workload.spec.active:
        return _while_inactive(now_is)
    if now_is.entry is None:
        return Decision(actions=_release_all(now_is))
    if now_is.past.retry_at is not None or now_is.past.refused:
        # Somebody activated it. Take the note off: a later deactivation by others is not ours.
        afresh = History() if now_is.past.refused else replace(now_is.past, retry_at=None)
        return Decision(actions=(Note(history=afresh),))
    if not now_is.may_act:
        return _without_quota(now_is)
    match now_is.entry.state:
        case State.RETRY | State.REJECTED:
            return Decision()  # Said already; Kueue evicts.
        case State.READY if now_is.is_admitted:
            return _while_running(now_is)
    if now_is.policy is None:
        return Decision(actions=_say(now_is, "waits for an accepted GangPolicy; see its conditions"))
    try:
        return _assemble(now_is, now_is.policy)
    except ValueError as error:
        return _refuse(now_is, f"the Workload cannot be read: {error}")


# Without quota


def _while_inactive(now_is: Situation) -> Decision:
    """Ours to activate again when the time has come, unless somebody else deactivated it.

    Kueue takes our entry off an inactive Workload that has lost its quota: the annotations are what is left
    to act on and, with the Event, to read.
    """
    past = now_is.past
    everything = _release_all(now_is)
    if past.refused:
        is_out = not now_is.workload.status.holds("QuotaReserved")
        return Decision(actions=(*everything, *(_say(now_is, refused(past)) if is_out else ())))
    if past.retry_at is None:
        forgotten = () if past == History() else (Note(history=History()),)
        return Decision(actions=(*everything, *_cleared(now_is), *forgotten))
    if now_is.workload.status.holds("QuotaReserved"):
        return Decision(actions=everything)  # Kueue is still taking the quota back and will tell.
    if now_is.now >= past.retry_at:
        return Decision(actions=(*everything, StepIn(history=replace(past, retry_at=None))))
    return Decision(actions=(*everything, *_say(now_is, outside(past))), wake=past.retry_at)


def _without_quota(now_is: Situation) -> Decision:
    """Nothing of an earlier reservation may outlive it: its capacity is somebody else's now."""
    return Decision(actions=(*_release_all(now_is), *_cleared(now_is)))


def _cleared(now_is: Situation) -> tuple[Action, ...]:
    """Our entry once more, explicitly empty.

    Kueue resets it at eviction by leaving podSetUpdates out, which removes nothing that we own: the next
    start would send its pods to a lease that is gone.
    """
    entry = now_is.entry
    if entry is not None and entry.state != State.PENDING and not now_is.workload.status.holds("Evicted"):
        return ()  # Kueue acts on that answer and resets it itself.
    is_outdated = entry is not None and entry.message.startswith(OUTSIDE)
    if entry is None or (entry.state == State.PENDING and not entry.pod_set_updates and not is_outdated):
        return ()
    return _say(now_is, "waits for quota")


# With quota


def _assemble(now_is: Situation, policy: GangPolicy) -> Decision:
    """One step towards a gang that stands whole, or the way back."""
    gang = now_is.gang
    if not gang.asks:
        return Decision(actions=(*_release_all(now_is), *_set(now_is, State.READY, "nothing to provision")))
    if (reason := never_fits(gang)) is not None:
        return _refuse(now_is, reason)
    lost = [found for request in now_is.attempted if (found := loss(request, admitted=False))]
    if lost:
        worst = next((found for found in lost if found.outcome is Outcome.REFUSE), lost[0])
        what = f"{worst.summary}: {worst.detail}"
        return _refuse(now_is, what) if worst.outcome is Outcome.REFUSE else _retreat(now_is, policy, what)
    limit = deadline(
        gang, now_is.current, quota_since=now_is.quota_since or now_is.now, policy=policy, now=now_is.now
    )
    step = _next_step(now_is, limit)
    if limit.at <= now_is.now and not _makes_ready(step):
        return _retreat(now_is, policy, f"{limit.clock} of {format_duration(limit.limit)} has passed")
    return replace(step, actions=(*_release_surplus(now_is), *step.actions))


def _next_step(now_is: Situation, limit: Deadline) -> Decision:
    place = now_is.place()
    if place and not now_is.is_provisioned and (older := crossed(place, now_is.others)):
        return _give_way(now_is, older, limit)
    for ask in now_is.gang.asks:
        request = now_is.current.get(ask.shape)
        if request is None:
            return _ask(now_is, ask, limit)
        if not (request.status.holds("Accepted") or request.status.holds("Provisioned")):
            return _wait(now_is, f"asked for {ask.count} {ask.pool} nodes", limit)
    for ask in now_is.gang.asks:
        request = now_is.current[ask.shape]
        if not request.status.holds("Provisioned"):
            return _wait(now_is, _accepted(ask, request), limit)
        if detail := missing_detail(ask, request):
            return _wait(now_is, f"{ask.pool} is provisioned and does not say its {detail} yet", limit)
    return _verify(now_is, limit)


def _ask(now_is: Situation, ask: Ask, limit: Deadline) -> Decision:
    place = now_is.place()
    first = ahead(place, now_is.others) if place else None
    if first is not None:
        return _wait(now_is, f"{first.name} asks for {ask.pool} first", limit, waits_for="turn")
    name = now_is.request_name(ask)
    if any(request.metadata.name == name for request in now_is.requests):
        return _wait(now_is, f"an outdated request for {ask.pool} is being deleted", limit)
    present = {template.metadata.name for template in now_is.templates}
    wanted = {template_name(name, number) for number in range(len(ask.demands))}
    templates = () if wanted <= present else (CreateTemplates(request=name, ask=ask, labels=now_is.labels),)
    note = f"Asked for {ask.count} {ask.pool} nodes for {_pod_sets(ask)}"
    return Decision(
        actions=(
            *templates,
            CreateRequest(name=name, ask=ask, labels=now_is.labels),
            Tell(kind="Normal", reason="ProvisioningRequestCreated", message=f"{note} with {name}"),
        ),
        wake=limit.at,
    )


def _give_way(now_is: Situation, older: Place, limit: Deadline) -> Decision:
    """Take back what was asked, keep the quota, and stand in line: no failure, so no note and no backoff."""
    told = _wait(now_is, f"{older.name} asked first", limit, waits_for="turn")
    surplus = _release_surplus(now_is)
    asked = tuple(action for action in _release_all(now_is) if action not in surplus)
    return replace(told, actions=(*asked, *told.actions))


def _verify(now_is: Situation, limit: Deadline) -> Decision:
    """Every request is Provisioned. Believe it when the nodes stand."""
    promised = promises(now_is.gang, now_is.current)
    rooms = verify(
        [promise.wanted for promise in promised if promise.is_verified],
        nodes=now_is.nodes,
        pods=now_is.pods,
        claims=now_is.claims,
    )
    if not all(room.is_enough for room in rooms):
        return _wait(now_is, nodes(rooms), limit, waits_for="nodes")
    return _ready(now_is, promised, limit)


def _ready(now_is: Situation, promised: tuple[Promise, ...], limit: Deadline) -> Decision:
    message = f"all {sum(ask.count for ask in now_is.gang.asks)} nodes are provisioned"
    actions = _set(now_is, State.READY, message, updates=pod_set_updates(promised))
    told = (Tell(kind="Normal", reason="GangReady", message=message),) if actions else ()
    # Other checks may still keep Kueue from admitting it: the booking does not wait for them.
    return Decision(actions=(*actions, *told), wake=limit.at)


def _makes_ready(step: Decision) -> bool:
    return any(isinstance(action, SetEntry) and action.state is State.READY for action in step.actions)


def _while_running(now_is: Situation) -> Decision:
    """The gang stands on its nodes. Only the loss of a lease concerns us now."""
    stale = tuple(request for request in now_is.requests if request not in now_is.attempted)
    outdated = _deletions(stale, ())
    lost = [found for request in now_is.attempted if (found := loss(request, admitted=True))]
    if lost:
        what = f"{lost[0].summary}: {lost[0].detail}"
        return Decision(
            actions=(
                *outdated,
                *_set(now_is, State.RETRY, f"{what}; the gang queues again"),
                Tell(kind="Warning", reason="CapacityRevoked", message=f"{what}. The gang queues again."),
            )
        )
    forgotten = () if now_is.past == History() else (Note(history=History()),)
    return Decision(actions=(*outdated, *forgotten))


# The way back


def _retreat(now_is: Situation, policy: GangPolicy, failure: str) -> Decision:
    """Release every request and step out of the quota until the next try; after the last one, say so and
    stop.
    """
    uid = now_is.workload.metadata.uid
    began = min(now_is.quota_since or now_is.now, now_is.now)
    future = next_try(now_is.past, uid=uid, began=began, failure=failure, now=now_is.now, policy=policy.retry)
    if future is None:
        tries = now_is.past.tries + 1
        given = (
            f"gave up after {tries} tries, retry.deadline of {format_duration(policy.retry.deadline)} is over"
        )
        return _refuse(now_is, f"{given}; last: {failure}")
    told = Tell(kind="Warning", reason="GangReleased", message=released(future))
    # The note first: it is what a crash in the middle of the deletions is finished from.
    return Decision(actions=(StepOut(history=future), *_release_all(now_is), told), wake=future.retry_at)


def _refuse(now_is: Situation, reason: str) -> Decision:
    """Release everything and deactivate, until a person wants another try.

    Not by the state Rejected: after that, Kueue 0.19.2 never queues a Workload again that a person activates
    (it looks for the reason `Deactivated` and finds `DeactivatedDueToAdmissionCheck`).
    """
    history = History(refused=reason[:1000])
    told = Tell(kind="Warning", reason="GangRefused", message=refused(history))
    return Decision(actions=(StepOut(history=history), *_release_all(now_is), told))


# Pieces


def _wait(
    now_is: Situation, what: str, limit: Deadline, *, waits_for: Literal["", "nodes", "turn"] = ""
) -> Decision:
    told = now_is.entry.message if now_is.entry else ""
    message = waiting(what, limit, now_is.now, told=told)
    return Decision(actions=_say(now_is, message), wake=limit.at, waits_for=waits_for)


def _say(now_is: Situation, message: str) -> tuple[Action, ...]:
    return _set(now_is, State.PENDING, message) if now_is.entry else ()


def _set(
    now_is: Situation, state: State, message: str, *, updates: tuple[PodSetUpdate, ...] = ()
) -> tuple[Action, ...]:
    entry = now_is.entry
    if entry and (entry.state, entry.message, entry.pod_set_updates) == (state, message, updates):
        return ()
    return (SetEntry(state=state, message=message, updates=updates),)


def _accepted(ask: Ask, request: ProvisioningRequest) -> str:
    """The autoscaler's own estimate, where it gives one."""
    promised = request.status.condition("Provisioned")
    estimate = f" ({promised.message[:200]})" if promised and promised.message else ""
    return f"0 of {ask.count} {ask.pool} nodes for {_pod_sets(ask)}{estimate}"


def _pod_sets(ask: Ask) -> str:
    return ", ".join(demand.pod_set for demand in ask.demands)


def _release_surplus(now_is: Situation) -> tuple[Action, ...]:
    """Requests of earlier attempts, and of this one that the policy no longer makes."""
    kept = {request.metadata.name for request in now_is.current.values()}
    templates = {
        template_name(now_is.request_name(ask), number)
        for ask in now_is.gang.asks
        for number in range(len(ask.demands))
    }
    requests = [request for request in now_is.requests if request.metadata.name not in kept]
    outdated = [template for template in now_is.templates if template.metadata.name not in templates]
    return _deletions(requests, outdated)


def _release_all(now_is: Situation) -> tuple[Action, ...]:
    return _deletions(now_is.requests, now_is.templates)


def _deletions(
    requests: Iterable[ProvisioningRequest], templates: Iterable[PodTemplate]
) -> tuple[Action, ...]:
    """Requests first: an autoscaler must not meet a request whose template is gone."""
    items: tuple[Belonging, ...] = (*requests, *templates)
    return tuple(delete(item) for item in items if not item.metadata.deletion_timestamp)
