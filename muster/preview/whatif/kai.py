"""What-if for stacks that KAI schedules: KAI's own scheduler decides about one side, in the player of KAI.

First what the player gets: nodes, queues, schedulers, pod groups and pods. Then how its decisions become the
outcome of a what-if, and both outcomes compared.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from muster.live.fields import mapping, text
from muster.live.snapshot import GroupPod, Node, PodGroup, Snapshot, SubGroup, Taint
from muster.live.snapshot import kai as podgroups
from muster.local.kai import scheduler_config, shard_flags
from muster.model import names
from muster.model.gangpolicy import KaiPolicy, OverQuota
from muster.model.kai import Sharding
from muster.model.kai.tree import sharding
from muster.model.pools import Pool
from muster.model.quantities import many, parse_duration
from muster.model.stack import Scheduler, Stack
from muster.preview.compare.kai import QueueOveruse, format_figure, queues_at_limit, queues_over_quota
from muster.preview.document import Items, Report, Section, Text, UntrustedText
from muster.preview.whatif import report as comparison_report
from muster.preview.whatif.report import Comparison, Undecided
from muster.preview.whatif.scenario import Decision, Outcome, WorkloadState
from muster.render import kai
from muster.render.manifest import Manifest
from muster.replay import stored
from muster.replay.kai_player import (
    STALE_SECONDS,
    VERSION,
    KaiDecision,
    KaiGroup,
    KaiPlayback,
    KaiWorld,
    Shard,
    play_kai,
)
from muster.replay.player import UnplayableError

# The nodes on which KAI places pods: those of the snapshot, and those that the stack's pools may still add.
#
# Whether a cloud has capacity cannot be known, so every pool counts as it is at its largest, and no node is
# held for one gang any more. A node that does not exist yet is like one of its pool, or where there is none,
# like the machine that the stack names.

_HOST: Final = "kubernetes.io/hostname"
_PODS: Final = 110


def all_nodes(stack: Stack, existing: Sequence[Node]) -> list[Node]:
    """Existing nodes, with those that the pools may add behind them."""
    existing = [_released(each) for each in existing]
    by_pool: defaultdict[str, list[Node]] = defaultdict(list)
    for each in existing:
        by_pool[each.labels.get(names.POOL_LABEL, "")].append(each)
    return [*existing, *(node for pool in stack.pools for node in _added(pool, by_pool[pool.name]))]


def flavors_of(stack: Stack, nodes: Sequence[Node]) -> dict[str, str]:
    """Node -> the flavor of its pool."""
    flavors = {pool.name: pool.flavor for pool in stack.pools}
    pools = {each.name: each.labels.get(names.POOL_LABEL, "") for each in nodes}
    return {name: flavors.get(pool, pool) for name, pool in pools.items()}


def _released(node: Node) -> Node:
    """Without the taint by which placeholders hold it for a gang behind the gate."""
    return replace(node, taints=tuple(each for each in node.taints if each.key != names.HELD_TAINT_KEY))


def _added(pool: Pool, siblings: Sequence[Node]) -> Iterator[Node]:
    """Like the sibling with the most room."""
    model = max(siblings, key=lambda each: sorted(each.room.items()), default=_machine_node(pool))
    for number in range(len(siblings), pool.max_nodes):
        name = f"{pool.name}-what-if-{number}"
        labels = {**model.labels, _HOST: name}
        yield replace(model, name=name, labels=labels, is_cordoned=False, is_ready=True)


def _machine_node(pool: Pool) -> Node:
    room = {
        "cpu": int(pool.machine.allocatable_cpu),
        "memory": int(pool.machine.allocatable_memory),
        "pods": _PODS,
    }
    taints: tuple[Taint, ...] = ()
    if pool.is_gpu:
        room[pool.device] = pool.slots_per_node
        taints = (Taint(pool.device, names.GPU_TAINT_VALUE, names.GPU_TAINT_EFFECT),)
    labels = {names.POOL_LABEL: pool.name, **pool.labels, **pool.device_labels}
    return Node(name=pool.name, room=room, labels=labels, taints=taints)


def to_manifest(node: Node) -> dict[str, Any]:
    amounts = stored.quantities(node.room)
    ready = {"type": "Ready", "status": "True" if node.is_ready else "False"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "uid": stored.uid("", node.name), "labels": dict(node.labels)},
        "spec": {
            "taints": [{"key": each.key, "value": each.value, "effect": each.effect} for each in node.taints],
            "unschedulable": node.is_cordoned,
        },
        "status": {"allocatable": amounts, "capacity": amounts, "conditions": [ready]},
    }


# The queues of a stack as KAI's player gets them, and the times by which KAI protects work in them.

_UNBOUND: Final = -1


def to_queues(stack: Stack) -> list[Manifest]:
    return [_within_policy(stack, each) for each in kai.queues(stack)]


def is_bounded(stack: Stack) -> bool:
    """Whether Muster's gate keeps gangs within their queue's quota of GPUs."""
    policy = stack.gang_admission.policy.kai or KaiPolicy()
    return stack.is_gated and policy.over_quota is not OverQuota.ALLOW


def protections(stack: Stack, queues: Sequence[Manifest]) -> list[int]:
    """Seconds of its run after which work is no longer protected, ascending."""
    return sorted({*_protections(queues), *_protections(kai.shards(stack))})


def refuse_roots(queues: Sequence[Manifest], used: Iterable[str]) -> None:
    """KAI 0.12's scheduler starts no work in a queue without a parent."""
    roots = {each["metadata"]["name"] for each in queues if not text(each, "spec", "parentQueue")}
    found = next((each for each in used if each in roots), None)
    if found is not None:
        raise UnplayableError(f"queue {found} has no parent and holds work, which KAI 0.12 would never start")


def _within_policy(stack: Stack, queue: Manifest) -> Manifest:
    """The gate is not played, so the quota by which it bounds gangs is the limit."""
    if not is_bounded(stack):
        return queue
    resources = queue["spec"]["resources"]
    gpu = resources["gpu"]
    if gpu["quota"] == _UNBOUND or _UNBOUND < gpu["limit"] <= gpu["quota"]:
        return queue
    bounded = {**resources, "gpu": {**gpu, "limit": gpu["quota"]}}
    return {**queue, "spec": {**queue["spec"], "resources": bounded}}


def _protections(manifests: Sequence[Mapping[str, Any]]) -> Iterator[int]:
    for each in manifests:
        for holder in (mapping(each, "spec"), mapping(each, "spec", "minRuntime")):
            for key in ("preemptMinRuntime", "reclaimMinRuntime"):
                if written := text(holder, key):
                    yield int(parse_duration(written).total_seconds()) + 1


# Each of KAI's schedulers.


def to_shards(stack: Stack) -> list[Shard]:
    """Every scheduler of the stack. UnplayableError where KAI 0.12 has no such setting."""
    key = names.POOL_LABEL if sharding(stack) is Sharding.PER_POOL else ""
    specs = [each["spec"] for each in kai.shards(stack)]
    return [Shard(args=shard_flags(spec, label_key=key), config=to_config(spec)) for spec in specs]


def to_config(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The scheduler's configuration file for a shard of this spec."""
    for kind in ("actions", "plugins"):
        for name, settings in mapping(spec, kind).items():
            if "priority" in mapping(settings):
                raise UnplayableError(f"KAI 0.12 has no priority of {kind}, which {name} has")
    return scheduler_config(spec)


# Pod groups and pods of a snapshot, as the API server has them.
#
# Muster's gate counts as removed: whether a cloud has the nodes that it waits for cannot be known.
# Gates of others stay.

_IMAGE: Final = "none"  # no pod is ever created from it


def group_manifest(group: PodGroup) -> dict[str, Any]:
    notes = {
        key: stored.format_time(at)
        for key, at in (
            (podgroups.STARTED_ANNOTATION, group.started),
            (podgroups.STALE_ANNOTATION, group.stale),
        )
        if at is not None
    }
    spec = {
        "minMember": group.min_member,
        "queue": group.queue,
        "priorityClassName": group.priority_class,
        "preemptibility": group.preemptibility,
        "topologyConstraint": dict(group.topology),
        "subGroups": [_sub_group(each) for each in group.sub_groups],
    }
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {**_metadata(group, group.name), "annotations": notes, "labels": _labels(group)},
        "spec": {key: value for key, value in spec.items() if value},
    }


def pod_manifest(group: PodGroup, pod: GroupPod) -> dict[str, Any]:
    labels = _labels(group)
    if pod.sub_group:
        labels[podgroups.SUB_GROUP_LABEL] = pod.sub_group
    if pod.gpu_groups:
        first, *more = pod.gpu_groups
        labels |= {
            names.GPU_GROUP_LABEL: first,
            **{f"{names.GPU_GROUP_LABEL}/{each}": each for each in more},
        }
    metadata = _metadata(group, pod.name) | {
        "annotations": {podgroups.GROUP_ANNOTATION: group.name, **pod.sharing},
        "labels": labels,
    }
    if pod.is_ending:
        metadata["deletionTimestamp"] = metadata["creationTimestamp"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": _pod_spec(pod),
        "status": {"phase": "Running" if pod.node else "Pending"},
    }


def _pod_spec(pod: GroupPod) -> dict[str, Any]:
    container = {"name": "work", "image": _IMAGE, "resources": {"requests": stored.quantities(pod.requests)}}
    spec: dict[str, Any] = {
        "schedulerName": names.KAI_SCHEDULER,
        "containers": [container],
        "nodeSelector": dict(pod.node_selector),
        "tolerations": [stored.toleration(each) for each in pod.tolerations],
        "schedulingGates": [{"name": each} for each in pod.gates if each != names.GANG_GATE],
    }
    if pod.node:
        spec["nodeName"] = pod.node
    if pod.terms:
        required = {"nodeSelectorTerms": [stored.term(each) for each in pod.terms]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return spec


def _metadata(group: PodGroup, name: str) -> dict[str, Any]:
    created: datetime = group.created
    return {
        "namespace": group.namespace,
        "name": name,
        "uid": stored.uid(group.namespace, name),
        "creationTimestamp": stored.format_time(created),
    }


def _labels(group: PodGroup) -> dict[str, str]:
    return {names.POOL_LABEL: group.partition} if group.partition else {}


def _sub_group(found: SubGroup) -> Mapping[str, Any]:
    described = {
        "name": found.name,
        "minMember": found.min_member,
        "parent": found.parent,
        "topologyConstraint": dict(found.topology),
    }
    return {key: value for key, value in described.items() if value}


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
        pod_groups=[group_manifest(each) for each in groups],
        pods=[pod_manifest(group, pod) for group in groups for pod in group.pods],
        returns=True,
        patience=max([STALE_SECONDS, *protections(stack, queues)]),
        seconds=seconds,
    )


def why_undecided(base: Stack, head: Stack, snapshot: Snapshot) -> str:
    """Why nothing can be simulated; "" where it can. A full sentence."""
    if snapshot.scheduler is not Scheduler.KAI:
        return "The snapshot is not from KAI, so what its queues hold is unknown."
    if not base.scheduler is head.scheduler is Scheduler.KAI:
        return "One side is scheduled by Kueue, and its work has other labels."
    if snapshot.lacks_work:
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
    known = _overuse_sections(comparison.base_stack, comparison.head_stack, snapshot)
    return Report((replace(found, sections=(*found.sections, *known, assumed)),))


def to_json(comparison: Comparison, snapshot: Snapshot) -> dict[str, Any]:
    """The same for programs. `untold` lists what is assumed."""
    return {
        **comparison_report.to_json(comparison),
        "scheduler": "kai",
        "decided": True,
        "untold": list(ASSUMPTIONS),
        **_overuse_json(comparison.base_stack, comparison.head_stack, snapshot),
    }


def undecided_report(name: str, base: Stack, head: Stack, snapshot: Snapshot, *, why: str) -> Report:
    """Queues that hold more than their new quota or limit, and the questions that remain open. `why`: why
    nothing is simulated.
    """
    known = _overuse_sections(base, head, snapshot) if snapshot.scheduler is Scheduler.KAI else ()
    return Undecided(name, Scheduler.KAI, why).to_report(known)


def undecided_json(name: str, base: Stack, head: Stack, snapshot: Snapshot, *, why: str) -> dict[str, Any]:
    """The same for programs."""
    found = Undecided(name, Scheduler.KAI, why).to_json()
    return {**found, **_overuse_json(base, head, snapshot)} if snapshot.scheduler is Scheduler.KAI else found


def _overuse_json(base: Stack, head: Stack, snapshot: Snapshot) -> dict[str, Any]:
    return {
        "beyondQuota": [asdict(each) for each in queues_over_quota(head, snapshot)],
        "beyondQuotaBefore": [asdict(each) for each in queues_over_quota(base, snapshot)],
        "atLimit": [asdict(each) for each in queues_at_limit(head, snapshot)],
    }


def _overuse_sections(base: Stack, head: Stack, snapshot: Snapshot) -> Iterator[Section]:
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
