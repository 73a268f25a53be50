"""Computes the next writes for one gang of a KAI stack.

Pure: depends only on API objects and the current time, so that after a crash the same objects lead to the
same decision. Each batch of gated pods either passes whole or holds no capacity.

    every pod of the batch exists                    (groups.py)
      -> the leaf queue and all above it have room   (queue_capacity.py)
      -> its requests are Provisioned and verified   (muster.controller.gangs.assembly)
      -> every pod is annotated and ungated, the leader last
    Where nodes are refused, late or more than the pool may have, and other gangs have left room for all of
    the batch or KAI would make it (preemption.py), its requests go and it passes without nodes of its own.
    A failure, a passed deadline or lost room on the way releases every request. A batch that has begun to
    pass is completed, unless its capacity is lost: then its pods without a node are deleted, and KubeRay
    creates them again, gated.

Invariants: nothing is requested without room in the queue; no gate is removed before every request is
provisioned and every node verified; no write when nothing has changed. Losing running pods is decided here
for broken nodes alone, where the policy says so: KAI evicts what falls below its minimum, and KubeRay creates
the pods again, gated.
"""

from bisect import bisect_left
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from muster.controller.gangs import progress as shared
from muster.controller.gangs.actions import Delete, EmitEvent, HoldNode, deletions
from muster.controller.gangs.assembly import (
    TURN_RECHECK,
    AttemptFailed,
    CreateNext,
    HoldNodes,
    Ready,
    ReleaseEarly,
    Step,
    Unsatisfiable,
    Wait,
    delete_all,
    delete_outdated,
    next_step,
    without_policy,
)
from muster.controller.gangs.capacity_claims import PodClaim, capacity_claims_of, pod_claims
from muster.controller.gangs.create_errors import CreateRejected, GateKept, failure_of
from muster.controller.gangs.deadlines import settles_at, words_last_until
from muster.controller.gangs.demand import Demand
from muster.controller.gangs.identity import ATTEMPT, promised_by
from muster.controller.gangs.lease import format_time
from muster.controller.gangs.objects import Pod
from muster.controller.gangs.placeholder_sets import HANDOVER, PlaceholderSet
from muster.controller.gangs.progress import format_ending, format_release, format_wait, is_due, recheck_at
from muster.controller.gangs.reasons import Loss, loss
from muster.controller.gangs.retry import REFUSED, RetryHistory, next_attempt, parse_history, truncate_seconds
from muster.controller.gangs.split import Gang
from muster.controller.gangs.turn_order import Line
from muster.controller.kai.actions import (
    Action,
    Decision,
    DeleteRunning,
    DeleteUnbound,
    PatchAnnotations,
    PatchCluster,
    Ungate,
)
from muster.controller.kai.labels import (
    HANDED_OVER,
    PREEMPTS,
    SIZE,
    STATUS,
    is_bound,
    is_gated,
    is_released,
    preempts_since,
)
from muster.controller.kai.objects import GatedPod
from muster.controller.kai.pod_groups import missing_tolerations
from muster.controller.kai.preemption import Preemption
from muster.controller.kai.queue_capacity import Shortfall
from muster.controller.kai.recall import (
    hosts_of,
    keep_history,
    note_lost_nodes,
    recall,
    recall_ends,
    requeue_broken,
)
from muster.controller.kai.snapshot import BatchSnapshot, ClusterSnapshot
from muster.model.gangpolicy import GangPolicy
from muster.model.names import KAI_QUEUE_LABEL, PLACED_ANNOTATION
from muster.model.quantities import many

_LOOK_AGAIN: Final = timedelta(seconds=1)
"""Between two looks at a batch that another precedes, where what that one writes is not seen: the pod may be
gone, and no watch has shown it.
"""


def decide(cluster_snapshot: ClusterSnapshot) -> Decision:
    """The decision for this scene. Deterministic, and quiet where everything is as it should be."""
    if cluster_snapshot.is_finished:
        return Decision(
            actions=deletions(
                cluster_snapshot.requests, cluster_snapshot.templates, cluster_snapshot.placeholders
            )
        )
    requeues = (*requeue_broken(cluster_snapshot), *note_lost_nodes(cluster_snapshot))
    if any(isinstance(each, DeleteRunning) for each in requeues):
        return Decision(actions=requeues)  # No other pod of it passes meanwhile.
    decisions: list[Decision] = []
    try:
        batch_snapshots = cluster_snapshot.batch_snapshots
    except ValueError as error:
        batch_snapshots = ()
        decisions.append(Decision(actions=_keep_gated(cluster_snapshot, str(error))))
    for snapshot in batch_snapshots:
        begun = any(decision.begins for decision in decisions)
        # What one batch takes of the queue is seen by the next when it is on its way.
        found = _batch(snapshot)
        later = Decision(requeue_at=snapshot.now + _LOOK_AGAIN)
        decisions.append(later if begun and found.begins else found)
    kept = {snapshot.batch.attempt for snapshot in batch_snapshots}
    return Decision(
        actions=(
            *requeues,
            *recall(cluster_snapshot, kept),
            *_delete_unneeded(cluster_snapshot, kept=kept),
            *(action for decision in decisions for action in decision.actions),
        ),
        requeue_at=min(
            (
                *(decision.requeue_at for decision in decisions if decision.requeue_at),
                *recall_ends(cluster_snapshot),
            ),
            default=None,
        ),
        waits_for_nodes=any(decision.waits_for_nodes for decision in decisions),
        begins=next((decision.begins for decision in decisions if decision.begins), None),
        shortfalls=tuple(each for decision in decisions for each in decision.shortfalls),
        in_line=tuple(each for decision in decisions for each in decision.in_line),
        to_preempt=next((decision.to_preempt for decision in decisions if decision.to_preempt), None),
    )


def after_rejection(cluster_snapshot: ClusterSnapshot, rejected: CreateRejected) -> Decision:
    """End the attempt of a batch whose create was rejected; `cluster_snapshot` was read after that."""
    snapshot = next(
        (each for each in cluster_snapshot.batch_snapshots if each.batch.attempt == rejected.attempt), None
    )
    is_gate = isinstance(rejected, GateKept)
    if snapshot is None or snapshot.policy is None or (snapshot.batch.ungated and not is_gate):
        return Decision(requeue_at=cluster_snapshot.now)  # It has changed meanwhile.
    match failure_of(rejected):
        case Unsatisfiable(reason=reason):
            ended = _refuse(snapshot, reason)
        case AttemptFailed(failure=failure):
            ended = _release_and_retry(snapshot, snapshot.policy, failure)
    return _take_back(snapshot, ended) if is_gate else ended


def _take_back(snapshot: BatchSnapshot, ended: Decision) -> Decision:
    """The end of an attempt one of whose gates stays. What refuses that may refuse notes on the pod, too."""
    noted = (
        keep_history(snapshot.cluster_snapshot, each.history, snapshot.part)
        if isinstance(each, PatchAnnotations)
        else each
        for each in ended.actions
        if not isinstance(each, PatchCluster)
    )
    passed = (DeleteUnbound(pod=pod, request="") for pod in snapshot.batch.ungated if not is_bound(pod))
    return replace(ended, actions=(*noted, *passed))


def _delete_unneeded(cluster_snapshot: ClusterSnapshot, *, kept: set[str]) -> tuple[Action, ...]:
    """Requests of attempts that are over and that no pod consumes."""
    return deletions(*cluster_snapshot.unneeded(kept=kept))


def _take_over(snapshot: BatchSnapshot, noted: RetryHistory) -> Decision | None:
    """The history of pods that went before these. None where the leader has it: the note stays until they
    start, for those that are made again before. That of a scale-up goes: its object runs, and does not wait
    for it where KAI evicts all of its pods.
    """
    cleared = keep_history(snapshot.cluster_snapshot, RetryHistory(), snapshot.part)
    if _is_old(snapshot, noted):
        return Decision(actions=(cleared,))
    goes = _keep(snapshot, RetryHistory()) if snapshot.batch.unit else ()
    if snapshot.history.tries >= noted.tries > 0:
        return Decision(actions=goes) if goes else None
    if not noted.refused:
        return Decision(actions=(_note(snapshot, noted, format_backoff(noted)), *goes))
    refused = _refuse(snapshot, noted.refused)
    is_of_others = snapshot.shares_note and noted.retry_at is None
    return replace(refused, actions=(*refused.actions, cleared)) if is_of_others else refused


def _is_old(snapshot: BatchSnapshot, noted: RetryHistory) -> bool:
    """Whether it says nothing of these pods: it was noted long before them, or on the object of which this
    one is a copy. A refusal that pods of several gangs share is kept for a minute, in which they are made
    again: a person may want those tried that are made later.
    """
    created = snapshot.cluster.metadata.creation_timestamp
    began = noted.first_try or noted.retry_at
    is_copied = created is not None and began is not None and created - began > TURN_RECHECK
    if is_copied or not (noted.tries or noted.refused):
        return True
    if noted.retry_at is None:
        return False
    if noted.refused and snapshot.shares_note:
        return snapshot.now - noted.retry_at > TURN_RECHECK
    longest = timedelta(0) if snapshot.shares_note else (snapshot.policy or GangPolicy()).retry.max
    return snapshot.made - noted.retry_at > max(HANDOVER, longest)


def _keep(snapshot: BatchSnapshot, history: RetryHistory) -> tuple[PatchCluster, ...]:
    """The history on the gang's object, too: its leader may be deleted and made again. Not what pods of
    several gangs would share, not that of a scale-up, whose object runs, and not what would be taken off as
    old.
    """
    is_any = history != RetryHistory()
    if snapshot.shares_note or (is_any and (snapshot.batch.unit or _is_old(snapshot, history))):
        return ()
    is_kept = snapshot.cluster_snapshot.noted(snapshot.part) == history
    return () if is_kept else (keep_history(snapshot.cluster_snapshot, history, snapshot.part),)


# What waits


def _batch(snapshot: BatchSnapshot) -> Decision:
    """One step of one batch."""
    try:
        found = _step(snapshot)
    except ValueError as error:
        found = _hold_back(snapshot, format_unreadable(str(error)))
    # Users read whichever pod says something: one that leads no more says nothing.
    former = tuple(
        PatchAnnotations(pod=pod, history=RetryHistory(), status="")
        for pod in snapshot.batch.gated[1:]
        if STATUS in pod.metadata.annotations
    )
    found = _keep_words(snapshot, found)
    return replace(found, actions=(*former, *found.actions)) if former else found


def _keep_words(snapshot: BatchSnapshot, decision: Decision) -> Decision:
    """Words that have taken the place of others stay for a while: of reasons that alternate each would be a
    write.
    """
    leader = snapshot.batch.leader
    reported = snapshot.cluster_snapshot.reported.get(leader.metadata.uid)
    kept_until = words_last_until(reported, now=snapshot.now)
    others = tuple(
        each
        for each in decision.actions
        if not (isinstance(each, PatchAnnotations) and (each.pod, each.history) == (leader, snapshot.history))
    )
    if kept_until is None or others == decision.actions:
        return decision
    return replace(decision, actions=others, requeue_at=min(kept_until, decision.requeue_at or kept_until))


def _hold_back(
    snapshot: BatchSnapshot,
    status: str,
    *,
    requeue_at: datetime | None = None,
    keeps: RetryHistory | None = None,
) -> Decision:
    """It holds no capacity while it waits for something else. `keeps`: the history that its object has."""
    noted = () if keeps is None else _keep(snapshot, keeps)
    actions = (*noted, *delete_all(snapshot), *set_status(snapshot, status))
    return Decision(actions=actions, requeue_at=requeue_at)


def _note(snapshot: BatchSnapshot, history: RetryHistory, status: str) -> PatchAnnotations:
    return PatchAnnotations(pod=snapshot.batch.leader, history=history, status=status)


def _step(snapshot: BatchSnapshot) -> Decision:
    history = snapshot.history
    if snapshot.policy is None:
        released, until = without_policy(snapshot)
        status = set_status(snapshot, "waits for an accepted GangPolicy; see its conditions")
        return Decision(actions=(*status, *released), requeue_at=until)
    if snapshot.batch.ungated:
        return finish(snapshot, snapshot.policy)
    if history.refused and not _refusal_is_outdated(snapshot):
        return _hold_back(snapshot, format_refusal(history), keeps=RetryHistory())
    if history.refused:
        return Decision(actions=(_note(snapshot, RetryHistory(), RESTARTED),))
    ending = [pod for pod in snapshot.own_ending if is_due(pod, now=snapshot.now)]
    if ending and not snapshot.batch.unit and not snapshot.requests:
        look_at = recheck_at(ending, since=snapshot.now, now=snapshot.now)
        return _hold_back(snapshot, format_ending_pods(ending), requeue_at=look_at)
    if snapshot.batch.missing_reason:
        return _hold_back(snapshot, format_incomplete(snapshot.batch.missing_reason))
    # Not sooner: a pod that comes later may be the one to lead.
    noted = snapshot.cluster_snapshot.noted(snapshot.part)
    # What pods of another gang leave ends no try that is under way.
    is_foreign = snapshot.shares_note and snapshot.turn is not None
    is_noted = noted != RetryHistory() and not any(map(is_released, snapshot.gang_pods))
    if is_noted and not is_foreign and (taken := _take_over(snapshot, noted)) is not None:
        return taken
    if history.grows and not snapshot.batch.unit:
        # Pods that KAI's minimum has lost do not wait as a scale-up does: KAI would evict the rest.
        return Decision(actions=(_note(snapshot, RetryHistory(tries=history.tries), BELOW_MINIMUM),))
    if (clamped := snapshot.clamped_history) != history:
        return Decision(actions=(_note(snapshot, clamped, format_backoff(clamped)),))
    if history.retry_at and snapshot.now < history.retry_at:
        held = _hold_back(
            snapshot,
            format_backoff(history),
            requeue_at=_next_look(snapshot, history.retry_at),
            keeps=history,
        )
        return held if snapshot.was_recalled else _preempt_instead_of(snapshot, held)
    if snapshot.wants_retry and (delay := snapshot.cluster_snapshot.retry_delay):
        return _hold_back(snapshot, format_backoff(history), requeue_at=snapshot.now + delay)
    sized, shortfall = _fit_to_quota(snapshot, snapshot.policy)
    if shortfall is not None:
        return _preempt_instead_of(snapshot, _await_room(snapshot, snapshot.policy, shortfall))
    if not sized.gang.request_specs:
        return _pass(sized, {}, deletes=delete_all(snapshot))
    return _provision(sized, snapshot.policy)


def _refusal_is_outdated(snapshot: BatchSnapshot) -> bool:
    """The refusal is outdated: the pods or their flavors in the policy have changed. While pods
    are missing this is unknown; a refusal by an earlier release does not count.
    """
    return not snapshot.batch.missing_reason and snapshot.history.refused_for not in (
        "",
        snapshot.refusal_subject,
    )


def _fit_to_quota(snapshot: BatchSnapshot, policy: GangPolicy) -> tuple[BatchSnapshot, Shortfall | None]:
    """The batch, or of one that may pass in part as many pods as there is room for; and what is short when
    there is none.
    """
    shortfall = snapshot.shortfall(policy)
    if shortfall is None or not snapshot.batch.unit or snapshot.requests:
        return snapshot, shortfall
    parts = [replace(snapshot, batch=snapshot.batch.first(count)) for count in snapshot.batch.parts]
    # What fits in part fits in every smaller part: a few of hundreds are checked.
    largest = bisect_left(parts, True, key=lambda part: part.shortfall(policy) is None)
    if largest < len(parts):
        return parts[largest], None
    return snapshot, parts[-1].shortfall(policy) if parts else shortfall


def _await_room(snapshot: BatchSnapshot, policy: GangPolicy, shortfall: Shortfall) -> Decision:
    """No capacity is held for work that its queue cannot let through. Others give way to it only where it
    would begin at once.
    """
    around, ending = snapshot.cluster_snapshot, tuple[GatedPod, ...]()
    if shortfall.demand is not None:
        ending = tuple(
            pod
            for pod in around.ending
            if is_due(pod, now=snapshot.now)
            and shortfall.demand.queue in around.ledger.ancestry(pod.metadata.labels.get(KAI_QUEUE_LABEL, ""))
        )
    look_at = recheck_at(ending, since=snapshot.now, now=snapshot.now) if ending else None
    outranked = around.ledger.outranked(shortfall)
    if outranked and not _would_begin(snapshot, policy, without=outranked):
        shortfall = replace(shortfall, order=None)
        soon = snapshot.now + TURN_RECHECK
        look_at = min(look_at, soon) if look_at else soon
    held = _hold_back(snapshot, format_queue_wait(shortfall.message, ending), requeue_at=look_at)
    if snapshot.turn and delete_all(snapshot):
        lost = EmitEvent(kind="Warning", reason="GangReleased", message=format_lost_room(shortfall.message))
        held = replace(held, actions=(*held.actions, lost))
    return replace(held, shortfalls=(shortfall,))


def _would_begin(snapshot: BatchSnapshot, policy: GangPolicy, *, without: Collection[Hashable]) -> bool:
    """Whether it would ask for nodes now, had it room and were it `without` these attempts in line."""
    if not snapshot.gang.request_specs:
        return True
    line = Line(each for each in snapshot.cluster_snapshot.line if each.uid not in without)
    alone = replace(snapshot, cluster_snapshot=replace(snapshot.cluster_snapshot, line=line))
    return isinstance(next_step(alone.in_line(), policy, since=snapshot.now), CreateNext)


def _provision(snapshot: BatchSnapshot, policy: GangPolicy) -> Decision:
    turn = snapshot.turn
    step = next_step(snapshot.in_line(), policy, since=turn[0] if turn else snapshot.now)
    late_at = _late_at(snapshot, policy, step)
    decision = _follow(snapshot, policy, step, late_at)
    is_late = late_at is not None and late_at <= snapshot.now
    return _preempt_instead_of(snapshot, decision) if is_late else decision


def _follow(snapshot: BatchSnapshot, policy: GangPolicy, step: Step, late_at: datetime | None) -> Decision:
    match step:
        case Unsatisfiable(reason=reason):
            return _refuse(snapshot, reason)
        case AttemptFailed(failure=failure):
            return _release_and_retry(snapshot, policy, failure)
        case CreateNext(actions=creates, limit=limit):
            return Decision(
                actions=(*delete_outdated(snapshot), *creates), requeue_at=limit.at, begins=snapshot
            )
        case ReleaseEarly(releases=releases, event=event, history=next_history, limit=limit):
            note = _note(snapshot, next_history, event.message)
            return Decision(actions=(note, *delete_outdated(snapshot), *releases, event), requeue_at=limit.at)
        case HoldNodes(limit=limit):  # The policy's rules refuse it for KAI.
            return Decision(requeue_at=limit.at)
        case Wait():
            waiting = _wait(snapshot, step)
            looks = [each for each in (waiting.requeue_at, _next_look(snapshot, late_at)) if each]
            return replace(waiting, requeue_at=min(looks, default=None))
        case Ready(claims=claims):
            return _pass(snapshot, claims, deletes=delete_outdated(snapshot))


def _late_at(snapshot: BatchSnapshot, policy: GangPolicy, step: Step) -> datetime | None:
    """From when it may take room from others; None while nodes may come in time."""
    match step:
        case AttemptFailed():
            return snapshot.now
        case CreateNext(actions=actions) if any(isinstance(each, HoldNode) for each in actions):
            return None  # Its nodes are there.
        case Wait() | CreateNext():
            return snapshot.nodes_late_at(policy, for_turn=isinstance(step, Wait) and step.for_turn)
    return None


def _next_look(snapshot: BatchSnapshot, at: datetime | None) -> datetime | None:
    """At this moment, and from then on every minute, because no change of what others run brings it back: a
    gang from which KAI could take room may start later. Without a moment, every minute while others run.
    """
    now = snapshot.now
    if not snapshot.cluster_snapshot.rivals.gangs and (at is None or at > now):
        return at
    return min(each for each in (at, now + TURN_RECHECK) if each and each > now)


def _preempt_instead_of(snapshot: BatchSnapshot, decision: Decision) -> Decision:
    """It passes for KAI to make room, with nothing bought for it. Where KAI would make none, or does so for
    another gang first, the other decision stands.
    """
    if (preemption := snapshot.preemption) is None:
        return decision
    if snapshot.must_wait_to_preempt:
        looks = (decision.requeue_at, snapshot.now + TURN_RECHECK)
        return replace(decision, to_preempt=snapshot, requeue_at=min(each for each in looks if each))
    begun = replace(snapshot, preempts=True)
    actions = (*delete_all(snapshot), *_ungate_preempting(snapshot, preemption.hosts, preemption))
    return Decision(actions=actions, begins=begun)


def _ungate_preempting(
    snapshot: BatchSnapshot, hosts: tuple[str, ...], preemption: Preemption | None = None
) -> Iterator[Action]:
    since = {PREEMPTS: format_time(truncate_seconds(snapshot.now))}
    status = format_preempting(preemption.taking if preemption else None)
    yield from _ungate_all(snapshot, {}, status=status, annotations=since, hosts=hosts)


def _pass(
    snapshot: BatchSnapshot, claims: Mapping[str, PodClaim], *, deletes: tuple[Action, ...]
) -> Decision:
    """KAI deletes the pods of a gang that it evicts one after another, and KubeRay makes each one again when
    it has ended: the first of them must not pass alone, as a lost pod of a gang that runs. Once it is settled
    KAI has deleted the others, too (its client makes 50 calls a second).
    """
    settled = settles_at(snapshot.batch.leader.metadata.creation_timestamp, now=snapshot.now)
    if snapshot.batch.refills and settled:
        return Decision(actions=deletes, requeue_at=settled)
    return Decision(
        actions=(*deletes, *_without_placeholders(snapshot), *_ungate_all(snapshot, claims)), begins=snapshot
    )


def _without_placeholders(snapshot: BatchSnapshot) -> tuple[Delete, ...]:
    """They go first: a pod that KAI finds no room for beside its own placeholder would bring another node.
    The taint keeps the nodes meanwhile.
    """
    sets = (each for each in snapshot.current.values() if isinstance(each, PlaceholderSet))
    return deletions((), (), (pod for each in sets for pod in each.pods))


def finish(snapshot: BatchSnapshot, policy: GangPolicy) -> Decision:
    """It has begun to pass: room and nodes were checked. The rest follows, unless its capacity is lost."""
    request_specs = snapshot.gang.request_specs
    if preempting := [pod for pod in snapshot.batch.ungated if preempts_since(pod)]:
        # Pods that may go anywhere say nothing of it; the head alone may have passed.
        hosts = next((hosts for pod in preempting if (hosts := hosts_of(pod))), ())
        if hosts or not request_specs:
            return Decision(actions=tuple(_ungate_preempting(snapshot, hosts)))
        return Decision(actions=tuple(DeleteUnbound(pod=pod, request="") for pod in preempting))
    failed = [found for request in snapshot.attempted if (found := loss(request, admitted=False))]
    if not request_specs:
        return Decision(actions=tuple(_ungate_all(snapshot, {})))
    if failed or not snapshot.keeps_capacity:
        return _abort_ungating(snapshot, policy, failed)
    claims = pod_claims(capacity_claims_of(snapshot.gang, snapshot.current))
    return Decision(actions=(*_without_placeholders(snapshot), *_ungate_all(snapshot, claims)))


def _abort_ungating(snapshot: BatchSnapshot, policy: GangPolicy, failed: list[Loss]) -> Decision:
    what = str(failed[0]) if failed else "what it has asked for is gone"
    deletions_unbound = tuple(
        DeleteUnbound(pod=pod, request=promised_by(pod.metadata.annotations))
        for pod in snapshot.batch.ungated
        if not pod.spec.node_name
    )
    noted = snapshot.cluster_snapshot.noted(snapshot.part)
    # Its end is noted there; where all of its pods have nodes, that was an earlier one.
    if deletions_unbound and (noted.refused or noted.tries > snapshot.history.tries):
        return Decision(actions=deletions_unbound)
    back = _release_and_retry(snapshot, policy, what)
    return replace(back, actions=(*deletions_unbound, *back.actions))


def _ungate_all(
    snapshot: BatchSnapshot,
    claims: Mapping[str, PodClaim],
    *,
    status: str = "",
    annotations: Mapping[str, str] = MappingProxyType({}),
    hosts: tuple[str, ...] = (),
) -> Iterator[Action]:
    """Every pod stamped and ungated; the leader last, because the batch is known by its gate."""
    requested = {demand.pod_set for spec in snapshot.gang.request_specs for demand in spec.demands}
    demands = {
        pod.metadata.uid: group_demand.demand
        for group_demand in snapshot.pod_group_demands
        for pod in group_demand.pods
    }
    leader, *others = snapshot.batch.gated
    status = status or format_ungated(snapshot.gang)
    yield from _keep(snapshot, RetryHistory())
    for pod in (*others, leader):
        demand = demands.get(pod.metadata.uid)
        # A former leader still has the status of what it waited for.
        has_status = pod is leader or STATUS in pod.metadata.annotations
        notes = {ATTEMPT: snapshot.batch.attempt, SIZE: str(len(snapshot.batch.pods)), **annotations}
        notes |= {STATUS: status} if has_status else {}
        claim = claims.get(demand.pod_set) if demand else None
        if claim and PLACED_ANNOTATION in claim.annotations:
            notes |= {HANDED_OVER: format_time(truncate_seconds(snapshot.now))}
        ungate = _ungate(pod, demand, claim, notes)
        if hosts and demand is not None and demand.pod_set in requested:
            ungate = replace(ungate, hosts=hosts, is_undisturbed=demand.flavor.by_placeholders)
        yield ungate
    yield EmitEvent(
        kind="Normal",
        reason="GangReady",
        message=f"{many(len(snapshot.batch.pods), 'pod')} {status}",
    )


def _ungate(
    pod: GatedPod, demand: Demand | None, claim: PodClaim | None, annotations: Mapping[str, str]
) -> Ungate:
    """`demand` is None for a pod that may go anywhere."""
    if demand is None:
        return Ungate(pod=pod, annotations=annotations, node_selector={})
    wanted = {**demand.needs.node_selector, **(claim.node_selector if claim else {})}
    return Ungate(
        pod=pod,
        annotations={**annotations, **(claim.annotations if claim else {})},
        node_selector={key: value for key, value in wanted.items() if key not in pod.spec.node_selector},
        tolerations=(
            *missing_tolerations(demand.flavor, pod.spec.tolerations),
            *(claim.tolerations if claim else ()),
        ),
    )


# The way back


def _release_and_retry(snapshot: BatchSnapshot, policy: GangPolicy, failure: str) -> Decision:
    """Release every request and wait until the next try; after the last one, say so and stop."""
    uid = snapshot.batch.leader.metadata.uid
    turn = snapshot.turn
    began = min(turn[0], snapshot.now) if turn else snapshot.now
    next_history = next_attempt(
        snapshot.history,
        uid=uid,
        began=began,
        failure=failure,
        now=snapshot.now,
        policy=policy.retry,
        in_turn=snapshot.kept_turn,
    )
    if next_history.refused:
        return _refuse(snapshot, next_history.refused)
    next_history = replace(next_history, grows=snapshot.batch.unit > 0)
    # The note first: with it another attempt begins, and the next reconcile releases what is left of this.
    note = _note(snapshot, next_history, format_backoff(next_history))
    event = EmitEvent(kind="Warning", reason="GangReleased", message=format_release(next_history))
    # On its object at once: the pod may refuse the note.
    kept = _keep(snapshot, next_history)
    return Decision(actions=(note, event, *kept, *delete_all(snapshot)), requeue_at=next_history.retry_at)


def _refuse(snapshot: BatchSnapshot, reason: str) -> Decision:
    history = RetryHistory(refused=reason[:1000], refused_for=snapshot.refusal_subject)
    note = _note(snapshot, history, format_refusal(history))
    event = EmitEvent(kind="Warning", reason="GangRefused", message=format_refusal(history))
    return Decision(actions=(note, event, *delete_all(snapshot)))


# Words


def _wait(snapshot: BatchSnapshot, step: Wait) -> Decision:
    # Before the first request no deadline runs: it waits for its turn and holds nothing.
    runs = snapshot.turn is not None
    message = format_wait(step.status, step.limit) if runs else step.status
    status, looks = set_status(snapshot, message), [step.limit.at] if runs else []
    settled = settles_at(snapshot.last_progress, now=snapshot.now, since=snapshot.last_answer)
    is_first = STATUS not in snapshot.batch.leader.metadata.annotations
    if status and runs and settled and not is_first:
        status, looks = (), [*looks, settled]
    actions = (*delete_outdated(snapshot), *step.releases, *status)
    looks += [step.requeue_at] if step.requeue_at else []
    position = snapshot.turn_position() if step.for_turn and not runs else None
    return Decision(
        actions=actions,
        requeue_at=min(looks, default=None),
        waits_for_nodes=step.for_nodes,
        # The line reconciles it when its turn comes (gathering.py).
        in_line=(position,) if position else (),
    )


def set_status(snapshot: BatchSnapshot, message: str) -> tuple[Action, ...]:
    return _set_status(snapshot.batch.leader, message)


def _set_status(pod: GatedPod, message: str) -> tuple[Action, ...]:
    if pod.metadata.annotations.get(STATUS) == message:
        return ()
    return (PatchAnnotations(pod=pod, history=parse_history(pod), status=message),)


def _keep_gated(cluster_snapshot: ClusterSnapshot, reason: str) -> tuple[Action, ...]:
    """A cluster that makes no batches: its oldest gated pod shows why."""
    gated = [pod for pod in cluster_snapshot.pods if is_gated(pod)]
    if not gated:
        return ()
    oldest = min(
        gated, key=lambda pod: (pod.metadata.creation_timestamp or cluster_snapshot.now, pod.metadata.name)
    )
    return _set_status(oldest, format_unreadable(reason))


# Texts on the leader of a batch and in Events.
#
# Each follows from the batch's state alone, so it changes only when that does: a gang that waits costs no
# writes.


RELEASED = "released"
RESTARTED = "starts over: what was refused has changed"
BELOW_MINIMUM = "starts over: what KAI starts with has lost pods"


def format_queue_wait(shortfall: str, ending: Sequence[Pod]) -> str:
    """`ending`: pods that the queue may still hold."""
    return f"waits for its queue: {shortfall}" + (f"; {format_ending(ending)}" if ending else "")


def format_lost_room(shortfall: str) -> str:
    """The text of the Event when a gang that gathers loses its queue's room."""
    return f"{shortfall}. Everything is released; it begins again once its queue has room for it"


def format_incomplete(missing: str) -> str:
    return f"waits until it has all {missing}"


def format_ending_pods(pods: Sequence[Pod]) -> str:
    return f"waits for its earlier pods: {format_ending(pods)}"


def format_unreadable(reason: str) -> str:
    return f"held back: {reason}"


def format_backoff(history: RetryHistory) -> str:
    """Of a gang that waits for its next try."""
    return shared.format_backoff(history, kept="holds no capacity")


def format_refusal(history: RetryHistory) -> str:
    """Of a gang that no further try can help."""
    fix = f"change its object or create it anew, or remove the annotation {REFUSED} from its pod to try again"
    return f"refused: {history.refused}. Fix: {fix}"


def format_preempting(taking: str | None) -> str:
    """Of a gang that passes for KAI to make room. `taking`: how, where that was just decided."""
    return f"{RELEASED}: KAI makes room for it" + (f", {taking}" if taking else "")


def format_ungated(gang: Gang) -> str:
    came = shared.format_provisioned(gang) if gang.request_specs else "nothing to provision"
    return f"{RELEASED}: {came}"
