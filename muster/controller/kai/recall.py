"""Which pods that have passed go back behind the gate: of gangs whose capacity is lost, that KAI does not
place, or that run on a broken node. Their controller makes deleted pods again, gated.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from muster.controller.gangs.actions import EmitEvent
from muster.controller.gangs.identity import ATTEMPT
from muster.controller.gangs.lease import CLOCK_SKEW, as_past, lease_end
from muster.controller.gangs.objects import ProvisioningRequest
from muster.controller.gangs.placeholder_sets import HANDOVER, PlaceholderSet
from muster.controller.gangs.progress import is_due, recheck_at
from muster.controller.gangs.reasons import loss
from muster.controller.gangs.retry import RetryHistory, next_attempt, parse_history, truncate_seconds
from muster.controller.kai.actions import Action, DeleteRunning, DeleteUnbound, PatchCluster
from muster.controller.kai.labels import (
    handed_over_at,
    is_bound,
    is_gated,
    is_released,
    lasting_part_of,
    part_of,
    preempts_since,
)
from muster.controller.kai.objects import GatedPod
from muster.controller.kai.preemption import HOSTNAME
from muster.controller.kai.snapshot import ClusterSnapshot
from muster.model.gangpolicy import GangPolicy
from muster.model.quantities import format_duration
from muster.model.waiting import rounded

PREEMPTED_WITHIN: Final = timedelta(minutes=5)
"""How long KAI may take to make room for a gang that has passed for it, before the gang goes back behind the
gate: a bound of ours. KAI decides in seconds, and what it evicts has its own time to end.
"""
# Not how many: a cache may learn of one deletion after another, and each number would be an Event.
_BACK: Final = "Its pods without a node go back behind the gate."


def recall(cluster_snapshot: ClusterSnapshot, kept: set[str]) -> Iterator[Action]:
    """Deletes pods that have passed in vain, so that they are made again behind the gate. `kept`: attempts of
    which some pods have still to pass.
    """
    recalls = (*_delete_unbound(cluster_snapshot, kept), *_recall_preempting(cluster_snapshot, kept))
    yield from _note_recall(cluster_snapshot, recalls)
    yield from recalls


def recall_ends(cluster_snapshot: ClusterSnapshot) -> Iterator[datetime]:
    """When more of them may have passed in vain. What ends now is decided now, or waits for others."""
    ends = (_handover_ends, _preemption_ends, _grace_ends)
    yield from (end for each in ends for end in each(cluster_snapshot) if end > cluster_snapshot.now)


def _delete_unbound(cluster_snapshot: ClusterSnapshot, kept: set[str]) -> Iterator[Action]:
    """Pods that have passed in a whole batch, have no node, and whose capacity is lost: they would wait for
    ever, because what they are to consume is gone. While KAI has bound none of their batch, all of it goes:
    KAI binds a gang whole, so the rest would hold its nodes for nothing until the lost ones are bought again.
    """
    present = {
        item.metadata.name: item for item in cluster_snapshot.requests if not item.metadata.deletion_timestamp
    }
    recalled = set[str]()
    for name in cluster_snapshot.released:
        stranded = [
            pod
            for pod in cluster_snapshot.stranded(name)
            if pod.metadata.annotations.get(ATTEMPT) not in kept and pod.metadata.uid not in recalled
        ]
        request = present.get(name)
        what = _lost(request, stranded, now=cluster_snapshot.now) if stranded else ""
        if not what:
            continue
        attempts = {pod.metadata.annotations.get(ATTEMPT) for pod in stranded}
        batch = [pod for pod in cluster_snapshot.pods if pod.metadata.annotations.get(ATTEMPT) in attempts]
        # Those that tell of it go last: what a crash leaves, the next reconcile finds again.
        rest = [pod for pod in batch if is_released(pod) and pod not in stranded]
        back = stranded if any(map(is_bound, batch)) else [*rest, *stranded]
        recalled |= {pod.metadata.uid for pod in back}
        # What a set has asked for is there for as long as its pods.
        asked = "" if isinstance(request, PlaceholderSet) else name
        yield from (DeleteUnbound(pod=pod, request=asked) for pod in back)
        yield EmitEvent(
            kind="Warning",
            reason="GangRecalled",
            message=f"{what}. {_BACK}",
        )


def _lost(request: ProvisioningRequest | None, stranded: Sequence[GatedPod], *, now: datetime) -> str:
    """Why these pods have passed in vain; empty while they have not."""
    if request is None:
        return "the capacity that they were to use is gone"
    if isinstance(request, PlaceholderSet) and _handover_end(stranded, now=now) <= now:
        return f"KAI has placed them on no node within {format_duration(HANDOVER)}"
    return str(loss(request, admitted=False) or "")


def _handover_ends(cluster_snapshot: ClusterSnapshot) -> Iterator[datetime]:
    """Until when nodes are kept for pods that have passed and have none."""
    for request in cluster_snapshot.requests:
        stranded = cluster_snapshot.stranded(request.metadata.name)
        if stranded and isinstance(request, PlaceholderSet):
            yield _handover_end(stranded, now=cluster_snapshot.now)


def _handover_end(stranded: Iterable[GatedPod], *, now: datetime) -> datetime:
    return max(handed_over_at(pod, now=now) for pod in stranded) + HANDOVER


def _recall_preempting(cluster_snapshot: ClusterSnapshot, kept: set[str]) -> Iterator[Action]:
    """Pods for which KAI has made no room in time: it sees more than the rule does, or others came first."""
    for pods in cluster_snapshot.preempting:
        if pods[0].metadata.annotations.get(ATTEMPT) in kept:
            continue  # The rest of them passes first.
        if _preemption_end(pods, cluster_snapshot) > cluster_snapshot.now:
            continue
        yield from (DeleteUnbound(pod=pod, request="") for pod in pods)
        within = format_duration(PREEMPTED_WITHIN)
        yield EmitEvent(
            kind="Warning",
            reason="GangRecalled",
            message=f"KAI has made no room for it within {within}. {_BACK}",
        )


def _preemption_ends(cluster_snapshot: ClusterSnapshot) -> Iterator[datetime]:
    for pods in cluster_snapshot.preempting:
        yield _preemption_end(pods, cluster_snapshot)


def _preemption_end(pods: Sequence[GatedPod], cluster_snapshot: ClusterSnapshot) -> datetime:
    """Until when KAI may take to place them; not before what it has evicted has ended."""
    now = cluster_snapshot.now
    hosts = {host for pod in pods for host in hosts_of(pod)}
    in_the_way = [
        pod for pod in cluster_snapshot.ending if pod.spec.node_name in hosts and is_due(pod, now=now)
    ]
    begun = (as_past(preempts_since(pod), now=now) or pod.metadata.creation_timestamp for pod in pods)
    end = max((since for since in begun if since), default=now) + PREEMPTED_WITHIN
    return max(end, recheck_at(in_the_way, since=now, now=now) or end) if in_the_way else end


def requeue_broken(cluster_snapshot: ClusterSnapshot) -> Iterator[Action]:
    """A gang that runs on a broken node queues again as a whole, once the sign has lasted for the grace."""
    broken, since = cluster_snapshot.broken, cluster_snapshot.broken_since
    grace = (cluster_snapshot.policy or GangPolicy()).node_loss_grace
    if not broken or not grace:
        yield from [PatchCluster(history=cluster_snapshot.noted())] if since else ()
        return
    name = min(broken)
    what = f"it runs on the broken node {name} ({broken[name].text})"
    if not since:
        now = truncate_seconds(cluster_snapshot.now)
        yield PatchCluster(history=replace(cluster_snapshot.noted(), nodes_missing=now))
        message = f"{what}; unless the sign goes, the gang queues again in {format_duration(grace)}"
        yield EmitEvent(kind="Warning", reason="NodesMissing", message=message)
    elif since + grace <= cluster_snapshot.now:
        passed = [pod for pod in cluster_snapshot.pods if not is_gated(pod)]
        yield from _note_short_run(cluster_snapshot, passed, what)
        # Those on the broken node go last: what a crash leaves, the next reconcile finds again.
        for pod in sorted(passed, key=lambda pod: pod.spec.node_name in broken):
            yield DeleteRunning(pod=pod)
        message = f"{what}. All of its pods go back behind the gate."
        yield EmitEvent(kind="Warning", reason="NodesLost", message=message)


def note_lost_nodes(cluster_snapshot: ClusterSnapshot) -> Iterator[Action]:
    """While the pods of nodes that are gone are still known: KAI evicts what is below its minimum, and those
    that are made again tell nothing of it. Pods that may follow those of another gang share no such note.
    """
    gangs: dict[str, list[GatedPod]] = {}
    for pod in cluster_snapshot.pods if cluster_snapshot.gone else ():
        part = lasting_part_of(pod, cluster_snapshot.cluster)
        if part == part_of(pod, cluster_snapshot.cluster):
            gangs.setdefault(part, []).append(pod)
    for part, pods in gangs.items():
        lost = cluster_snapshot.gone & {pod.spec.node_name for pod in pods}
        # Pods behind the gate have taken the note over, and take it off.
        if lost and not any(map(is_gated, pods)):
            yield from _note_short_run(cluster_snapshot, pods, f"its node {min(lost)} is gone", part)


def _note_short_run(
    cluster_snapshot: ClusterSnapshot, passed: Sequence[GatedPod], what: str, part: str = ""
) -> Iterator[Action]:
    """A run that was short is a failed try: to start again at once would buy the next nodes for nothing."""
    retry = (cluster_snapshot.policy or GangPolicy()).retry
    starts = [at for pod in passed if (at := pod.status.start_time)]
    started = min(*starts, cluster_snapshot.now) if starts else None
    leases = (end for request in cluster_snapshot.requests if (end := lease_end(request)))
    is_over = any(cluster_snapshot.now >= end - CLOCK_SKEW for end in leases)
    if started is None or is_over or cluster_snapshot.now - started >= retry.max:
        return
    last = max(map(parse_history, passed), key=lambda history: history.tries)
    noted = cluster_snapshot.noted(part)
    if noted.refused or noted.tries > last.tries:
        return  # Some of its pods are gone, perhaps those with the history.
    history = next_attempt(
        last,
        uid=cluster_snapshot.cluster.metadata.uid,
        began=started,
        failure=f"{what}, {rounded(cluster_snapshot.now - started)} after its start",
        now=cluster_snapshot.now,
        policy=retry,
    )
    # What a crash leaves of its pods is due all the same.
    yield keep_history(cluster_snapshot, history, part)


def _grace_ends(cluster_snapshot: ClusterSnapshot) -> Iterator[datetime]:
    """Until when the sign of a node may go before its gang queues again."""
    if since := cluster_snapshot.broken_since:
        grace = (cluster_snapshot.policy or GangPolicy()).node_loss_grace
        yield since + grace


def _note_recall(cluster_snapshot: ClusterSnapshot, recalls: Sequence[Action]) -> Iterator[Action]:
    """A recall is a failed try: nodes were bought for nothing. Its pods take their history with them, so it
    goes to their cluster until KubeRay has made new ones.
    """
    attempts = {
        each.pod.metadata.annotations.get(ATTEMPT) for each in recalls if isinstance(each, DeleteUnbound)
    }
    gangs: dict[str, list[GatedPod]] = {}
    for pod in cluster_snapshot.pods:
        if pod.metadata.annotations.get(ATTEMPT) in attempts - {None}:
            gangs.setdefault(lasting_part_of(pod, cluster_snapshot.cluster), []).append(pod)
    for part, passed in gangs.items():
        last = max(map(parse_history, passed), key=lambda history: history.tries)
        noted = cluster_snapshot.noted(part)
        if noted.refused or noted.tries > last.tries:
            continue  # It was noted before some of them went.
        history = next_attempt(
            last,
            uid=cluster_snapshot.cluster.metadata.uid,
            began=min(handed_over_at(pod, now=cluster_snapshot.now) for pod in passed),
            failure=next(each.message for each in recalls if isinstance(each, EmitEvent)),
            now=cluster_snapshot.now,
            policy=(cluster_snapshot.policy or GangPolicy()).retry,
        )
        if history.refused:
            # For a moment, where the note is kept for pods of several gangs.
            history = replace(history, retry_at=truncate_seconds(cluster_snapshot.now))
        yield keep_history(cluster_snapshot, history, part)


def keep_history(cluster_snapshot: ClusterSnapshot, history: RetryHistory, part: str) -> PatchCluster:
    """Keep the history on the gang's object. How long the gang has run on a broken node stays there."""
    since = cluster_snapshot.broken_since
    return PatchCluster(history=replace(history, nodes_missing=since), part=part)


def hosts_of(pod: GatedPod) -> tuple[str, ...]:
    """The nodes that it was let go to."""
    rules = (rule for term in pod.spec.required_terms for rule in term.match_expressions)
    return next((rule.values for rule in rules if rule.key == HOSTNAME and rule.operator == "In"), ())
