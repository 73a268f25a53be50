"""What to do about a gang that runs.

It queues again as a whole when its capacity was revoked, or when nodes have been missing for longer than the
policy allows: a consumed request buys no others. A run that was short counts as a failed try: its nodes do
not last, and to start again at once would buy the next ones for nothing. A silent node has a grace of its
own, and stays the gang's while most nodes are silent. Also announces the end of its lease, and ends the
bookkeeping of earlier attempts.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from muster.controller.gangs.actions import Delete, EmitEvent, deletions
from muster.controller.gangs.assembly import delete_all
from muster.controller.gangs.identity import ATTEMPT
from muster.controller.gangs.lease import CLOCK_SKEW, first_end
from muster.controller.gangs.missing import missing
from muster.controller.gangs.outages import is_silent
from muster.controller.gangs.progress import format_missing, format_release, format_silent
from muster.controller.gangs.reasons import loss
from muster.controller.gangs.retry import RetryHistory, next_attempt, switch_flavor, truncate_seconds
from muster.controller.gangs.verify import Placement
from muster.controller.kueue import scale_up
from muster.controller.kueue.actions import Action, Deactivate, Decision, PatchAnnotations, State
from muster.controller.kueue.flavor_fallback import next_flavor
from muster.controller.kueue.scale_up import is_claimed, recheck_claims_at, remove_claims
from muster.controller.kueue.snapshot import WorkloadSnapshot, set_check_state
from muster.model.gangpolicy import GangPolicy, OnStockOut
from muster.model.quantities import format_duration
from muster.model.waiting import clock, refused, rounded

RECHECK_INTERVAL: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loss:
    """The nodes that a gang lacks. It queues again as a whole `grace` after `since`."""

    placements: Sequence[Placement]
    since: datetime
    grace: timedelta
    is_silent: bool
    """They exist, and nothing is heard of them."""

    @property
    def ends(self) -> datetime:
        return self.since + self.grace

    def __str__(self) -> str:
        return format_silent(self.placements) if self.is_silent else format_missing(self.placements)


def while_running(snapshot: WorkloadSnapshot) -> Decision:
    """The gang has its nodes, or had them."""
    stale = _delete_stale(snapshot)
    policy = snapshot.policy or GangPolicy()
    lost = _loss(snapshot, policy)
    if back := _revoked(snapshot, policy) or _given_up(snapshot, policy, lost):
        return replace(back, actions=(*stale, *back.actions))
    # Without a policy or its flavors it is unknown whether the nodes are back.
    is_known = snapshot.policy is not None and not snapshot.unresolved_flavor
    since = lost.since if lost else None
    missing_since = since if is_known else snapshot.history.nodes_missing
    next_history = replace(
        _carried_history(snapshot, policy),
        nodes_missing=missing_since,
        lease_ends=_announced_end(snapshot, policy),
    )
    wakes = [lost.ends] if lost else []
    wakes += [notice] if (notice := notice_at(snapshot, policy)) else []
    wakes += [lasts] if (lasts := _lasts_at(snapshot, policy)) and next_history.tries else []
    # A node that is drained loses its pods without a word to us.
    wakes += (
        [snapshot.now + RECHECK_INTERVAL]
        if snapshot.surroundings.lacks_pods and snapshot.surroundings.used
        else []
    )
    # Not for a moment that has passed: a start that was missed so long ago is not checked again.
    admitted = snapshot.workload.status.since("Admitted")
    look_at = (
        admitted + policy.node_loss_grace if snapshot.surroundings.is_unseen and admitted else snapshot.now
    )
    wakes += [look_at] if look_at > snapshot.now else []
    cleaned: tuple[Action, ...] = ()
    if is_claimed(snapshot):
        cleaned = remove_claims(snapshot, history=replace(next_history, unclaimed=snapshot.labels[ATTEMPT]))
        wakes += [recheck_claims_at(snapshot)]
    return Decision(
        actions=(*stale, *_record(snapshot, next_history, lost), *cleaned),
        requeue_at=min(wakes, default=None),
        waits_for_nodes=lost is not None,
    )


def notice_at(snapshot: WorkloadSnapshot, policy: GangPolicy) -> datetime | None:
    """When the end of its lease is announced; None where it has been, or there is none."""
    ends = _end(snapshot)
    notice = ends - policy.lease_notice if ends and policy.lease_notice else None
    return notice if notice and notice > snapshot.now else None


def _announced_end(snapshot: WorkloadSnapshot, policy: GangPolicy) -> datetime | None:
    """The end of its lease, once it is near enough to be announced."""
    is_known = policy.lease_notice and notice_at(snapshot, policy) is None
    return _end(snapshot) if is_known else None


def _end(snapshot: WorkloadSnapshot) -> datetime | None:
    return first_end(claim.annotations for each in snapshot.carried.values() for claim in each)


def _delete_stale(snapshot: WorkloadSnapshot) -> tuple[Delete, ...]:
    """What is left of earlier attempts, and the placeholders. A second replica that lives in the past may
    have made it after the gang had started.
    """
    requests = [request for request in snapshot.requests if request not in snapshot.attempted]
    mine = snapshot.labels[ATTEMPT]
    templates = [each for each in snapshot.templates if each.metadata.labels.get(ATTEMPT) != mine]
    return deletions(requests, templates, snapshot.placeholders)


def while_scaling_up(snapshot: WorkloadSnapshot) -> Decision | None:
    """What ends a scale-up because of the part that ran before; None while that is intact."""
    policy = snapshot.policy or GangPolicy()
    lost = _loss(snapshot, policy)
    if back := _revoked(snapshot, policy) or _given_up(snapshot, policy, lost):
        return back
    since = lost.since if lost else None
    kept = replace(snapshot.history, nodes_missing=since, lease_ends=_announced_end(snapshot, policy))
    recorded = _record(snapshot, kept, lost)
    if lost:
        # Requests stay; no new one is made while it is unknown whether the gang is complete.
        return Decision(actions=recorded, requeue_at=lost.ends, waits_for_nodes=True)
    return Decision(actions=recorded) if recorded else None


def _carried_history(snapshot: WorkloadSnapshot, policy: GangPolicy) -> RetryHistory:
    """What stays noted of a gang that runs: failed tries until it has run for long enough."""
    history = snapshot.history
    kept = RetryHistory(avoid=history.avoid, unclaimed=history.unclaimed)
    if snapshot.keeps_quota:
        # The number of attempts is part of the names of its requests, which are in use.
        return replace(kept, tries=history.tries)
    if not history.tries or _lasts_at(snapshot, policy) is None:
        return kept
    return replace(kept, tries=history.tries, first_try=history.first_try, last_failure=history.last_failure)


def _lasts_at(snapshot: WorkloadSnapshot, policy: GangPolicy) -> datetime | None:
    """When its run is no short one any more; None once it is not. Runs that each outlast the longest backoff
    start no more often than a gang that always fails. Of a cluster that was scaled, a part may have run for
    long; MultiKueue dispatches a gang anew wherever it likes.
    """
    admitted = snapshot.workload.status.since("Admitted")
    if admitted is None or snapshot.keeps_quota or snapshot.earlier_slices:
        return None
    lasts = admitted + policy.retry.max
    ends = _end(snapshot)
    is_over = snapshot.now >= lasts or (ends is not None and snapshot.now >= ends - CLOCK_SKEW)
    return None if is_over else lasts


def _revoked(snapshot: WorkloadSnapshot, policy: GangPolicy) -> Decision | None:
    own = snapshot.attempted if snapshot.is_admitted else ()
    requests = (*own, *(each for before in snapshot.earlier_slices for each in before.requests))
    failed = next((found for each in requests if (found := loss(each, admitted=True))), None)
    if failed is None:
        return None
    return _queue_again(snapshot, policy, str(failed), reason="CapacityRevoked")


def _given_up(snapshot: WorkloadSnapshot, policy: GangPolicy, lost: _Loss | None) -> Decision | None:
    if lost is None or snapshot.now < lost.ends:
        return None
    what = f"{lost} for {rounded(snapshot.now - lost.since)}"
    return _queue_again(snapshot, policy, what, reason="NodesLost")


def _queue_again(snapshot: WorkloadSnapshot, policy: GangPolicy, what: str, *, reason: str) -> Decision:
    """Kueue evicts the gang as a whole. It queues again at once; after a short run when its backoff ends."""
    admitted = snapshot.workload.status.since("Admitted")
    if admitted is not None and _lasts_at(snapshot, policy) is not None:
        ran = rounded(snapshot.now - admitted)
        failed = release_and_retry(
            snapshot, policy, f"{what}; it ran for {ran}, which counts as a failed try"
        )
        return replace(failed, actions=(*failed.actions, _warn(reason, f"{what}, {ran} after its start")))
    return Decision(
        actions=(
            *set_check_state(snapshot, State.RETRY, f"{what}; the gang queues again"),
            _warn(reason, f"{what}. The gang queues again."),
        )
    )


def _loss(snapshot: WorkloadSnapshot, policy: GangPolicy) -> _Loss | None:
    """What is gone, or else what has been silent; None where the policy waits for it without end."""
    around = snapshot.surroundings
    if not around.lacks_pods:
        return None
    silent = {node.metadata.name for node in around.nodes if is_silent(node)}
    placements, grace = _missing_placements(snapshot, silent), policy.node_loss_grace
    is_gone = bool(placements)
    if not is_gone and silent:
        placements, grace = _missing_placements(snapshot, around.in_outage), policy.unreachable_grace
    if not placements or grace <= timedelta(0):
        return None
    since = min(snapshot.history.nodes_missing or snapshot.now, truncate_seconds(snapshot.now))
    return _Loss(placements=placements, since=since, grace=grace, is_silent=not is_gone)


def _missing_placements(snapshot: WorkloadSnapshot, spared: Collection[str]) -> Sequence[Placement]:
    """PodSets that lack nodes. A bad quantity was reported before it was admitted: it is skipped here."""
    try:
        return missing(
            snapshot.expected_gang,
            snapshot.carried,
            nodes=snapshot.surroundings.nodes,
            pods=snapshot.surroundings.own_pods,
            used=snapshot.surroundings.used,
            ended=snapshot.ended,
            spared=spared,
        )
    except ValueError:
        return ()


def _record(snapshot: WorkloadSnapshot, next_history: RetryHistory, lost: _Loss | None) -> tuple[Action, ...]:
    history = snapshot.history
    if next_history == history:
        return ()
    events: list[Action] = []
    if lost and not history.nodes_missing:
        limit = format_duration(lost.grace)
        message = f"{lost}; unless they come back, the gang queues again at {clock(lost.ends)}, {limit} after"
        events.append(_warn("NodesMissing", message))
    if history.nodes_missing and not next_history.nodes_missing:
        events.append(_back(snapshot))
    if next_history.lease_ends and next_history.lease_ends != history.lease_ends:
        at = clock(next_history.lease_ends, far=True)
        events.append(
            _warn(
                "LeaseEnds", f"its nodes are taken back at {at}; it queues again then. Save its work before"
            )
        )
    return (PatchAnnotations(history=next_history), *events)


def _back(snapshot: WorkloadSnapshot) -> EmitEvent:
    if snapshot.surroundings.in_outage:
        message = "most nodes do not report: the gang is not changed until they do"
        return _warn("NodesSilent", message)
    return EmitEvent(kind="Normal", reason="NodesBack", message="every pod has a node again")


def _warn(reason: str, message: str) -> EmitEvent:
    return EmitEvent(kind="Warning", reason=reason, message=message)


# How an attempt ends: release everything, then retry, try another flavor, or refuse.
#
# Responsible for the order of the writes: the history comes first, because a crash during the deletions is
# finished from it. Scale-ups of elastic gangs end differently: scale_up.py.


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
    """The history first: after a crash during the deletions it is what they are finished from. The Event
    next: no later decision has it, should a deletion fail.
    """
    event = EmitEvent(kind="Warning", reason=reason, message=message)
    actions: tuple[Action, ...] = (Deactivate(history=history), event, *delete_all(snapshot))
    return Decision(actions=actions, requeue_at=history.retry_at)
