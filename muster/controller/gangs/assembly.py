"""Computes the next step of one attempt towards a fully provisioned gang.

The scarcest pool is requested first, the next when that is Accepted (turn_order.py); when all are Provisioned
the nodes are verified (verify.py); a failure or a passed deadline ends the attempt.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Final

from muster.controller.gangs import placeholders
from muster.controller.gangs.actions import (
    CreatePlaceholders,
    CreateRequest,
    CreateSet,
    CreateTemplates,
    Delete,
    EmitEvent,
    HoldNode,
    deletions,
)
from muster.controller.gangs.attempt import Attempt
from muster.controller.gangs.autoscaler_words import OUT_OF_STOCK
from muster.controller.gangs.capacity_claims import (
    PodClaim,
    capacity_claims_of,
    missing_detail,
    pins_of,
    pod_claims,
    unpinned_demand,
)
from muster.controller.gangs.deadlines import (
    Deadline,
    booking_end,
    deadline,
    place_deadline,
    stall_after,
    stalls_at,
)
from muster.controller.gangs.identity import (
    ATTEMPT,
    request_of_placeholder,
    request_of_template,
    template_name,
)
from muster.controller.gangs.indexes import lease_of
from muster.controller.gangs.limits import unsatisfiable_reason
from muster.controller.gangs.objects import PodTemplate, ProvisioningRequest
from muster.controller.gangs.placeholder_sets import PlaceholderSet, is_asked_by_pods
from muster.controller.gangs.progress import (
    format_capacity,
    format_ending,
    format_nodes,
    format_request,
    format_turn,
)
from muster.controller.gangs.reasons import STALLED, Loss, Outcome, loss
from muster.controller.gangs.retry import RetryHistory
from muster.controller.gangs.split import RequestSpec
from muster.controller.gangs.taints import closed_for
from muster.controller.gangs.vacated_leases import TakenLease, can_be_taken
from muster.controller.gangs.verify import Placement, verify
from muster.model.gangpolicy import GangPolicy
from muster.model.names import GKE_LEASE_LABEL, PLACEHOLDER_NAMESPACE
from muster.model.quantities import format_duration

TURN_RECHECK: Final = timedelta(minutes=1)
"""How often a gang that waits for its turn is reconciled in any case. The line does it when that comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsatisfiable:
    """No retry can succeed."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed:
    """This attempt has ended: release everything, retry later."""

    failure: str
    exhausted: str = ""
    """The pool that is out of stock, where that was the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Wait for `status` to change, once `releases` are deleted."""

    status: str
    limit: Deadline
    for_nodes: bool = False
    """Changes of its nodes bring it back."""
    for_turn: bool = False
    releases: tuple[Delete, ...] = ()
    prepares: tuple[CreateTemplates, ...] = ()
    """What can be written meanwhile, so that its turn takes one call."""
    requeue_at: datetime | None = None
    """When to reconcile again before the limit."""
    short_pool: str = ""
    """The pool that delays it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldNodes:
    """Hold nodes that came early until the rest is provisioned."""

    holds: tuple[CreatePlaceholders, ...]
    event: EmitEvent
    limit: Deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateNext:
    actions: tuple[CreateTemplates | CreateRequest | HoldNode, ...]
    limit: Deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Every request is Provisioned and every node is ready."""

    claims: Mapping[str, PodClaim]
    """What the pods of each PodSet are to carry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseEarly:
    """Release requests that cannot be used as they are, as those that came too early, and note it. They are
    made again.
    """

    releases: tuple[Delete, ...]
    event: EmitEvent
    history: RetryHistory
    limit: Deadline


Step = Unsatisfiable | AttemptFailed | Wait | CreateNext | Ready | ReleaseEarly | HoldNodes


def next_step(attempt: Attempt, policy: GangPolicy, *, since: datetime) -> Step:
    """Return the next step of a gang with at least one request. `since`: when it was first allowed to make
    one. Raises ValueError for a bad quantity.
    """
    if (reason := unsatisfiable_reason(attempt.gang)) is not None:
        return Unsatisfiable(reason=reason)
    failed = [
        found for request in attempt.attempted if (found := loss(request, admitted=False, held=policy.holds))
    ]
    if failed:
        worst = _decisive(failed)
        if worst.outcome is Outcome.REFUSE:
            return Unsatisfiable(reason=str(worst))
        return AttemptFailed(failure=str(worst), exhausted=_exhausted_pool(attempt, worst))
    limit = deadline(attempt.gang, attempt.current, quota_since=since, policy=policy, now=attempt.now)
    if not policy.holds and (early := _expiring(attempt, attempt.early, policy)):
        return _release_early(attempt, early, limit)
    step = _name_ending(attempt, _without_place(attempt, policy, since) or _provision(attempt, policy, limit))
    if isinstance(step, Ready) and not (policy.holds or attempt.may_have_started):
        early = _expiring(attempt, attempt.current.values(), policy)
        # The last part came too late for these: their nodes could go while the pods start.
        if 0 < len(early) < len(attempt.current):
            return _release_early(attempt, early, limit)
    limit = step.limit if isinstance(step, Wait) else limit
    stall = stalls_at(attempt.current.values(), policy, now=attempt.now)
    if not isinstance(step, Ready) and (failed_now := _out_of_time(attempt, policy, step, limit, stall)):
        return failed_now
    if not isinstance(step, Wait):
        return step
    if attempt.awaits_queue and not step.releases:
        # A cloud was asked again for what was lost: nodes of placeholders would be paid for meanwhile.
        placed = [spec for spec in attempt.gang.request_specs if spec.flavor.by_placeholders]
        step = replace(step, releases=_release(attempt, placed))
    if holds := placeholders.due(attempt, policy):
        return _hold_nodes(holds, limit)
    looks = (
        step.requeue_at,
        placeholders.next_due(attempt, policy),
        stall[0] if stall else None,
        *placeholders.resting(attempt).values(),
    )
    return replace(step, requeue_at=min((each for each in looks if each), default=None))


def _out_of_time(
    attempt: Attempt,
    policy: GangPolicy,
    step: Step,
    limit: Deadline,
    stall: tuple[datetime, PlaceholderSet] | None,
) -> AttemptFailed | None:
    if limit.at <= attempt.now:
        failed = replace(
            deadline_exceeded(limit, _lacking(attempt, step)), exhausted=_short_pool(attempt, step)
        )
    elif stall and stall[0] <= attempt.now:
        failure, why = f"{STALLED} in {format_duration(stall_after(policy))}", _lacking(attempt, step)
        failed = AttemptFailed(
            failure=f"{failure}: {why}" if why else failure, exhausted=_pool_of(attempt, stall[1])
        )
    else:
        return None
    is_sold_out = any(each.waits_for == OUT_OF_STOCK for each in placeholders.sets(attempt))
    return replace(failed, failure=f"{OUT_OF_STOCK}: {failed.failure}") if is_sold_out else failed


def _lacking(attempt: Attempt, step: Step) -> str:
    """What has not come; empty where nothing has been asked for."""
    if isinstance(step, Wait):
        return step.status
    late = attempt.late
    return _accepted_status(late, attempt.current[late.shape]) if late else ""


def _name_ending(attempt: Attempt, step: Step) -> Step:
    """Report what keeps nodes from it: pods whose end it waits for, which no quota counts any more, and signs
    of broken nodes.
    """
    if not isinstance(step, Wait) or step.for_turn:
        return step
    around = attempt.surroundings
    ending = format_ending(around.ending) if around.ending else ""
    status = "; ".join(filter(None, (step.status, ending, around.set_aside)))
    return replace(step, status=status, requeue_at=around.recheck_at)


def _decisive(failed: Sequence[Loss]) -> Loss:
    """What says what follows: a refusal, or else a pool that is empty, whatever has failed beside it."""
    outcomes = (Outcome.REFUSE, Outcome.NEXT_FLAVOR)
    return next((each for outcome in outcomes for each in failed if each.outcome is outcome), failed[0])


def _exhausted_pool(attempt: Attempt, failed: Loss) -> str:
    if failed.outcome is not Outcome.NEXT_FLAVOR:
        return ""
    return _pool_of(attempt, failed.request)


def _pool_of(attempt: Attempt, request: ProvisioningRequest) -> str:
    name = request.metadata.name
    return next((spec.pool for spec in attempt.gang.request_specs if attempt.request_name(spec) == name), "")


def _short_pool(attempt: Attempt, step: Step) -> str:
    """The pool whose nodes were not provisioned in time."""
    if attempt.late is not None:
        return attempt.late.pool
    return step.short_pool if isinstance(step, Wait) else ""


def deadline_exceeded(limit: Deadline, why: str) -> AttemptFailed:
    """End an attempt after its deadline. `why`: what it waited for, which its check no longer shows."""
    passed = f"{limit.clock} of {format_duration(limit.limit)} has passed"
    return AttemptFailed(failure=f"{passed}: {why}" if why else passed)


def delete_outdated(attempt: Attempt) -> tuple[Delete, ...]:
    """Delete requests of earlier attempts, and those of this one that the policy no longer makes."""
    kept = {request.metadata.name for request in attempt.current.values()}
    requests = [request for request in attempt.requests if request.metadata.name not in kept]
    outdated = [template for template in attempt.templates if template.metadata.name not in attempt.written]
    # One that has ended lends its name to the next when it is deleted, and keeps it for a pause.
    resting = placeholders.resting(attempt)
    stray = [
        item
        for item in attempt.placeholders
        if request_of_placeholder(item.metadata.name) not in kept
        or (item.status.has_ended and item.metadata.name not in resting)
    ]
    lost = [
        pod for each in placeholders.sets(attempt) for pod in each.lost if pod.metadata.name not in resting
    ]
    return deletions(requests, outdated, (*stray, *lost))


def delete_all(attempt: Attempt) -> tuple[Delete, ...]:
    return deletions(attempt.requests, attempt.templates, attempt.placeholders)


def without_policy(
    attempt: Attempt, *, since: datetime | None = None
) -> tuple[tuple[Delete, ...], datetime | None]:
    """What becomes of nodes that placeholders keep while no policy says what for, and until when they are
    kept: they are paid for. What a cloud has booked ends by itself. `since`: when the policy was missed;
    without it the last progress counts.
    """
    asked = [each for each in attempt.templates if is_asked_by_pods(each)]
    # Also of a set whose templates went before them: the deletion of one of its placeholders has failed.
    made = [
        pod.metadata.creation_timestamp
        for pod in attempt.placeholders
        if pod.metadata.namespace == PLACEHOLDER_NAMESPACE
    ]
    kept_since = since or attempt.last_progress or max(filter(None, made), default=None)
    if kept_since is None or not (asked or made):
        return (), None
    until = kept_since + stall_after(GangPolicy())
    if attempt.now < until:
        return (), until
    return deletions((), asked, attempt.placeholders), None


def pod_sets(spec: RequestSpec) -> str:
    return ", ".join(demand.pod_set for demand in spec.demands)


def _provision(attempt: Attempt, policy: GangPolicy, limit: Deadline) -> Step:
    if attempt.surroundings.must_give_way:
        return _give_way(attempt, limit)
    for spec in attempt.gang.request_specs:
        request = attempt.current.get(spec.shape)
        if spec.flavor.by_placeholders and attempt.awaits_queue:
            break
        if request is None:
            return _create_next(attempt, policy, spec, limit)
        if isinstance(request, PlaceholderSet) and request.lacks_pods(attempt.now):
            return _without_image(spec, policy, limit) or CreateNext(
                actions=(_create_request(attempt, policy, spec),), limit=limit
            )
        if not (request.status.holds("Accepted") or request.status.holds("Provisioned")):
            return Wait(status=f"asked for {format_request(spec)}", limit=limit)
        if attempt.is_in_turn and not request.status.holds("Provisioned"):
            break
    for spec in attempt.gang.request_specs:
        request = attempt.current[spec.shape]
        if isinstance(request, PlaceholderSet) and request.untainted:
            hold = partial(HoldNode, held_as=request.held_as, attempt=attempt.labels[ATTEMPT])
            return CreateNext(actions=tuple(hold(node=node) for node in request.untainted), limit=limit)
        if not request.status.holds("Provisioned"):
            return Wait(status=_accepted_status(spec, request), limit=limit)
        if detail := missing_detail(spec, request):
            status = f"{spec.pool} is provisioned, but does not report its {detail} yet"
            return Wait(status=status, limit=limit, short_pool=spec.pool)
    return _verify(attempt, limit)


def _without_place(attempt: Attempt, policy: GangPolicy, since: datetime) -> Wait | None:
    """Wait for room on existing nodes before anything is bought: capacity that came first would be paid for
    in vain. The place is looked for again when all nodes are there.
    """
    around = attempt.surroundings
    if attempt.current or around.must_wait or not around.is_surveyed:
        return None
    wanted = [unpinned_demand(demand) for demand in attempt.gang.placed_first]
    placements = verify(wanted, nodes=around.nodes, used=around.used, claims=around.claims)
    if all(placement.is_complete for placement in placements):
        return None
    limit = place_deadline(quota_since=since, policy=policy, now=attempt.now)
    return Wait(status=format_nodes(placements), limit=limit, for_nodes=True)


def _create_next(attempt: Attempt, policy: GangPolicy, spec: RequestSpec, limit: Deadline) -> Step:
    if attempt.surroundings.must_wait:
        return replace(_await_turn(attempt, spec, limit), prepares=tuple(_templates_ahead(attempt)))
    if lacks_image := _without_image(spec, policy, limit):
        return lacks_image
    if _is_name_taken(attempt, spec):
        return Wait(status=f"an outdated request for {spec.pool} is being deleted", limit=limit)
    return _take(attempt, spec, limit) or CreateNext(
        actions=(*_templates(attempt, spec), _create_request(attempt, policy, spec)), limit=limit
    )


def _without_image(spec: RequestSpec, policy: GangPolicy, limit: Deadline) -> Wait | None:
    """The API server would refuse pods without one, and the gang with them."""
    if not spec.flavor.by_placeholders or policy.placeholder_image:
        return None
    return Wait(status="the GangPolicy has no placeholderImage, an image that only waits", limit=limit)


def _take(attempt: Attempt, spec: RequestSpec, limit: Deadline) -> Step | None:
    """Nodes that another gang has left, before the cloud is asked for any."""
    if not can_be_taken(spec):
        return None
    name, labels, now = attempt.request_name(spec), attempt.request_labels(spec), attempt.now
    leases = [each for each in attempt.surroundings.vacated if each.pool == spec.pool]
    lease = next((each for each in leases if each.holds(spec, now=now)), None)
    status = f"takes {format_request(spec)} that another gang leaves"
    if lease is None:
        is_near = any(each.will_hold(spec, now=now) for each in leases)
        return Wait(status=status, limit=limit, for_nodes=True) if is_near else None
    if prepared := _own_templates(attempt, {name}):  # For a request.
        return Wait(status=status, limit=limit, releases=deletions((), prepared))
    notes = lease.notes(spec)
    return CreateNext(
        actions=(
            CreateTemplates(
                request=name, spec=spec, labels=labels, notes=notes, tries_pods=attempt.tries_pods
            ),
        ),
        limit=limit,
    )


def _own_templates(attempt: Attempt, requests: Collection[str]) -> list[PodTemplate]:
    """Those that were written for requests of these names."""
    return [each for each in attempt.templates if request_of_template(each.metadata.name) in requests]


def _templates_ahead(attempt: Attempt) -> Iterator[CreateTemplates]:
    """Of all its requests: the gangs behind it wait for its turns. A placeholder set is asked for by its
    templates, so those have to wait.
    """
    ahead = (
        action
        for spec in attempt.gang.request_specs
        if spec.shape not in attempt.current and not spec.flavor.by_placeholders
        if not _is_name_taken(attempt, spec)
        for action in _templates(attempt, spec)
    )
    # The first write tries the pods of the whole gang.
    yield from islice(ahead, 1)
    yield from (replace(action, tries_pods=False) for action in ahead)


def _templates(attempt: Attempt, spec: RequestSpec) -> Iterator[CreateTemplates]:
    """Those of a request, unless they are there."""
    name = attempt.request_name(spec)
    if not _template_names(name, spec) <= attempt.written.keys():
        yield CreateTemplates(
            request=name, spec=spec, labels=attempt.request_labels(spec), tries_pods=attempt.tries_pods
        )


def _is_name_taken(attempt: Attempt, spec: RequestSpec) -> bool:
    """By an outdated request that is being deleted, or by its templates."""
    name = attempt.request_name(spec)
    taken = {item.metadata.name for item in (*attempt.requests, *attempt.templates)} - attempt.written.keys()
    return bool(taken & {name, *_template_names(name, spec)})


def _template_names(request: str, spec: RequestSpec) -> set[str]:
    return {template_name(request, number) for number in range(len(spec.demands))}


def _create_request(attempt: Attempt, policy: GangPolicy, spec: RequestSpec) -> CreateRequest:
    name, labels = attempt.request_name(spec), attempt.request_labels(spec)
    if not spec.flavor.by_placeholders:
        return CreateRequest(name=name, spec=spec, labels=labels)
    lifetime = policy.queue_timeout + policy.provision_timeout * len(attempt.gang.request_specs)
    return CreateSet(
        name=name, spec=spec, labels=labels, image=policy.placeholder_image, max_lifetime=lifetime
    )


def _hold_nodes(holds: tuple[CreatePlaceholders, ...], limit: Deadline) -> HoldNodes:
    status = " and ".join(format_request(hold.spec) for hold in holds)
    message = f"{status} are kept by placeholder pods until the whole gang has its nodes"
    return HoldNodes(
        holds=holds, event=EmitEvent(kind="Normal", reason="GangHeld", message=message), limit=limit
    )


def _expiring(
    attempt: Attempt, requests: Iterable[ProvisioningRequest], policy: GangPolicy
) -> list[ProvisioningRequest]:
    """Those whose booking ends before the gang could start on it."""
    ends = ((request, booking_end(request, policy, now=attempt.now)) for request in requests)
    return [request for request, end in ends if end and end <= attempt.now]


def _release_early(attempt: Attempt, early: Sequence[ProvisioningRequest], limit: Deadline) -> ReleaseEarly:
    """The late request keeps its place in the cloud's queue; the others cost nothing meanwhile. Without a
    late one they are asked for again at once.
    """
    names = {request.metadata.name for request in early}
    pools = ", ".join(spec.pool for spec in attempt.gang.request_specs if attempt.request_name(spec) in names)
    message = (
        f"{pools} was provisioned long before {attempt.late.pool} and is released; it is requested "
        f"again when {attempt.late.pool} is provisioned"
        if attempt.late
        else f"{pools} was provisioned too long before the gang was whole, is released and requested again"
    )
    return ReleaseEarly(
        releases=deletions(early, _own_templates(attempt, _taken_by(early))),
        event=EmitEvent(kind="Normal", reason="GangStaggered", message=message),
        history=replace(attempt.history, in_turn=attempt.labels[ATTEMPT]),
        limit=limit,
    )


def _give_way(attempt: Attempt, limit: Deadline) -> Wait:
    """Release the requests of these pools, keep the quota, and wait for the turn: no failure, so no note and
    no backoff.
    """
    specs = [spec for spec in attempt.gang.request_specs if spec.pool in attempt.surroundings.must_give_way]
    return replace(_await_turn(attempt, specs[0], limit), releases=_release(attempt, specs))


def _release(attempt: Attempt, specs: Iterable[RequestSpec]) -> tuple[Delete, ...]:
    """Everything of these requests that is not deleted as outdated."""
    names = {attempt.request_name(spec) for spec in specs}
    released = deletions(
        (each for each in attempt.requests if each.metadata.name in names),
        _own_templates(attempt, names),
        (each for each in attempt.placeholders if request_of_placeholder(each.metadata.name) in names),
    )
    outdated = delete_outdated(attempt)
    return tuple(action for action in released if action not in outdated)


def _await_turn(attempt: Attempt, spec: RequestSpec, limit: Deadline) -> Wait:
    look_at = attempt.now + TURN_RECHECK
    return Wait(status=format_turn(spec.pool), limit=limit, for_turn=True, requeue_at=look_at)


def _verify(attempt: Attempt, limit: Deadline) -> Step:
    """Every request is Provisioned: check that the nodes are ready."""
    capacity_claims = capacity_claims_of(attempt.gang, attempt.current)
    around = attempt.surroundings
    verified = [claim.demand for claim in capacity_claims if claim.is_verified]
    room = partial(verify, verified, nodes=around.nodes, used=around.used)
    placements = room(claims=around.claims)
    short = next((placement.demand.pool for placement in placements if not placement.is_complete), None)
    if short is not None:
        requests, status = _short_requests(attempt, placements), format_nodes(placements)
        # No cloud brings back what is missing of a lease that was taken: the next step asks for it. What is
        # only promised to others may be free in a moment, and the same lease would be taken again at once.
        gone = _short_requests(attempt, room()) if around.claims else requests
        lost = _own_templates(attempt, _taken_by(request for _, request in gone))
        if broken := _broken_requests(attempt, requests):
            return _replace_broken(attempt, broken, lost, status, limit)
        return Wait(
            status=status, limit=limit, for_nodes=True, short_pool=short, releases=deletions((), lost)
        )
    return Ready(claims=pod_claims(capacity_claims))


def _short_requests(
    attempt: Attempt, placements: Iterable[Placement]
) -> list[tuple[RequestSpec, ProvisioningRequest]]:
    """Those whose nodes do not hold all of their pods."""
    short = {each.demand.name for each in placements if not each.is_complete}
    return [
        (spec, attempt.current[spec.shape])
        for spec in attempt.gang.request_specs
        if any(demand.pod_set in short for demand in spec.demands)
    ]


def _broken_requests(
    attempt: Attempt, requests: Iterable[tuple[RequestSpec, ProvisioningRequest]]
) -> list[ProvisioningRequest]:
    """Those that are short of a node of theirs that was closed. No cloud replaces one node of a request: the
    whole is released and asked for again, and the gang keeps its quota.
    """
    closed = {lease_of(node) for node in attempt.surroundings.nodes if closed_for(node)} - {""}
    return [
        request
        for spec, request in requests
        if not isinstance(request, TakenLease) and pins_of(spec, request).get(GKE_LEASE_LABEL) in closed
    ]


def _replace_broken(
    attempt: Attempt,
    broken: Sequence[ProvisioningRequest],
    lost: Iterable[PodTemplate],
    status: str,
    limit: Deadline,
) -> ReleaseEarly | AttemptFailed | Wait:
    """Once in a try. Where each new node is broken, as with a bad image, nodes were bought without end."""
    uids, noted = {each.metadata.uid for each in broken}, attempt.history.replaced
    why = f"{status}; {attempt.surroundings.set_aside}".removesuffix("; ")
    templates = _own_templates(attempt, {each.metadata.name for each in broken})
    releases = deletions(broken, [*lost, *templates])
    if uids.issubset(noted):  # What a crash after the note has left.
        return Wait(status=status, limit=limit, for_nodes=True, releases=releases)
    if noted:
        return AttemptFailed(failure=f"broken nodes again: {why}")
    message = f"{why}. The request with it is released and made again, once in a try"
    return ReleaseEarly(
        releases=releases,
        event=EmitEvent(kind="Warning", reason="NodesBroken", message=message),
        history=replace(attempt.history, replaced=tuple(sorted(uids))),
        limit=limit,
    )


def _taken_by(requests: Iterable[ProvisioningRequest]) -> set[str]:
    """The names of those that stand for leases of other gangs."""
    return {each.metadata.name for each in requests if isinstance(each, TakenLease)}


def _accepted_status(spec: RequestSpec, request: ProvisioningRequest) -> str:
    """The autoscaler's own estimate, where it gives one."""
    provisioned = request.status.condition("Provisioned")
    estimate = f" ({provisioned.message[:200]})" if provisioned and provisioned.message else ""
    came = request.standing if isinstance(request, PlaceholderSet) else 0
    there = format_capacity(spec.count, spec.pool, shares_nodes=spec.shares_nodes, there=came)
    return f"{there} for {pod_sets(spec)}{estimate}"
