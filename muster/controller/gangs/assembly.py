"""One step of a gang towards standing whole.

Decides, for a gang that may have its capacity, what comes next: the scarcest pool is asked first, the next
when that is Accepted (line.py: whose turn); when all are Provisioned the nodes are verified (verify.py); a
failure or a passed deadline ends the attempt. Leaves whether it may have capacity at all, and what a step
means for the gang's own object, to each scheduler's machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from muster.controller.gangs import placeholders
from muster.controller.gangs.actions import (
    CreateRequest,
    CreateTemplates,
    Delete,
    Hold,
    Tell,
    WaitsFor,
    deletions,
)
from muster.controller.gangs.attempt import Attempt
from muster.controller.gangs.capacity_claims import Promise, missing_detail, promises
from muster.controller.gangs.deadlines import Deadline, booking_over, deadline
from muster.controller.gangs.identity import ATTEMPT, request_of_placeholder, template_name
from muster.controller.gangs.limits import never_fits
from muster.controller.gangs.objects import ProvisioningRequest
from muster.controller.gangs.progress import needed, nodes, room
from muster.controller.gangs.reasons import Loss, Outcome, loss
from muster.controller.gangs.retry import History
from muster.controller.gangs.split import Ask
from muster.controller.gangs.turn_order import Place, ahead, crossed
from muster.controller.gangs.verify import verify
from muster.model.gangpolicy import GangPolicy, format_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Never:
    """No try can help."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """This attempt is over: release everything, try again later."""

    failure: str
    exhausted: str = ""
    """The pool that is out of stock, where that was the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Nothing to do but to wait for `what`, once `releases` are given back."""

    what: str
    limit: Deadline
    waits_for: WaitsFor = ""
    releases: tuple[Delete, ...] = ()
    wake: datetime | None = None
    """When to look again before the limit."""
    lacks: str = ""
    """The pool that its time is lost in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """Keep what came early until the rest is there."""

    holds: tuple[Hold, ...]
    told: Tell
    limit: Deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    actions: tuple[CreateTemplates | CreateRequest | Tell, ...]
    limit: Deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Every request is Provisioned and every node stands."""

    promised: tuple[Promise, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """Pieces that came too early are given back and asked for again when the one that is late stands."""

    releases: tuple[Delete, ...]
    told: Tell
    history: History
    limit: Deadline


Step = Never | Lost | Waiting | Asking | Standing | Parting | Holding


def next_step(attempt: Attempt, policy: GangPolicy, *, since: datetime) -> Step:
    """The next step of a gang with at least one ask. `since`: when it was first allowed to ask. Raises
    ValueError for a quantity that cannot be read.
    """
    if (reason := never_fits(attempt.gang)) is not None:
        return Never(reason=reason)
    lost = [
        found for request in attempt.attempted if (found := loss(request, admitted=False, held=policy.holds))
    ]
    if lost:
        worst = next((found for found in lost if found.outcome is Outcome.REFUSE), lost[0])
        what = f"{worst.summary}: {worst.detail}"
        if worst.outcome is Outcome.REFUSE:
            return Never(reason=what)
        return Lost(failure=what, exhausted=_exhausted(attempt, worst))
    limit = deadline(attempt.gang, attempt.current, quota_since=since, policy=policy, now=attempt.now)
    if not policy.holds and (early := _early(attempt, policy)):
        return _part(attempt, early, limit)
    step = _gather(attempt, limit)
    if limit.at <= attempt.now and not isinstance(step, Standing):
        why = step.what if isinstance(step, Waiting) else ""
        return replace(passed(limit, why), exhausted=_lacking(attempt, step))
    if isinstance(step, Waiting):
        kept = placeholders.due(attempt, policy)
        return _keep(kept, limit) if kept else replace(step, wake=placeholders.next_due(attempt, policy))
    return step


def _exhausted(attempt: Attempt, lost: Loss) -> str:
    if lost.outcome is not Outcome.NEXT_FLAVOR:
        return ""
    name = lost.request.metadata.name
    return next((ask.pool for ask in attempt.gang.asks if attempt.request_name(ask) == name), "")


def _lacking(attempt: Attempt, step: Step) -> str:
    """The pool whose nodes did not come in time: promised or not."""
    if attempt.late is not None:
        return attempt.late.pool
    return step.lacks if isinstance(step, Waiting) else ""


def passed(limit: Deadline, why: str) -> Lost:
    """The end of an attempt whose time is over. `why`: what it waited for, which its check says no more."""
    what = f"{limit.clock} of {format_duration(limit.limit)} has passed"
    return Lost(failure=f"{what}: {why}" if why else what)


def surplus(attempt: Attempt) -> tuple[Delete, ...]:
    """Deletes requests of earlier attempts, and of this one that the policy no longer makes."""
    kept = {request.metadata.name for request in attempt.current.values()}
    requests = [request for request in attempt.requests if request.metadata.name not in kept]
    outdated = [template for template in attempt.templates if template.metadata.name not in attempt.written]
    stray = [item for item in attempt.placeholders if request_of_placeholder(item.metadata.name) not in kept]
    return deletions(requests, outdated, stray)


def everything(attempt: Attempt) -> tuple[Delete, ...]:
    return deletions(attempt.requests, attempt.templates, attempt.placeholders)


def pod_sets(ask: Ask) -> str:
    return ", ".join(demand.pod_set for demand in ask.demands)


def _gather(attempt: Attempt, limit: Deadline) -> Step:
    place = attempt.place()
    if place and not attempt.is_provisioned and (older := crossed(place, attempt.others)):
        return _give_way(attempt, older, limit)
    for ask in attempt.gang.asks:
        request = attempt.current.get(ask.shape)
        if request is None:
            return _ask(attempt, ask, limit)
        if not (request.status.holds("Accepted") or request.status.holds("Provisioned")):
            return Waiting(what=f"asked for {needed(ask)}", limit=limit)
        if attempt.is_in_turn and not request.status.holds("Provisioned"):
            break
    for ask in attempt.gang.asks:
        request = attempt.current[ask.shape]
        if not request.status.holds("Provisioned"):
            return Waiting(what=_accepted(ask, request), limit=limit)
        if detail := missing_detail(ask, request):
            what = f"{ask.pool} is provisioned and does not say its {detail} yet"
            return Waiting(what=what, limit=limit, lacks=ask.pool)
    return _verify(attempt, limit)


def _ask(attempt: Attempt, ask: Ask, limit: Deadline) -> Step:
    place = attempt.place()
    first = ahead(place, attempt.others) if place else None
    if first is not None:
        return Waiting(what=f"{first.name} asks for {ask.pool} first", limit=limit, waits_for="turn")
    name = attempt.request_name(ask)
    wanted = {template_name(name, number) for number in range(len(ask.demands))}
    taken = {item.metadata.name for item in (*attempt.requests, *attempt.templates)} - attempt.written.keys()
    if taken & {name, *wanted}:
        return Waiting(what=f"an outdated request for {ask.pool} is being deleted", limit=limit)
    labels = attempt.request_labels(ask)
    is_written = wanted <= attempt.written.keys()
    templates = () if is_written else (CreateTemplates(request=name, ask=ask, labels=labels),)
    note = f"Asked for {needed(ask)} for {pod_sets(ask)}"
    return Asking(
        actions=(
            *templates,
            CreateRequest(name=name, ask=ask, labels=labels),
            Tell(kind="Normal", reason="ProvisioningRequestCreated", message=f"{note} with {name}"),
        ),
        limit=limit,
    )


def _keep(holds: tuple[Hold, ...], limit: Deadline) -> Holding:
    what = " and ".join(needed(hold.ask) for hold in holds)
    message = f"{what} are kept by placeholder pods until the whole gang has its nodes"
    return Holding(holds=holds, told=Tell(kind="Normal", reason="GangHeld", message=message), limit=limit)


def _early(attempt: Attempt, policy: GangPolicy) -> list[ProvisioningRequest]:
    """What came so early that its booking ends before the gang is whole."""
    ends = ((request, booking_over(request, policy, now=attempt.now)) for request in attempt.early)
    return [request for request, end in ends if end and end <= attempt.now]


def _part(attempt: Attempt, early: Sequence[ProvisioningRequest], limit: Deadline) -> Parting:
    """The late piece keeps its place in the cloud's queue; nobody pays for the others meanwhile."""
    assert attempt.late is not None
    names = {request.metadata.name for request in early}
    pools = ", ".join(ask.pool for ask in attempt.gang.asks if attempt.request_name(ask) in names)
    message = (
        f"{pools} came long before {attempt.late.pool} and is given back; it is asked for again when "
        f"{attempt.late.pool} stands"
    )
    return Parting(
        releases=deletions(early, ()),
        told=Tell(kind="Normal", reason="GangStaggered", message=message),
        history=replace(attempt.past, in_turn=attempt.labels[ATTEMPT]),
        limit=limit,
    )


def _give_way(attempt: Attempt, older: Place, limit: Deadline) -> Step:
    """Take back what was asked, keep the quota, and stand in line: no failure, so no note and no backoff."""
    outdated = surplus(attempt)
    asked = tuple(action for action in everything(attempt) if action not in outdated)
    return Waiting(what=f"{older.name} asked first", limit=limit, waits_for="turn", releases=asked)


def _verify(attempt: Attempt, limit: Deadline) -> Step:
    """Every request is Provisioned. Believe it when the nodes stand."""
    promised = promises(attempt.gang, attempt.current)
    own = {item.metadata.name for item in attempt.placeholders}
    rooms = verify(
        [promise.wanted for promise in promised if promise.is_verified],
        nodes=attempt.nodes,
        pods=[pod for pod in attempt.pods if pod.metadata.name not in own],  # They make room for its pods.
        claims=attempt.claims,
    )
    short = next((room.wanted.pool for room in rooms if not room.is_enough), None)
    if short is not None:
        return Waiting(what=nodes(rooms), limit=limit, waits_for="nodes", lacks=short)
    return Standing(promised=promised)


def _accepted(ask: Ask, request: ProvisioningRequest) -> str:
    """The autoscaler's own estimate, where it gives one."""
    promised = request.status.condition("Provisioned")
    estimate = f" ({promised.message[:200]})" if promised and promised.message else ""
    there = room(f"0 of {ask.count}", ask.pool, shares_nodes=ask.shares_nodes)
    return f"{there} for {pod_sets(ask)}{estimate}"
