"""What-if for stacks that KAI schedules: KAI's own scheduler decides about one side, in the player of KAI.

Responsible for how its decisions become the outcome of a what-if; below, both outcomes compared.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from muster.live.snapshot import Node, PodGroup, Snapshot
from muster.model import names
from muster.model.quantities import many
from muster.model.stack import Scheduler, Stack
from muster.preview.compare.kai import QueueOveruse, format_figure, queues_at_limit, queues_over_quota
from muster.preview.document import Items, Report, Section, StackReport, Text, UntrustedText
from muster.preview.whatif import kai_world
from muster.preview.whatif import report as comparison_report
from muster.preview.whatif.kai_world import (
    all_nodes,
    flavors_of,
    protections,
    refuse_roots,
    to_manifest,
    to_queues,
    to_shards,
)
from muster.preview.whatif.report import Comparison
from muster.preview.whatif.scenario import Decision, Outcome, WorkloadState
from muster.render import kai
from muster.replay.kai_player import (
    STALE_SECONDS,
    VERSION,
    KaiDecision,
    KaiGroup,
    KaiPlayback,
    KaiWorld,
    play_kai,
)

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
        pod_groups=[kai_world.group_manifest(each) for each in groups],
        pods=[kai_world.pod_manifest(group, pod) for group in groups for pod in group.pods],
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


# Base and head compared as KAI decides, and what is known where nothing can be simulated: which queues
# hold more than their new figures.

_VERDICT: Final = "Nothing below is a decision of KAI."
_UNDECIDED: Final = (
    "Which pending gang starts, and when: KAI divides free resources by weight and by past usage.",
    "Which work it preempts, reclaims or moves: that depends on the nodes of the pods.",
    "Whether a gang fits its nodes: KAI packs shares of GPUs and checks nodes, not only quota.",
)


ASSUMPTIONS: Final = (
    f"KAI {VERSION} decided. Stacks install a newer one, which decides some cases differently.",
    "Every pool has its largest size, because whether a cloud has capacity cannot be known.",
    "Muster's gate counts as removed. With `overQuota: deny` the quota of GPUs is the limit of a queue.",
    "Owners create evicted pods again, and these wait. No job ends.",
    "All work has run for longer than a minimum runtime protects it.",
    "Past usage, pod affinity, storage, DRA and ports of the host are not played.",
)


def to_report(comparison: Comparison, snapshot: Snapshot) -> Report:
    """The comparison, what the queues hold, and what the simulation assumes."""
    (found,) = comparison_report.to_report(comparison).stacks
    assumed = Section("What this simulation assumes", 1, (Items(tuple((each,) for each in ASSUMPTIONS)),))
    known = _known(comparison.base_stack, comparison.head_stack, snapshot)
    return Report((replace(found, sections=(*found.sections, *known, assumed)),))


def to_json(comparison: Comparison, snapshot: Snapshot) -> dict[str, Any]:
    """The same for programs. `untold` lists what is assumed."""
    return {
        **comparison_report.to_json(comparison),
        "scheduler": "kai",
        "decided": True,
        "untold": list(ASSUMPTIONS),
        **_known_json(comparison.base_stack, comparison.head_stack, snapshot),
    }


def undecided_report(name: str, base: Stack, head: Stack, snapshot: Snapshot, *, why: str) -> Report:
    """Queues that hold more than their new quota or limit, and the questions that remain open. `why`: why
    nothing is simulated.
    """
    sections = [Section("What only KAI could decide", 1, (Items(tuple((each,) for each in _UNDECIDED)),))]
    if snapshot.scheduler is Scheduler.KAI:
        sections = [*_known(base, head, snapshot), *sections]
    verdict: tuple[Text, ...] = ((_VERDICT,), (UntrustedText(why),))
    return Report((StackReport(UntrustedText(name), verdict, tuple(sections)),))


def undecided_json(name: str, base: Stack, head: Stack, snapshot: Snapshot, *, why: str) -> dict[str, Any]:
    """The same for programs. `decided` is False, and `untold` lists the open questions."""
    found = {"stack": name, "scheduler": "kai", "decided": False, "why": why, "untold": list(_UNDECIDED)}
    return {**found, **_known_json(base, head, snapshot)} if snapshot.scheduler is Scheduler.KAI else found


def _known_json(base: Stack, head: Stack, snapshot: Snapshot) -> dict[str, Any]:
    return {
        "beyondQuota": [asdict(each) for each in queues_over_quota(head, snapshot)],
        "beyondQuotaBefore": [asdict(each) for each in queues_over_quota(base, snapshot)],
        "atLimit": [asdict(each) for each in queues_at_limit(head, snapshot)],
    }


def _known(base: Stack, head: Stack, snapshot: Snapshot) -> Iterator[Section]:
    before = {each.queue for each in queues_over_quota(base, snapshot)}
    over = tuple(_over(each, is_new=each.queue not in before) for each in queues_over_quota(head, snapshot))
    yield Section("Queues that hold more than their new quota", 3, (Items(over or (("None.",),)),))
    full = tuple(_full(each) for each in queues_at_limit(head, snapshot))
    yield Section("Queues that cannot start more work", 2, (Items(full or (("None.",),)),))


def _over(found: QueueOveruse, *, is_new: bool) -> Text:
    quota = format_figure(found.resource, found.quota)
    since = "only with head" if is_new else "with base as well"
    rule = "the excess can be reclaimed as soon as a queue within its quota needs it"
    return (
        UntrustedText(found.queue),
        f" holds {many(found.used, 'GPU')} and has a quota of {quota}, {since}: {rule}.",
    )


def _full(found: QueueOveruse) -> Text:
    limit = format_figure(found.resource, found.quota)
    return (
        UntrustedText(found.queue),
        f" holds {many(found.used, 'GPU')} and may hold {limit}: no more work starts in it.",
    )
