"""What to do about a gang that runs.

Decides when it has to queue again as a whole: its capacity was revoked, or nodes of it have been missing for
longer than the policy allows, and a consumed request buys no others. Also when the end of its lease is told.
The bookkeeping of earlier attempts ends here.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from muster.controller.gangs.actions import Delete, Tell, deletions
from muster.controller.gangs.identity import ATTEMPT
from muster.controller.gangs.lease import first_end
from muster.controller.gangs.missing import missing
from muster.controller.gangs.progress import lacks
from muster.controller.gangs.reasons import loss
from muster.controller.gangs.retry import History, whole
from muster.controller.gangs.verify import Room
from muster.controller.kueue.actions import Action, Decision, Note, State
from muster.controller.kueue.check_state import set_entry
from muster.controller.kueue.scale_up import LOOK_AGAIN as LOOK_FOR_START
from muster.controller.kueue.scale_up import is_claimed, unclaim
from muster.controller.kueue.snapshot import Situation
from muster.model.gangpolicy import GangPolicy, format_duration
from muster.model.waiting import clock, rounded

LOOK_AGAIN: Final = timedelta(minutes=1)


def while_running(now_is: Situation) -> Decision:
    """The gang stands on its nodes, or did."""
    stale = _stale(now_is)
    if back := _revoked(now_is):
        return Decision(actions=(*stale, *back))
    policy = now_is.policy or GangPolicy()
    short = _short(now_is)
    since = _since(now_is, short, policy)
    if since and now_is.now - since >= policy.node_loss_grace:
        gone = f"{lacks(short)} for {rounded(now_is.now - since)}"
        return Decision(actions=(*stale, *_requeue(now_is, gone, reason="NodesLost")))
    # Without a policy or its flavors nobody can tell whether the nodes are back.
    is_told = now_is.policy is not None and not now_is.untold
    missing_since = since if is_told else now_is.past.nodes_missing
    noted = replace(_kept(now_is), nodes_missing=missing_since, lease_ends=_announced(now_is, policy))
    wakes = [since + policy.node_loss_grace] if since else []
    wakes += [told_at] if (told_at := notice_at(now_is, policy)) else []
    # A node that is drained loses its pods without a word to us.
    wakes += [now_is.now + LOOK_AGAIN] if now_is.lacks_pods and now_is.pods else []
    # Not for a moment that has passed: nobody looks again for a start that was missed so long ago.
    admitted = now_is.workload.status.since("Admitted")
    look_at = admitted + policy.node_loss_grace if now_is.is_unseen and admitted else now_is.now
    wakes += [look_at] if look_at > now_is.now else []
    cleaned: tuple[Action, ...] = ()
    if is_claimed(now_is):
        cleaned = unclaim(now_is, history=replace(noted, unclaimed=now_is.labels[ATTEMPT]))
        wakes += [now_is.now + LOOK_FOR_START]
    return Decision(
        actions=(*stale, *_noted(now_is, noted, short, policy), *cleaned),
        wake=min(wakes, default=None),
        waits_for="nodes" if since else "",
    )


def notice_at(now_is: Situation, policy: GangPolicy) -> datetime | None:
    """When the end of its lease is to be told; None where it has been, or there is none."""
    ends = _end(now_is)
    told_at = ends - policy.lease_notice if ends and policy.lease_notice else None
    return told_at if told_at and told_at > now_is.now else None


def _announced(now_is: Situation, policy: GangPolicy) -> datetime | None:
    """The end of its lease, once it is so near that it is told."""
    is_told = policy.lease_notice and notice_at(now_is, policy) is None
    return _end(now_is) if is_told else None


def _end(now_is: Situation) -> datetime | None:
    return first_end(claim.annotations for each in now_is.carried.values() for claim in each)


def _stale(now_is: Situation) -> tuple[Delete, ...]:
    """What is left of earlier attempts, and the placeholders. A second replica that lives in the past may
    have made it after the gang had started.
    """
    requests = [request for request in now_is.requests if request not in now_is.attempted]
    mine = now_is.labels[ATTEMPT]
    templates = [each for each in now_is.templates if each.metadata.labels.get(ATTEMPT) != mine]
    return deletions(requests, templates, now_is.placeholders)


def while_growing(now_is: Situation) -> Decision | None:
    """What ends a growth because of the part that ran before; None while that stands."""
    if back := _revoked(now_is):
        return Decision(actions=back)
    policy = now_is.policy or GangPolicy()
    short = _short(now_is)
    since = _since(now_is, short, policy)
    if since and now_is.now - since >= policy.node_loss_grace:
        gone = f"{lacks(short)} for {rounded(now_is.now - since)}"
        return Decision(actions=_requeue(now_is, gone, reason="NodesLost"))
    kept = replace(now_is.past, nodes_missing=since, lease_ends=_announced(now_is, policy))
    noted = _noted(now_is, kept, short, policy)
    if since:
        # What is asked for stays asked for; nothing new is, while nobody knows whether the gang stands.
        return Decision(actions=noted, wake=since + policy.node_loss_grace, waits_for="nodes")
    return Decision(actions=noted) if noted else None


def _kept(now_is: Situation) -> History:
    """What stays noted of a gang that runs."""
    past = now_is.past
    # The tries are part of the name of a growth's requests: that must not change while they are used.
    tries = past.tries if now_is.is_growth else 0
    return History(avoid=past.avoid, tries=tries, unclaimed=past.unclaimed)


def _revoked(now_is: Situation) -> tuple[Action, ...]:
    own = now_is.attempted if now_is.is_admitted else ()
    promised = (*own, *(each for before in now_is.beneath for each in before.requests))
    lost = next((found for each in promised if (found := loss(each, admitted=True))), None)
    if lost is None:
        return ()
    return _requeue(now_is, f"{lost.summary}: {lost.detail}", reason="CapacityRevoked")


def _requeue(now_is: Situation, what: str, *, reason: str) -> tuple[Action, ...]:
    """Retry without a pause: Kueue evicts the gang as a whole and queues it at once."""
    return (
        *set_entry(now_is, State.RETRY, f"{what}; the gang queues again"),
        Tell(kind="Warning", reason=reason, message=f"{what}. The gang queues again."),
    )


def _short(now_is: Situation) -> Sequence[Room]:
    """PodSets that lack nodes. What cannot be read was read when it was admitted: it is not looked at."""
    if not now_is.lacks_pods:
        return ()
    try:
        return missing(
            now_is.standing, now_is.carried, nodes=now_is.nodes, pods=now_is.pods, ended=now_is.ended
        )
    except ValueError:
        return ()


def _since(now_is: Situation, short: Sequence[Room], policy: GangPolicy) -> datetime | None:
    if not short or policy.node_loss_grace <= timedelta(0):
        return None
    return min(now_is.past.nodes_missing or now_is.now, whole(now_is.now))


def _noted(
    now_is: Situation, noted: History, short: Sequence[Room], policy: GangPolicy
) -> tuple[Action, ...]:
    past = now_is.past
    if noted == past:
        return ()
    told: list[Action] = []
    if noted.nodes_missing and not past.nodes_missing:
        at = clock(noted.nodes_missing + policy.node_loss_grace)
        limit = format_duration(policy.node_loss_grace)
        told.append(
            _warn(
                "NodesMissing",
                f"{lacks(short)}; unless they are back the gang queues again at {at}, {limit} after",
            )
        )
    if past.nodes_missing and not noted.nodes_missing:
        told.append(Tell(kind="Normal", reason="NodesBack", message="every pod has a node again"))
    if noted.lease_ends and noted.lease_ends != past.lease_ends:
        at = clock(noted.lease_ends, far=True)
        told.append(
            _warn(
                "LeaseEnds", f"its nodes are taken back at {at}; it queues again then. Save its work before"
            )
        )
    return (Note(history=noted), *told)


def _warn(reason: str, message: str) -> Tell:
    return Tell(kind="Warning", reason=reason, message=message)
