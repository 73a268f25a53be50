"""What to do about a scale-up of an elastic gang, beside what is done about every gang.

The slice that scales up holds the quota of the whole gang, and evicting or deactivating it would stop the
pods that already run (Kueue suspends the cluster). So a failed scale-up releases its requests, keeps its
quota and stays Pending until its next attempt: running pods are not touched. It ends when the cluster
requests fewer pods, which Kueue writes into the same slice. A refused scale-up stays refused until its
request or its limits change. A gang on a MultiKueue worker backs off and is refused in the same way
(`keeps_quota`): the manager would delete a Workload that is deactivated here.

    the slice before is finished, and what runs of it is counted and recorded
      -> the backoff of its last attempt has ended, and its retry token is due
      -> as every gang (decide.py)
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from muster.controller.gangs.actions import EmitEvent
from muster.controller.gangs.assembly import delete_all
from muster.controller.gangs.capacity_claims import PodClaim
from muster.controller.gangs.identity import ATTEMPT
from muster.controller.gangs.limits import subject_of
from muster.controller.gangs.progress import format_backoff
from muster.controller.gangs.retry import RetryHistory, next_attempt, truncate_seconds
from muster.controller.kueue.actions import (
    Action,
    Decision,
    PatchAnnotations,
    RecordRunningPods,
    RemoveClaims,
)
from muster.controller.kueue.clusters import WHOLE_RAY_CLUSTER
from muster.controller.kueue.slices import replaces
from muster.controller.kueue.snapshot import WorkloadSnapshot, set_pending
from muster.model.gangpolicy import GangPolicy
from muster.model.names import ELASTIC_JOB
from muster.model.quantities import format_duration

RECHECK_INTERVAL: Final = timedelta(seconds=5)
_RECHECK_AT_MOST: Final = timedelta(minutes=10)
REPLACED_WITHIN: Final = timedelta(minutes=10)
"""Kueue finishes a slice in the step that gives its successor quota."""
_NEVER: Final = timedelta(days=36_500)
"""On a worker no gang is given up: it would hold its quota and try no more. Its manager decides."""


def remove_claims(
    snapshot: WorkloadSnapshot, *, history: RetryHistory | None = None
) -> tuple[RemoveClaims, ...]:
    """An elastic gang's pods get their claims one scale-up at a time: its templates must hold none."""
    if not snapshot.is_elastic:
        return ()
    flavors = snapshot.policy.flavors if snapshot.policy else ()
    pins = {pin.key for flavor in flavors for pin in flavor.node_selector_from_details}
    # Also where no policy is accepted at the moment: these templates are not checked a second time.
    pins |= {key for claims in snapshot.carried.values() for claim in claims for key in claim.node_selector}
    return (RemoveClaims(selectors=tuple(sorted(pins)), history=history),)


def is_claimed(snapshot: WorkloadSnapshot) -> bool:
    """It runs, and its templates have not been cleaned since it was started."""
    return snapshot.is_elastic and snapshot.history.unclaimed != snapshot.labels[ATTEMPT]


def recheck_claims_at(snapshot: WorkloadSnapshot) -> datetime:
    """When the cluster of a gang that runs is read again: no watch of ours shows that it is started. After a
    quarter of the time that it has taken already, because one that never starts would be read for ever.
    """
    taken = snapshot.now - (snapshot.workload.status.since("Admitted") or snapshot.now)
    return snapshot.now + min(max(taken / 4, RECHECK_INTERVAL), _RECHECK_AT_MOST)


def inherited_claims(snapshot: WorkloadSnapshot) -> Mapping[str, PodClaim]:
    """The claims of PodSets that grow no further: a pod of theirs that is made again goes where they are."""
    found: dict[str, PodClaim] = {}
    for before in snapshot.earlier_slices:
        for name, claim in before.claims.items():
            found.setdefault(name, claim)
    return found


def before_requesting(snapshot: WorkloadSnapshot) -> Decision | None:
    """What keeps a slice that replaces another from asking now; None where nothing does."""
    if snapshot.base.is_open:
        return _while_open(snapshot)
    if (waits := uncounted(snapshot)) is not None:
        return waits
    if not (snapshot.keeps_quota and snapshot.gang.request_specs):
        return None
    return _between_attempts(snapshot) or _while_placing(snapshot)


def refusal(snapshot: WorkloadSnapshot) -> str:
    """Why its growths would fail, from its first start; empty where they need not. A Job keeps the claim of
    its start in its template, and Kueue leaves pods with an older claim behind their gate.
    """
    placed = [spec.pool for spec in snapshot.gang.request_specs if spec.flavor.by_placeholders]
    owners = snapshot.workload.metadata.owner_references
    is_cluster = any(each.kind == WHOLE_RAY_CLUSTER.kind for each in owners if each.controller)
    if is_cluster or not (snapshot.is_elastic and placed):
        return ""
    what = f"pool {placed[0]} gets gangs by placeholders, and of elastic jobs RayClusters alone grow by them"
    fix = f"remove the annotation {ELASTIC_JOB}, or write `gangs: none` or `capacity: queued` for the pool"
    return f"{what}. Fix: {fix}"


def uncounted(snapshot: WorkloadSnapshot) -> Decision | None:
    """What it grows out of has to be known first; None where it is."""
    base = snapshot.base
    return None if base.is_counted else Decision(actions=(RecordRunningPods(most=base.most),))


def _while_open(snapshot: WorkloadSnapshot) -> Decision:
    """Until Kueue has finished it, the slice before may still be admitted and let pods go. Its end brings
    this one back, also after it was given up.
    """
    before = replaces(snapshot.workload)
    limit, length = snapshot.began + REPLACED_WITHIN, format_duration(REPLACED_WITHIN)
    if snapshot.now >= limit:
        what = f"Kueue has not finished the Workload {before}, which this one replaces, in {length}"
        return refuse(snapshot, f"{what}. Fix: see its conditions, and Kueue's log, for the reason")
    message = f"waits until Kueue finishes the Workload {before}, which this one replaces (limit {length})"
    return Decision(actions=set_pending(snapshot, message), requeue_at=limit)


def _while_placing(snapshot: WorkloadSnapshot) -> Decision | None:
    """Its placeholders would take nodes from pods that run, or are about to: they tolerate the same taint,
    which HeldNodes takes off in time.
    """
    if snapshot.current or not snapshot.surroundings.is_placing:
        return None
    message = "waits until what runs of it has its nodes"
    return Decision(
        actions=(*set_pending(snapshot, message), *delete_all(snapshot)),
        requeue_at=snapshot.now + RECHECK_INTERVAL,
    )


def _between_attempts(snapshot: WorkloadSnapshot) -> Decision | None:
    """A scale-up that has failed and waits; None where there is nothing to wait for."""
    history = snapshot.history
    if history.refused and history.refused_for != _subject(snapshot):
        return Decision(actions=(PatchAnnotations(history=_fresh_history(snapshot)),))
    if history.refused:
        message = _format_refusal(snapshot, history)
        return Decision(actions=(*set_pending(snapshot, message), *delete_all(snapshot)))
    if (clamped := snapshot.clamped_history) != history:
        return Decision(actions=(PatchAnnotations(history=clamped),))
    if history.retry_at is None or (snapshot.now >= history.retry_at and not snapshot.retry_delay):
        return None
    requeue_at = max(history.retry_at, snapshot.now + snapshot.retry_delay)
    return Decision(
        actions=(*set_pending(snapshot, _format_backoff(snapshot, history)), *delete_all(snapshot)),
        requeue_at=requeue_at,
    )


def _subject(snapshot: WorkloadSnapshot) -> str:
    """What a refusal of this scale-up depends on."""
    if not snapshot.base.is_counted:
        return "uncounted"
    try:
        return subject_of(snapshot.gang, snapshot.policy or GangPolicy())
    except ValueError:
        return ""  # There is nothing to compare until it can be read.


def _fresh_history(snapshot: WorkloadSnapshot) -> RetryHistory:
    """Without the refusal. Attempts are still counted: requests are named after them."""
    now = truncate_seconds(snapshot.now)
    tries = snapshot.history.tries + 1
    begun = replace(snapshot.history, tries=tries, first_try=now, retry_at=now, grows=True)
    return replace(begun, refused="", refused_for="", last_failure="")


def attempt_started(snapshot: WorkloadSnapshot) -> datetime:
    """When this attempt began: the deadlines of a scale-up start again with each; its quota stays."""
    began = (snapshot.history.retry_at if snapshot.keeps_quota else None, snapshot.quota_since)
    return max((moment for moment in began if moment), default=snapshot.now)


def release_and_retry(snapshot: WorkloadSnapshot, policy: GangPolicy, failure: str) -> Decision:
    """Release the requests, keep the quota, and retry later."""
    history = snapshot.history
    uid = snapshot.workload.metadata.uid
    next_history = next_attempt(
        history,
        uid=uid,
        began=snapshot.began,
        failure=failure,
        now=snapshot.now,
        policy=replace(policy.retry, deadline=_NEVER) if _is_whole(snapshot) else policy.retry,
        in_turn=snapshot.kept_turn,
    )
    if next_history.refused:
        return refuse(snapshot, next_history.refused)
    next_history = replace(next_history, grows=True, lease_ends=history.lease_ends)
    reason = "GangReleased" if _is_whole(snapshot) else "GrowthReleased"
    return _end(snapshot, next_history, reason, _format_backoff(snapshot, next_history))


def refuse(snapshot: WorkloadSnapshot, reason: str) -> Decision:
    """No attempt can satisfy it as it is."""
    history = replace(snapshot.history, refused=reason[:1000], refused_for=_subject(snapshot), retry_at=None)
    message = _format_refusal(snapshot, history)
    if history == snapshot.history:
        return Decision(actions=(*delete_all(snapshot), *set_pending(snapshot, message)))
    event = "GangRefused" if _is_whole(snapshot) else "GrowthRefused"
    return _end(snapshot, history, event, message)


def _end(snapshot: WorkloadSnapshot, history: RetryHistory, reason: str, message: str) -> Decision:
    event = EmitEvent(kind="Warning", reason=reason, message=message)
    # Clear Ready before deleting requests, so that Kueue cannot start the gang on capacity being released.
    actions: tuple[Action, ...] = (
        PatchAnnotations(history=history),
        event,
        *set_pending(snapshot, message),
        *delete_all(snapshot),
    )
    return Decision(actions=actions, requeue_at=history.retry_at)


def _format_backoff(snapshot: WorkloadSnapshot, history: RetryHistory) -> str:
    if _is_whole(snapshot):
        return format_backoff(history, kept="keeps its quota, as a MultiKueue worker must")
    return format_backoff(history, did="cannot grow yet", kept="running pods continue")


def _format_refusal(snapshot: WorkloadSnapshot, history: RetryHistory) -> str:
    if _is_whole(snapshot):
        return f"refused: {history.refused}. Fix: change or delete the job on the MultiKueue manager"
    fix = "" if "Fix:" in history.refused else " Fix: ask for fewer replicas."
    return f"cannot grow: {history.refused}. Running pods continue.{fix}".removesuffix(".")


def _is_whole(snapshot: WorkloadSnapshot) -> bool:
    """A gang of a MultiKueue worker, nothing of which runs."""
    return snapshot.is_remote and not snapshot.is_scale_up
