"""Computes the next writes for one Workload: the gang-admission check itself.

Pure: depends only on API objects and the current time, so that after a crash the same objects lead to the
same decision. Either the gang becomes fully provisioned or it holds no capacity.

    waiting for quota (without_quota.py)
      -> requesting, scarcest pool first, the next when it is Accepted   (turn_order.py)
      -> all Provisioned, nodes verified                                 (verify.py)
      -> Ready: Kueue admits and starts the job                          (running.py)
    A failure or a passed deadline on the way releases every request and leaves the quota until the next
    attempt (running.py). A gang that runs and loses its nodes queues again.

Invariants: never Ready before every request is provisioned and every node verified; never Retry on a Workload
that is being evicted; no refusal of what may pass; no write when nothing has changed.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Final

from muster.controller.gangs.actions import CreateRequest, EmitEvent, deletions
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
    without_policy,
)
from muster.controller.gangs.capacity_claims import PodClaim, carried_claim
from muster.controller.gangs.create_errors import CreateRejected, failure_of
from muster.controller.gangs.deadlines import (
    SETTLED_AFTER,
    Deadline,
    ready_deadline,
    settles_at,
    words_last_until,
)
from muster.controller.gangs.identity import ATTEMPT, promised_by, request_of_placeholder
from muster.controller.gangs.placeholder_sets import PlaceholderSet
from muster.controller.gangs.progress import format_provisioned, format_wait
from muster.controller.kueue import scale_up
from muster.controller.kueue.actions import Action, Decision, PatchAnnotations, SetCheckState, State
from muster.controller.kueue.objects import PodSetUpdate
from muster.controller.kueue.running import (
    notice_at,
    refuse,
    release_and_retry,
    try_next_flavor,
    while_running,
    while_scaling_up,
)
from muster.controller.kueue.scale_up import remove_claims
from muster.controller.kueue.snapshot import WorkloadSnapshot, set_check_state, set_pending
from muster.controller.kueue.without_quota import (
    activated,
    clear_check_state,
    inactive,
    queued,
    stopped,
    stranded,
)
from muster.model.gangpolicy import GangPolicy
from muster.model.names import POD_SET_LABEL
from muster.model.quantities import format_duration

FLAVOR_CACHE_GRACE: Final = timedelta(minutes=1)
"""After this time a missing flavor is no longer explained by a cache that lags."""

KUEUE_STARTS_WITHIN: Final = timedelta(seconds=30)
"""After this time a gang that is Ready counts as held up: Kueue is away."""

Phase = Callable[[WorkloadSnapshot], Decision | None]


def decide(snapshot: WorkloadSnapshot) -> Decision:
    """Return the decision of the first phase that applies: no action where everything is as it should be."""
    return next(decision for phase in PHASES if (decision := phase(snapshot)) is not None)


def after_rejection(snapshot: WorkloadSnapshot, rejected: CreateRejected) -> Decision:
    """End the attempt whose create was rejected. `snapshot` was read after the rejection."""
    policy = snapshot.policy
    if policy is None or not snapshot.is_provisioning or snapshot.labels[ATTEMPT] != rejected.attempt:
        return Decision(requeue_at=snapshot.now)  # It has changed meanwhile.
    match failure_of(rejected):
        case Unsatisfiable(reason=reason):
            return refuse(snapshot, reason)
        case AttemptFailed(failure=failure):
            return release_and_retry(snapshot, policy, failure)


# The phases, in the order in which they are tried


def _finished(snapshot: WorkloadSnapshot) -> Decision | None:
    if not snapshot.is_finished:
        return None
    if snapshot.has_running_successor:
        return Decision(actions=deletions((), (), snapshot.placeholders))
    return Decision(actions=delete_all(snapshot))


def _avoiding_flavors(snapshot: WorkloadSnapshot) -> Decision | None:
    """Kueue has not put our check on it yet, and it must not avoid flavors forever."""
    is_avoiding = snapshot.check_state is None and snapshot.history.avoid and not snapshot.is_reserved
    return queued(snapshot) if is_avoiding else None


def _check_removed(snapshot: WorkloadSnapshot) -> Decision | None:
    """The next controller requests again: capacity that stays here would be held twice and never released."""
    if snapshot.check_state is not None and (not snapshot.check_is_being_removed or snapshot.is_admitted):
        return None
    if (given_back := _give_quota_back(snapshot)) is not None:
        return given_back
    return Decision(actions=(*_release_deleted(snapshot), *delete_all(snapshot)))


def _give_quota_back(snapshot: WorkloadSnapshot) -> Decision | None:
    """Kueue keeps a deleted check while queues name it, and goes on giving quota under it: the gang waits
    outside the quota. A scale-up has the quota of a gang that runs, and keeps it.
    """
    is_answered = snapshot.state in ("", State.RETRY, State.REJECTED)
    if is_answered or not snapshot.has_quota or snapshot.check_is_gone or snapshot.keeps_quota:
        return None
    failure = f"{_removal(snapshot)}: nothing is requested. Fix: {_REMOVAL_FIX}"
    released = release_and_retry(snapshot, snapshot.policy or GangPolicy(), failure)
    # Clear Ready first, so that Kueue cannot start the gang on capacity that is being released.
    clear = set_pending(snapshot, failure) if snapshot.state == State.READY else ()
    return replace(released, actions=(*clear, *released.actions))


def _stopped_running(snapshot: WorkloadSnapshot) -> Decision | None:
    """Remove what was noted while it ran."""
    history = snapshot.history
    if snapshot.is_admitted or snapshot.is_scale_up or not (history.nodes_missing or history.lease_ends):
        return None
    return Decision(
        actions=(PatchAnnotations(history=replace(history, nodes_missing=None, lease_ends=None)),)
    )


def _answered(snapshot: WorkloadSnapshot) -> Decision | None:
    """Retry and Rejected are final answers: Kueue evicts."""
    return Decision() if snapshot.state in (State.RETRY, State.REJECTED) else None


def _running(snapshot: WorkloadSnapshot) -> Decision | None:
    if not snapshot.is_admitted:
        return None
    if snapshot.state == State.READY:
        return scale_up.uncounted(snapshot) or while_running(snapshot)
    # Its queue got this check while it ran. Requesting its capacity would buy it a second time.
    message = "ran before this check came; nothing is requested"
    return Decision(actions=_set_ready(snapshot, message, _claims_of_pods(snapshot)))


def _claims_of_pods(snapshot: WorkloadSnapshot) -> Mapping[str, PodClaim]:
    """What its own pods carry of this attempt, by PodSet: the queue may have had this check before, and what
    it gave them went with its answer.
    """
    specs = {snapshot.request_name(spec): spec for spec in snapshot.gang.request_specs}
    found: dict[str, PodClaim] = {}
    for pod in snapshot.surroundings.own_pods:
        notes = pod.metadata.annotations
        if spec := specs.get(promised_by(notes)):
            pod_sets = [demand.pod_set for demand in spec.demands]
            name = pod.metadata.labels.get(POD_SET_LABEL, pod_sets[0])
            if name in pod_sets:
                found[name] = carried_claim(pod, name, spec)
    return found


def _with_unresolved_flavor(snapshot: WorkloadSnapshot) -> Decision | None:
    """It is unknown where its pods would go: nothing is requested, and the quota is held only as long as a
    cache may lag behind a new flavor. The next quota may be for another flavor.
    """
    if not snapshot.unresolved_flavor:
        return None
    policy = snapshot.policy or GangPolicy()
    # A scale-up never leaves its quota, so its time starts again with each attempt.
    since = scale_up.attempt_started(snapshot) if snapshot.keeps_quota else snapshot.began
    limit = Deadline(since + min(policy.queue_timeout, FLAVOR_CACHE_GRACE), since, "queueTimeout")
    if limit.at <= snapshot.now:
        return release_and_retry(snapshot, policy, snapshot.unresolved_flavor)
    message = format_wait(f"requests nothing: {snapshot.unresolved_flavor}", limit)
    return Decision(actions=(*set_pending(snapshot, message), *delete_all(snapshot)), requeue_at=limit.at)


def _without_policy(snapshot: WorkloadSnapshot) -> Decision | None:
    """What it needs is unknown. Its quota is bounded all the same. The time counts from when the policy was
    missed: after a bad edit a gang keeps its place in the cloud's queue.
    """
    if snapshot.policy is not None:
        return None
    length, check_state = GangPolicy().queue_timeout, snapshot.check_state
    limit = format_duration(length)
    said = set_pending(snapshot, f"waits for an accepted GangPolicy (see its conditions) (limit {limit})")
    # The time of a check that is Pending is that of its words.
    written = check_state.last_transition_time if check_state else None
    since = snapshot.now if said else min(written or scale_up.attempt_started(snapshot), snapshot.now)
    if since + length <= snapshot.now:
        return release_and_retry(snapshot, GangPolicy(), "there is no accepted GangPolicy")
    released, until = without_policy(snapshot, since=since)
    return Decision(actions=(*said, *released), requeue_at=until or since + length)


def _provisioning(snapshot: WorkloadSnapshot) -> Decision:
    try:
        return _assemble(snapshot, snapshot.policy or GangPolicy())
    except ValueError as error:
        return refuse(snapshot, f"the Workload cannot be read: {error}")


_REMOVAL_FIX: Final = "run `pulumi up`, which creates the check again, or remove it from the ClusterQueue"

PHASES: Final[tuple[Phase, ...]] = (
    _finished,
    stopped,
    inactive,
    activated,
    stranded,
    _avoiding_flavors,
    _check_removed,
    _stopped_running,
    queued,
    _answered,
    _running,
    _with_unresolved_flavor,
    _without_policy,
    _provisioning,
)


# Pieces


def _release_deleted(snapshot: WorkloadSnapshot) -> tuple[Action, ...]:
    """Report first that nothing is requested: Kueue must not start the gang on capacity being released. A
    check that does not exist makes its queue inactive, so that no quota follows the quota that is given back.
    """
    if not snapshot.has_quota:
        return clear_check_state(snapshot)
    if snapshot.check_state is None or snapshot.check_state.state in (State.RETRY, State.REJECTED):
        return ()
    message = f"{_removal(snapshot)}: nothing is requested. Fix: {_REMOVAL_FIX}"
    if snapshot.keeps_quota:
        return set_pending(snapshot, message)
    event = EmitEvent(kind="Warning", reason="GangReleased", message=message)
    return (*set_check_state(snapshot, State.RETRY, message), event)


def _removal(snapshot: WorkloadSnapshot) -> str:
    what = "does not exist" if snapshot.check_is_gone else "is being deleted"
    return f"AdmissionCheck {snapshot.check} {what}"


def _assemble(snapshot: WorkloadSnapshot, policy: GangPolicy) -> Decision:
    """One step towards a complete gang, or the end of the attempt."""
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
        return Decision(actions=(*delete_all(snapshot), *_set_ready(snapshot, "nothing to provision", {})))
    if reason := scale_up.refusal(snapshot):
        return refuse(snapshot, reason)
    match next_step(snapshot, policy, since=scale_up.attempt_started(snapshot)):
        case Unsatisfiable(reason=reason):
            return refuse(snapshot, reason)
        case AttemptFailed(failure=failure, exhausted=exhausted):
            return try_next_flavor(snapshot, policy, failure, exhausted) or release_and_retry(
                snapshot, policy, failure
            )
        case CreateNext(actions=creates, limit=limit):
            cleared = (*_clear_ready(snapshot), *delete_outdated(snapshot))
            return Decision(
                actions=(*cleared, *creates),
                requeue_at=min(limit.at, snapshot.now + SETTLED_AFTER),
                # The cloud has to accept a request first; nobody has to accept placeholders.
                is_final=not (cleared or snapshot.is_scale_up) and type(creates[-1]) is CreateRequest,
            )
        case ReleaseEarly(releases=releases, event=event, history=next_history, limit=limit):
            return Decision(
                actions=(
                    *_clear_ready(snapshot),
                    PatchAnnotations(history=next_history),
                    *delete_outdated(snapshot),
                    *releases,
                    event,
                ),
                requeue_at=limit.at,
            )
        case HoldNodes(holds=holds, event=event, limit=limit):
            cleared = (*_clear_ready(snapshot), *delete_outdated(snapshot))
            return Decision(actions=(*cleared, *holds, event), requeue_at=limit.at)
        case Wait() as step:
            return _wait(snapshot, step)
        case Ready(claims=claims):
            return _ready(snapshot, policy, claims)


def _ready(snapshot: WorkloadSnapshot, policy: GangPolicy, claims: Mapping[str, PodClaim]) -> Decision:
    message = format_provisioned(snapshot.gang)
    actions = _set_ready(snapshot, message, claims)
    check_state = snapshot.check_state
    written = check_state.last_transition_time if check_state and check_state.state == State.READY else None
    since = written or snapshot.now
    limit = ready_deadline(snapshot.current.values(), since=since, policy=policy, now=snapshot.now)
    if not actions and limit.at <= snapshot.now:
        # Other checks keep Kueue from admitting it, and the booking does not wait for them.
        return release_and_retry(
            snapshot, policy, deadline_exceeded(limit, _why_not_started(snapshot)).failure
        )
    # A gang that never had to report a wait has no Event either: its pods are the news.
    has_waited = check_state is not None and check_state.state == State.PENDING and check_state.message
    is_news = actions and has_waited
    event = (EmitEvent(kind="Normal", reason="GangReady", message=message),) if is_news else ()
    # The placeholders go first: a namespace's quota may have no room for them and the gang's own pods.
    # Those of a set stay until Kueue has admitted the gang: their nodes would be empty.
    sets = {each.metadata.name for each in snapshot.current.values() if isinstance(each, PlaceholderSet)}
    freed = deletions(
        (),
        (),
        (each for each in snapshot.placeholders if request_of_placeholder(each.metadata.name) not in sets),
    )
    clean = remove_claims(snapshot) if actions else ()
    cleaned: tuple[Action, ...] = (*freed, *delete_outdated(snapshot), *clean)
    starts_by = since + KUEUE_STARTS_WITHIN
    # Its nodes may change meanwhile. The clock of whoever answered may be ahead of ours.
    is_held_up = any(_blocking_checks(snapshot)) or not since <= snapshot.now < starts_by
    return Decision(
        actions=(*cleaned, *actions, *event),
        requeue_at=limit.at if is_held_up else min(limit.at, starts_by),
        waits_for_nodes=is_held_up,
        is_final=not (cleaned or snapshot.is_scale_up),
    )


def _why_not_started(snapshot: WorkloadSnapshot) -> str:
    """Of a gang that is Ready."""
    others = ", ".join(_blocking_checks(snapshot))
    return f"it was Ready, but not {others}" if others else "it was Ready, and Kueue did not admit it"


def _blocking_checks(snapshot: WorkloadSnapshot) -> Iterator[str]:
    """The other checks that keep it from its start."""
    entries = snapshot.workload.status.admission_checks
    return (each.name for each in entries if each.name != snapshot.check and each.state != State.READY)


def _set_ready(
    snapshot: WorkloadSnapshot, message: str, claims: Mapping[str, PodClaim]
) -> tuple[SetCheckState, ...]:
    updates = tuple(
        PodSetUpdate(
            name=name,
            annotations=dict(claim.annotations),
            node_selector=dict(claim.node_selector),
            tolerations=claim.tolerations,
        )
        for name, claim in {**scale_up.inherited_claims(snapshot), **claims}.items()
    )
    attempt = snapshot.labels[ATTEMPT] if claims and not snapshot.is_admitted else ""
    return set_check_state(snapshot, State.READY, message, updates=updates, attempt=attempt)


def _clear_ready(snapshot: WorkloadSnapshot) -> tuple[Action, ...]:
    """Kueue must not admit the gang onto lost capacity while it is requested again."""
    if snapshot.state != State.READY:
        return ()
    return set_pending(snapshot, "provisioned capacity was lost; requesting it again")


def _wait(snapshot: WorkloadSnapshot, step: Wait) -> Decision:
    """Report why, once it is clear that the gang does not go on at once."""
    message = format_wait(step.status, step.limit)
    moments = [step.limit.at, *([step.requeue_at] if step.requeue_at else [])]
    reported: tuple[Action, ...] = set_pending(snapshot, message)
    check_state = snapshot.check_state
    is_new = check_state is None or not check_state.message
    report_at = settles_at(snapshot.last_change, now=snapshot.now, since=snapshot.last_answer)
    if check_state and not is_new:
        kept = words_last_until(check_state.last_transition_time, now=snapshot.now)
        report_at = max(filter(None, (report_at, kept)), default=None)
    if reported and report_at and snapshot.state == State.PENDING:
        reported, moments = (), [*moments, report_at]
    # The first report is an Event too: users look at their job, not at its Workload.
    is_first = reported and check_state is not None and is_new
    event = (EmitEvent(kind="Normal", reason="GangWaiting", message=message),) if is_first else ()
    # Clear Ready before deleting requests: Kueue must not start the gang on capacity being released.
    cleared = (*reported, *event, *delete_outdated(snapshot), *step.releases)
    return Decision(
        actions=(*cleared, *step.prepares),
        requeue_at=min(moments),
        waits_for_nodes=step.for_nodes,
        is_final=bool(step.prepares) and not cleared,
    )
