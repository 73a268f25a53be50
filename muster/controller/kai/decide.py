"""What to do now about one Ray cluster of a KAI stack.

Decides, from API objects and the time alone, which writes bring each batch of gated pods closer to passing
whole or to holding nothing. No I/O, no clock, no memory: after a crash the same objects lead to the same
decision.

    every pod of the batch exists                    (batches.py)
      -> the leaf queue and all above it have room   (room.py)
      -> its requests are Provisioned and verified   (muster.controller.gangs.assembly)
      -> every pod is stamped and loses its gate, the leader last
    A failure, a passed deadline or lost room on the way releases every request; a batch that has begun to
    pass is finished by whoever comes next, unless its capacity is lost: then what no node has is recalled.

Its promises: nothing is asked for without room in the queue; no gate goes before every request is
provisioned and every node verified; no write when nothing has changed. A gang that loses running pods is
not this machine's: KAI evicts what falls below its minimum, KubeRay makes the pods anew, and they are born
gated.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from muster.controller.gangs.actions import Tell, WaitsFor, deletions
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
    surplus,
)
from muster.controller.gangs.capacity_claims import Claim, promises
from muster.controller.gangs.create_errors import Denied, end
from muster.controller.gangs.demand import Demand
from muster.controller.gangs.identity import ATTEMPT
from muster.controller.gangs.progress import released, waiting
from muster.controller.gangs.reasons import Loss, loss
from muster.controller.gangs.retry import History, history, next_try
from muster.controller.kai.actions import Action, Decision, Lift, Note, Recall
from muster.controller.kai.labels import SIZE, STATUS, is_gated
from muster.controller.kai.objects import GatedPod
from muster.controller.kai.pod_groups import lacking
from muster.controller.kai.progress import (
    ANEW,
    MINIMUM,
    incomplete,
    outside,
    passes,
    refused,
    unreadable,
    waits_for_room,
)
from muster.controller.kai.queue_capacity import shortage
from muster.controller.kai.snapshot import Scene, Situation
from muster.model.gangpolicy import GangPolicy, KaiPolicy, format_duration
from muster.model.names import CONSUME_ANNOTATION


def decide(scene: Scene) -> Decision:
    """The decision for this scene. Deterministic, and quiet where everything is as it should be."""
    if scene.is_over:
        return Decision(actions=deletions(scene.requests, scene.templates))
    try:
        situations = scene.situations
    except ValueError as error:
        return Decision(actions=(*_clear(scene, kept=set()), *_hold_all(scene, str(error))))
    decisions = [_batch(situation) for situation in situations]
    kept = {situation.batch.attempt for situation in situations}
    return Decision(
        actions=(
            *_recalls(scene, kept),
            *_clear(scene, kept=kept),
            *(action for decision in decisions for action in decision.actions),
        ),
        wake=min((decision.wake for decision in decisions if decision.wake), default=None),
        waits_for=tuple(dict.fromkeys(each for decision in decisions for each in decision.waits_for)),
        pieces=tuple(piece for decision in decisions for piece in decision.pieces),
    )


def after_denial(scene: Scene, denied: Denied) -> Decision:
    """The end of a batch's attempt that was denied what it asked for. `scene`: with all that it has made."""
    mine = next((each for each in scene.situations if each.batch.attempt == denied.attempt), None)
    if mine is None or mine.policy is None or mine.batch.lifted:
        return Decision(wake=scene.now)  # It has changed meanwhile.
    match end(denied):
        case Never(reason=reason):
            return _refuse(mine, reason)
        case Lost(failure=failure):
            return _retreat(mine, mine.policy, failure)


# What has passed


def _clear(scene: Scene, *, kept: set[str]) -> tuple[Action, ...]:
    """Requests of attempts that are over and that no pod consumes."""
    return deletions(*scene.unneeded(kept=kept))


def _recalls(scene: Scene, kept: set[str]) -> Iterator[Action]:
    """Pods that have passed in a whole batch, have no node, and whose capacity is lost: they would wait for
    ever, because what they are to consume is gone.
    """
    present = {item.metadata.name: item for item in scene.requests if not item.metadata.deletion_timestamp}
    for name in scene.released:
        stranded = [pod for pod in scene.stranded(name) if pod.metadata.annotations.get(ATTEMPT) not in kept]
        request = present.get(name)
        found = loss(request, admitted=False) if request else None
        if not stranded or (request is not None and found is None):
            continue
        what = f"{found.summary}: {found.detail}" if found else "its ProvisioningRequest is gone"
        yield from (Recall(pod=pod, request=name) for pod in stranded)
        yield Tell(
            kind="Warning",
            reason="GangRecalled",
            message=f"{what}. {len(stranded)} pods that no node has yet go back behind the gate.",
        )


# What waits


def _batch(mine: Situation) -> Decision:
    """One step of one batch."""
    try:
        return _step(mine)
    except ValueError as error:
        return Decision(actions=(*everything(mine), *say(mine, unreadable(str(error)))))


def _step(mine: Situation) -> Decision:
    past = mine.past
    if mine.policy is None:
        return Decision(actions=say(mine, "waits for an accepted GangPolicy; see its conditions"))
    if mine.batch.lifted:
        return finish(mine, mine.policy)
    if past.refused and not _is_about_another(mine):
        return Decision(actions=(*everything(mine), *say(mine, refused(past))))
    if past.refused:
        return Decision(actions=(Note(pod=mine.batch.leader, history=History(), status=ANEW),))
    if mine.batch.lacks:
        return Decision(actions=(*everything(mine), *say(mine, incomplete(mine.batch.lacks))))
    if past.grows and not mine.batch.unit:
        # What KAI's minimum has lost stands behind nothing that a growth waits for: KAI would evict the rest.
        return Decision(
            actions=(Note(pod=mine.batch.leader, history=History(tries=past.tries), status=MINIMUM),)
        )
    if (right := mine.corrected) != past:
        return Decision(actions=(Note(pod=mine.batch.leader, history=right, status=outside(right)),))
    if past.retry_at and mine.now < past.retry_at:
        return Decision(actions=(*everything(mine), *say(mine, outside(past))), wake=past.retry_at)
    if mine.wants_back and mine.scene.pace:
        return Decision(
            actions=(*everything(mine), *say(mine, outside(past))), wake=mine.now + mine.scene.pace
        )
    sized, lack = _within_room(mine, mine.policy)
    if lack:
        # No capacity is held for work that its queue cannot let through.
        actions = (*everything(mine), *say(mine, waits_for_room(lack)))
        return Decision(actions=actions, waits_for=("room",))
    if not sized.gang.asks:
        return Decision(actions=(*everything(mine), *_pass(sized, ())))
    return _gather(sized, mine.policy)


def _is_about_another(mine: Situation) -> bool:
    """The refusal is not of what waits now: its pods or what the policy says of them have changed. While pods
    are missing nobody knows; what an earlier release has refused says nothing of it.
    """
    return not mine.batch.lacks and mine.past.refused_for not in ("", mine.about)


def _within_room(mine: Situation, policy: GangPolicy) -> tuple[Situation, str]:
    """The batch, or of one that may pass in part as many pods as there is room for; and what is short when
    there is none.
    """
    lack = _shortage(mine, policy)
    if not lack or not mine.batch.unit or mine.requests:
        return mine, lack
    parts = mine.batch.parts

    def part(count: int) -> Situation:
        return replace(mine, batch=mine.batch.first(count))

    # What fits in part fits in every smaller part: of hundreds a few are looked at.
    largest = bisect_left(parts, True, key=lambda count: not _shortage(part(count), policy))
    return (part(parts[largest]), "") if largest < len(parts) else (mine, lack)


def _shortage(mine: Situation, policy: GangPolicy) -> str:
    over_quota = (policy.kai or KaiPolicy()).over_quota
    return shortage(
        mine.needs, queues=mine.scene.queues, held=mine.held, turn=mine.turn, over_quota=over_quota
    )


def _gather(mine: Situation, policy: GangPolicy) -> Decision:
    turn = mine.turn
    match next_step(mine, policy, since=turn[0] if turn else mine.now):
        case Never(reason=reason):
            return _refuse(mine, reason)
        case Lost(failure=failure):
            return _retreat(mine, policy, failure)
        case Asking(actions=asked, limit=limit):
            return Decision(actions=(*surplus(mine), *asked), wake=limit.at, pieces=mine.pieces)
        case Parting(releases=releases, told=told, history=parted, limit=limit):
            note = Note(pod=mine.batch.leader, history=parted, status=told.message)
            return Decision(actions=(note, *surplus(mine), *releases, told), wake=limit.at)
        case Holding(limit=limit):  # The policy's rules refuse it for KAI.
            return Decision(wake=limit.at)
        case Waiting() as step:
            return _wait(mine, step)
        case Standing(promised=promised):
            claims = tuple(promise.claim for promise in promised if promise.claim is not None)
            return Decision(actions=(*surplus(mine), *_pass(mine, claims)))


def finish(mine: Situation, policy: GangPolicy) -> Decision:
    """It has begun to pass: room and nodes were looked at. The rest follows, unless its capacity is lost."""
    asks = mine.gang.asks
    lost = [found for request in mine.attempted if (found := loss(request, admitted=False))]
    if not asks:
        return Decision(actions=tuple(_pass(mine, ())))
    if lost or not mine.is_provisioned:
        return _break_off(mine, policy, lost)
    claims = tuple(p.claim for p in promises(mine.gang, mine.current) if p.claim is not None)
    return Decision(actions=tuple(_pass(mine, claims)))


def _break_off(mine: Situation, policy: GangPolicy, lost: list[Loss]) -> Decision:
    what = f"{lost[0].summary}: {lost[0].detail}" if lost else "a ProvisioningRequest of it is gone"
    recalls = tuple(
        Recall(pod=pod, request=pod.metadata.annotations.get(CONSUME_ANNOTATION, ""))
        for pod in mine.batch.lifted
        if not pod.spec.node_name
    )
    back = _retreat(mine, policy, what)
    return replace(back, actions=(*recalls, *back.actions))


def _pass(mine: Situation, claims: Iterable[Claim]) -> Iterator[Action]:
    """Every pod stamped and ungated; the leader last, because the batch is known by its gate."""
    by_pod_set = {claim.pod_set: claim for claim in claims}
    demands = {pod.metadata.uid: piece.demand for piece in mine.pieces for pod in piece.pods}
    *others, leader = (*mine.batch.gated[1:], mine.batch.gated[0])
    for pod in (*others, leader):
        demand = demands.get(pod.metadata.uid)
        # A pod that led before another came first still says what it waited for.
        is_told = pod is leader or STATUS in pod.metadata.annotations
        notes = {ATTEMPT: mine.batch.attempt, SIZE: str(len(mine.batch.pods))}
        notes |= {STATUS: passes(mine.gang)} if is_told else {}
        yield _lift(pod, demand, by_pod_set.get(demand.pod_set) if demand else None, notes)
    yield Tell(kind="Normal", reason="GangReady", message=f"{len(mine.batch.pods)} pods {passes(mine.gang)}")


def _lift(pod: GatedPod, demand: Demand | None, claim: Claim | None, notes: Mapping[str, str]) -> Lift:
    """`demand` is None for a pod that may go anywhere."""
    if demand is None:
        return Lift(pod=pod, annotations=notes, node_selector={})
    wanted = {**demand.needs.node_selector, **(claim.node_selector if claim else {})}
    return Lift(
        pod=pod,
        annotations={**notes, **(claim.annotations if claim else {})},
        node_selector={key: value for key, value in wanted.items() if key not in pod.spec.node_selector},
        tolerations=lacking(demand.flavor, pod.spec.tolerations),
    )


# The way back


def _retreat(mine: Situation, policy: GangPolicy, failure: str) -> Decision:
    """Release every request and wait until the next try; after the last one, say so and stop."""
    uid = mine.batch.leader.metadata.uid
    turn = mine.turn
    began = min(turn[0], mine.now) if turn else mine.now
    future = next_try(mine.past, uid=uid, began=began, failure=failure, now=mine.now, policy=policy.retry)
    if future is None:
        tries = mine.past.tries + 1
        limit = format_duration(policy.retry.deadline)
        given = f"gave up after {tries} tries, retry.deadline of {limit} is over"
        return _refuse(mine, f"{given}; last: {failure}")
    future = replace(future, grows=mine.batch.unit > 0)
    # The note first: with it another attempt begins, and whoever comes next releases what is left of this.
    note = Note(pod=mine.batch.leader, history=future, status=outside(future))
    told = Tell(kind="Warning", reason="GangReleased", message=released(future))
    return Decision(actions=(note, *everything(mine), told), wake=future.retry_at)


def _refuse(mine: Situation, reason: str) -> Decision:
    past = History(refused=reason[:1000], refused_for=mine.about)
    note = Note(pod=mine.batch.leader, history=past, status=refused(past))
    told = Tell(kind="Warning", reason="GangRefused", message=refused(past))
    return Decision(actions=(note, *everything(mine), told))


# Words


def _wait(mine: Situation, step: Waiting) -> Decision:
    told = mine.batch.leader.metadata.annotations.get(STATUS, "")
    # Before the first request no clock runs: it waits for its turn and holds nothing.
    runs = mine.turn is not None
    message = waiting(step.what, step.limit, mine.now, told=told) if runs else f"waits: {step.what}"
    waits_for: tuple[WaitsFor, ...] = (step.waits_for,) if step.waits_for else ()
    wake: datetime | None = step.limit.at if runs else None
    actions = (*surplus(mine), *step.releases, *say(mine, message))
    return Decision(actions=actions, wake=wake, waits_for=waits_for)


def say(mine: Situation, message: str) -> tuple[Action, ...]:
    leader = mine.batch.leader
    if leader.metadata.annotations.get(STATUS) == message:
        return ()
    return (Note(pod=leader, history=mine.past, status=message),)


def _hold_all(scene: Scene, reason: str) -> tuple[Action, ...]:
    """A cluster that makes no batches: its oldest gated pod says why."""
    gated = [pod for pod in scene.pods if is_gated(pod)]
    if not gated:
        return ()
    oldest = min(gated, key=lambda pod: (pod.metadata.creation_timestamp or scene.now, pod.metadata.name))
    message = unreadable(reason)
    if oldest.metadata.annotations.get(STATUS) == message:
        return ()
    return (Note(pod=oldest, history=history(oldest), status=message),)
