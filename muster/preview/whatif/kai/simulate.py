"""Simulates one side in the player of KAI.

Responsible for how its decisions become the outcome of a what-if.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from muster.live.snapshot import Node, PodGroup, Snapshot
from muster.model import names
from muster.model.stack import Scheduler, Stack
from muster.preview.whatif.kai import work
from muster.preview.whatif.kai.nodes import all_nodes, flavors_of, to_manifest
from muster.preview.whatif.kai.queues import protections, refuse_roots, to_queues
from muster.preview.whatif.kai.schedulers import to_shards
from muster.preview.whatif.scenario import Decision, Outcome, WorkloadState
from muster.render import kai
from muster.replay.kai_player import STALE_SECONDS, KaiDecision, KaiGroup, KaiPlayback, KaiWorld, play_kai

# One side as the player of KAI reads it: the queues of a stack, and the work and the nodes of a snapshot.


def to_world(stack: Stack, snapshot: Snapshot, *, nodes: Sequence[Node], seconds: float) -> KaiWorld:
    """UnplayableError where KAI 0.12 cannot have this stack."""
    groups = snapshot.pod_groups or ()
    queues = to_queues(stack)
    refuse_roots(queues, [each.queue for each in groups])
    return KaiWorld(
        taken=snapshot.taken,
        shards=to_shards(stack),
        queues=queues,
        nodes=[to_manifest(each) for each in nodes],
        topologies=kai.topologies(stack),
        priority_classes=kai.priority_classes(stack),
        pod_groups=[work.group_manifest(each) for each in groups],
        pods=[work.pod_manifest(group, pod) for group in groups for pod in group.pods],
        returns=True,
        patience=max(STALE_SECONDS, *protections(stack, queues)),
        seconds=seconds,
    )


def why_undecided(base: Stack, head: Stack, snapshot: Snapshot) -> str:
    """Why nothing can be simulated; "" where it can. A full sentence."""
    if snapshot.scheduler is not Scheduler.KAI:
        return "The snapshot is not from KAI, so what its queues hold is unknown."
    if {base.scheduler, head.scheduler} != {Scheduler.KAI}:
        return "One side is scheduled by Kueue, and its work has other labels."
    if snapshot.pod_groups is None or snapshot.nodes is None:
        return (
            "The snapshot has no pods: record it again with the right to list pods, nodes, podgroups and "
            "bindrequests."
        )
    return ""


def simulate(stack: Stack, snapshot: Snapshot, *, program: Path, seconds: float) -> Outcome:
    """The outcome of one side. UnplayableError where KAI 0.12 cannot have this stack."""
    started = time.monotonic()
    nodes = all_nodes(stack, snapshot.nodes or ())
    played = play_kai(to_world(stack, snapshot, nodes=nodes, seconds=seconds), program=program)
    found = to_outcome(snapshot.pod_groups or (), played, flavors=flavors_of(stack, nodes))
    return replace(found, seconds=time.monotonic() - started)


def to_outcome(every: Sequence[PodGroup], played: KaiPlayback, *, flavors: Mapping[str, str]) -> Outcome:
    """What was decided about groups that have pods. `flavors`: node -> the flavor of its pool."""
    groups = [each for each in every if each.pods]
    return Outcome(
        decisions={each.label: _decision(each, played) for each in groups},
        used=_used(groups, played, flavors),
        is_settled=played.is_settled,
        seconds=0.0,
    )


def _decision(group: PodGroup, played: KaiPlayback) -> Decision:
    after = played.groups[group.label]
    evictions = [each for each in played.decisions if each.kind == "evicted" and each.group == group.label]
    first = next(iter(evictions), None)
    return Decision(
        namespace=group.namespace,
        name=group.name,
        state=_state(group, after, evictions),
        why=after.why if not after.running else "",
        preemptor=first.by if first else "",
        how=first.action if first else "",
    )


def _state(group: PodGroup, after: KaiGroup, evictions: Sequence[KaiDecision]) -> WorkloadState:
    if not after.running:
        return WorkloadState.PENDING
    before = {f"{group.namespace}/{each.name}" for each in group.pods if each.node and not each.is_ending}
    kept = before - {pod for each in evictions for pod in each.pods}
    return WorkloadState.RUNNING if kept else WorkloadState.ADMITTED


def _used(
    groups: Sequence[PodGroup], played: KaiPlayback, flavors: Mapping[str, str]
) -> dict[tuple[str, str], dict[str, int]]:
    """GPUs of the pods that run in the end, by queue and flavor. A part of a GPU is not counted."""
    used: dict[tuple[str, str], dict[str, int]] = {}
    for group in groups:
        running = played.groups[group.label].running
        line = used.setdefault((group.namespace, group.queue), {})
        for pod in group.pods:
            node = running.get(f"{group.namespace}/{pod.name}")
            devices = sum(pod.requests.get(each, 0) for each in names.DEVICE_RESOURCES)
            if node is not None and devices:
                flavor = flavors.get(node, "")
                line[flavor] = line.get(flavor, 0) + devices
    return used
