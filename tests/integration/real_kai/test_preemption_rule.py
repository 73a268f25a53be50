"""The rule by which a gang passes for KAI to make room (muster/controller/kai/preemption.py), against KAI's
own code: what the rule allows, KAI 0.12.0 does, whole, in random worlds.

The player is KAI's scheduler over a snapshot. MUSTER_KAI_WORLDS is how many worlds.
"""

import os
import random
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import msgspec

from muster.controller.gangs.demand import PodNeeds
from muster.controller.gangs.objects import Node as ApiNode
from muster.controller.gangs.usage import used_by
from muster.controller.gangs.verify import PodDemand
from muster.controller.kai.ledger import Ledger
from muster.controller.kai.objects import GatedPod, Queue
from muster.controller.kai.preemption import (
    HOSTNAME,
    Claimant,
    Part,
    Preemption,
    Rivals,
    RunningGang,
    preemption_of,
)
from muster.controller.kai.queue_capacity import QueueDemand, QueueUsage
from muster.controller.kube.resource import Key
from muster.live.snapshot import GroupPod, PodGroup
from muster.model.gangpolicy import OverQuota
from muster.model.names import GPU_RESOURCE
from muster.preview.whatif.kai import group_manifest, pod_manifest
from muster.replay.kai_player import KaiWorld, Shard, play_kai
from tests.integration.real_kai.bodies import queue_body
from tests.integration.real_kai.random_worlds import PRIORITIES, priority_classes

_WORLDS: Final = int(os.environ.get("MUSTER_KAI_WORLDS", "40"))
_FIRST: Final = int(os.environ.get("MUSTER_KAI_FIRST_WORLD", "0"))
_NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Drawn:
    """Gangs that run, and `claimant`, which waits."""

    queues: list[dict[str, Any]] = field(default_factory=list)
    nodes: list[dict[str, Any]] = field(default_factory=list)
    gangs: list[PodGroup] = field(default_factory=list)
    claimant: PodGroup = field(init=False)


def _drawn(number: int) -> Drawn:
    dice, drawn = random.Random(number), Drawn()
    for above in range(dice.randint(1, 2)):
        drawn.queues.append(_queue(dice, f"d{above}", ""))
        for below in range(dice.randint(1, 3)):
            drawn.queues.append(_queue(dice, f"d{above}-t{below}", f"d{above}"))
    free = {f"n{index}": dice.choice((1, 1, 2, 4, 8)) for index in range(dice.randint(1, 5))}
    drawn.nodes = [_node(name, gpus) for name, gpus in free.items()]
    leaves = [each["metadata"]["name"] for each in drawn.queues if "parentQueue" in each["spec"]]
    for index in range(dice.randint(2, 8)):
        gang = _gang(dice, f"g{index}", dice.choice(leaves), free)
        drawn.gangs += [gang] if gang else []
    count, gpus = dice.randint(1, 4), dice.choice((1, 1, 2))
    drawn.claimant = PodGroup(
        namespace="space",
        name="claimant",
        queue=dice.choice(leaves),
        created=_NOW,
        started=None,
        pods=tuple(_pod(f"claimant-{index}", gpus, "") for index in range(count)),
        min_member=count,
        priority_class=dice.choice(tuple(PRIORITIES)),
    )
    return drawn


def _queue(dice: random.Random, name: str, parent: str) -> dict[str, Any]:
    quota = dice.choice((0, 1, 2, 2, 3, 4) if parent else (-1, 4, 4, 6, 8))
    limit = dice.choice((-1, -1, -1, quota, max(quota, 0) + 2))
    gpu = {"quota": quota, "limit": limit, "overQuotaWeight": dice.choice((0, 1, 1, 2))}
    return queue_body(name, gpu, parent=parent)


def _node(name: str, gpus: int) -> dict[str, Any]:
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", GPU_RESOURCE: str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name}},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _pod(name: str, gpus: int, node: str) -> GroupPod:
    return GroupPod(name=name, requests={"cpu": 1000, GPU_RESOURCE: gpus}, node=node)


def _gang(dice: random.Random, name: str, queue: str, free: dict[str, int]) -> PodGroup | None:
    gpus, count = dice.choice((1, 1, 2)), dice.randint(1, 4)
    pods: list[GroupPod] = []
    for index in range(count):
        fitting = [node for node, left in free.items() if left >= gpus]
        if fitting:
            node = dice.choice(fitting)
            free[node] -= gpus
            pods.append(_pod(f"{name}-{index}", gpus, node))
    if not pods:
        return None
    started = _NOW - timedelta(minutes=dice.randint(1, 100))
    return PodGroup(
        namespace="space",
        name=name,
        queue=queue,
        created=started,
        started=started,
        pods=tuple(pods),
        min_member=dice.randint(1, len(pods)) if dice.random() < 0.3 else len(pods),
        priority_class=dice.choice(("train", "train", *PRIORITIES)),
    )


# The rule


def _allowed(drawn: Drawn) -> Preemption | None:
    queues = [msgspec.convert(each, Queue) for each in drawn.queues]
    running = [_running(gang) for gang in drawn.gangs]
    usage: dict[Hashable, Sequence[QueueUsage]] = {
        pod.metadata.name: [QueueUsage(demand=demand, is_bound=True)]
        for gang in running
        for part in gang.parts
        for pod, demand in zip(part.pods, part.demands, strict=True)
    }
    nodes = {each["metadata"]["name"]: msgspec.convert(each, ApiNode) for each in drawn.nodes}
    pods = [pod for gang in running for part in gang.parts for pod in part.pods]
    used = used_by(pods)
    left = tuple(node for name, node in nodes.items() if name not in used)
    rivals = Rivals(gangs=tuple(running), nodes=nodes, used=used, left=left)
    waiting, first = drawn.claimant, drawn.claimant.pods[0]
    amounts = {name: Fraction(amount) for name, amount in first.requests.items()}
    needs = PodNeeds(amounts=amounts | {"cpu": Fraction(1)}, node_selector={}, tolerations=())
    total = tuple(_demand(waiting, pod) for pod in waiting.pods)
    claimant = Claimant(
        queue=waiting.queue,
        priority=PRIORITIES[waiting.priority_class],
        demands=total,
        pods=(PodDemand(name="workers", pool="", count=len(waiting.pods), needs=needs),),
        holder="claimant",
        turn=None,
        over_quota=OverQuota.ALLOW,
    )
    return preemption_of(claimant, rivals, Ledger(queues, usage), now=_NOW)


def _demand(gang: PodGroup, pod: GroupPod) -> QueueDemand:
    amounts = {"gpu": Fraction(pod.requests[GPU_RESOURCE]), "cpu": Fraction(1), "memory": Fraction(0)}
    return QueueDemand(
        queue=gang.queue, amounts=amounts, is_preemptible=PRIORITIES[gang.priority_class] < 100
    )


def _running(gang: PodGroup) -> RunningGang:
    pods = [msgspec.convert(pod_manifest(gang, pod), GatedPod) for pod in gang.pods]
    pairs = list(zip(pods, (_demand(gang, pod) for pod in gang.pods), strict=True))
    groups = [pairs[: gang.min_member], *([pair] for pair in pairs[gang.min_member :])]
    return RunningGang(
        cluster=Key("space", gang.name),
        queue=gang.queue,
        priority=PRIORITIES[gang.priority_class],
        is_preemptible=PRIORITIES[gang.priority_class] < 100,
        parts=tuple(
            Part(pods=tuple(pod for pod, _ in group), demands=tuple(demand for _, demand in group))
            for group in groups
        ),
        started=gang.started,
    )


# KAI


def _play(drawn: Drawn, hosts: tuple[str, ...], program: Path) -> dict[str, int]:
    """Pods that run in the end, by gang."""
    groups = [*drawn.gangs, drawn.claimant]
    pods = [pod_manifest(group, pod) for group in groups for pod in group.pods]
    rule = {"key": HOSTNAME, "operator": "In", "values": list(hosts)}
    required = {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}
    for pod in pods:
        if pod["metadata"]["name"].startswith("claimant") and hosts:
            affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
            pod["spec"]["affinity"] = affinity
    world = KaiWorld(
        taken=_NOW,
        shards=[Shard()],
        queues=drawn.queues,
        nodes=drawn.nodes,
        pod_groups=[group_manifest(group) for group in groups],
        pods=pods,
        priority_classes=priority_classes(),
    )
    played = play_kai(world, program=program)
    return {label.partition("/")[2]: len(each.running) for label, each in played.groups.items()}


def test_what_the_rule_allows_kai_does(program: Path) -> None:
    allowed, missed, in_part, wrong = 0, 0, 0, list[str]()
    for number in range(_FIRST, _FIRST + _WORLDS):
        drawn = _drawn(number)
        found = _allowed(drawn)
        fates = _play(drawn, found.hosts if found else (), program)
        is_whole = fates.get("claimant", 0) == len(drawn.claimant.pods)
        if found is None:
            missed += is_whole
            continue
        allowed += 1
        in_part += any(0 < fates.get(gang.name, 0) < gang.min_member for gang in drawn.gangs)
        if not is_whole:
            wrong.append(f"{number} ({found.taking}): {fates}")
    print(
        f"{_WORLDS} worlds: {allowed} gangs allowed, {len(wrong)} of them not started; "
        f"{in_part} with a victim left in part; {missed} gangs started that were not allowed"
    )
    assert allowed > _WORLDS / 20
    # KAI 0.12 takes queues of equal shares in an order of chance, and may give a reclaim up (its #1764).
    assert len(wrong) <= allowed / 100, "\n".join(wrong)
