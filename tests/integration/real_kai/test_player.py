"""The player of KAI: its own scheduler over a snapshot. What is expected is worked out by hand from KAI's
documentation, but for the digest, which pins the decisions of this version.
"""

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from muster.live.snapshot import GroupPod, Node, PodGroup
from muster.model.names import GPU_RESOURCE
from muster.preview.whatif.kai import group_manifest, pod_manifest, to_config, to_manifest
from muster.replay.kai_player import KaiWorld, Shard, play_kai
from muster.replay.player import UnplayableError
from tests.integration.real_kai.bodies import NO_BOUND, queue_body
from tests.integration.real_kai.random_worlds import priority_classes, random_world

_NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
_DRAWN: Final = 20
# Of the fates by KAI v0.12.0 in the first twenty worlds. A new version with another one decides otherwise.
_DIGEST: Final = "9c1f47380dde04fe42536a996f7a0a84ce0b487b69e26f8b7b8559cae68f509d"


def _queue(name: str, quota: int, *, parent: str = "all", **more: Any) -> dict[str, Any]:
    return queue_body(name, NO_BOUND | {"quota": quota}, parent=parent, **more)


def _gang(
    name: str, queue: str, *nodes: str, priority: str = "train", least: int | None = None, age: int = 60
) -> PodGroup:
    """With a pod of one GPU for each node; "" for one that waits."""
    pods = tuple(
        GroupPod(name=f"{name}-{index}", requests={"cpu": 1000, GPU_RESOURCE: 1}, node=node)
        for index, node in enumerate(nodes)
    )
    return PodGroup(
        namespace=queue,
        name=name,
        queue=queue,
        created=_NOW - timedelta(minutes=age),
        started=_NOW - timedelta(minutes=age) if any(nodes) else None,
        pods=pods,
        min_member=len(nodes) if least is None else least,
        priority_class=priority,
    )


def _world(*gangs: PodGroup, gpus: int = 4, queues: tuple[dict[str, Any], ...] = (), **more: Any) -> KaiWorld:
    """One node, and by default two queues with half of its GPUs each."""
    node = Node(name="n", room={"cpu": 64000, "memory": 2**38, "pods": 110, GPU_RESOURCE: gpus})
    return KaiWorld(
        taken=_NOW,
        shards=[Shard()],
        queues=[_queue("all", -1, parent=""), *(queues or (_queue("a", 2), _queue("b", 2)))],
        nodes=[to_manifest(node)],
        pod_groups=[group_manifest(each) for each in gangs],
        pods=[pod_manifest(each, pod) for each in gangs for pod in each.pods],
        priority_classes=priority_classes(),
        **more,
    )


def test_work_over_quota_is_evicted_as_a_whole_for_work_within_its_quota(program: Path) -> None:
    over = _gang("over", "a", "n", "n", "n", "n")
    played = play_kai(_world(over, _gang("mine", "b", "", ""), returns=True), program=program)
    assert played.is_settled
    evicted = [each for each in played.decisions if each.kind == "evicted"]
    assert [(each.action, each.group, len(each.pods), each.by) for each in evicted] == [
        ("reclaim", "a/over", 4, "b/mine")
    ]
    assert len(played.groups["b/mine"].running) == 2
    assert len(played.groups["a/over"].waiting) == 4
    assert played.groups["a/over"].why


def test_pods_above_the_minimum_are_enough_where_they_are(program: Path) -> None:
    elastic = _gang("elastic", "a", "n", "n", "n", "n", least=1)
    played = play_kai(_world(elastic, _gang("mine", "b", "", "")), program=program)
    assert len(played.groups["b/mine"].running) == 2
    assert len(played.groups["a/elastic"].running) == 2


def test_a_higher_priority_preempts_in_its_own_queue_alone(program: Path) -> None:
    low = _gang("low", "a", "n", "n")
    other = _gang("other", "b", "n", "n")
    urgent = _gang("urgent", "a", "", "", priority="build")
    played = play_kai(_world(low, other, urgent), program=program)
    assert {(each.action, each.group) for each in played.decisions if each.kind == "evicted"} == {
        ("preempt", "a/low")
    }
    assert len(played.groups["b/other"].running) == 2
    assert len(played.groups["a/urgent"].running) == 2
    assert not played.groups["a/low"].waiting, "without an owner nothing comes back"


def test_a_gang_that_does_not_fit_starts_with_no_pod(program: Path) -> None:
    big = _gang("big", "a", *[""] * 5)
    played = play_kai(_world(big, _gang("small", "b", "")), program=program)
    assert played.groups["a/big"].running == {}
    assert len(played.groups["b/small"].running) == 1


def test_a_minimum_runtime_protects_work_until_the_patience_ends(program: Path) -> None:
    queues = (_queue("a", 2, reclaimMinRuntime="10m"), _queue("b", 2, reclaimMinRuntime="10m"))
    over = _gang("over", "a", "n", "n", "n", "n", age=5)
    world = _world(over, _gang("mine", "b", ""), queues=queues)
    assert not play_kai(world, program=program).groups["b/mine"].running
    assert play_kai(replace(world, patience=301), program=program).groups["b/mine"].running


def test_gangs_of_one_name_in_two_namespaces_are_two(program: Path) -> None:
    over = _gang("train", "a", "n", "n", "n", "n")
    played = play_kai(_world(over, _gang("train", "b", "", ""), returns=True), program=program)
    evicted = [each for each in played.decisions if each.kind == "evicted"]
    assert [(each.group, len(each.pods), each.by) for each in evicted] == [("a/train", 4, "b/train")]
    assert (len(played.groups["a/train"].waiting), len(played.groups["b/train"].running)) == (4, 2)


def test_a_queue_that_does_not_exist_is_named(program: Path) -> None:
    played = play_kai(_world(_gang("lost", "c", "")), program=program)
    assert played.groups["c/lost"].why == "queue c does not exist"


def test_past_usage_is_refused(program: Path) -> None:
    config = to_config({"usageDBConfig": {"clientType": "prometheus"}})
    with pytest.raises(UnplayableError, match="past usage"):
        play_kai(replace(_world(), shards=[Shard(config=config)]), program=program)


def test_the_same_worlds_give_the_same_fates(program: Path) -> None:
    """Of queues with equal shares KAI takes one by chance, so the way to a fate may differ."""
    first, second = (_fates(program) for _ in range(2))
    assert first == second
    assert hashlib.sha256(json.dumps(first).encode()).hexdigest() == _DIGEST


def _fates(program: Path) -> list[dict[str, tuple[int, int]]]:
    """Of each world: how many pods of each gang run, and how many wait."""
    played = [play_kai(_drawn(number), program=program) for number in range(_DRAWN)]
    assert all(each.is_settled for each in played)
    return [
        {label: (len(each.running), len(each.waiting)) for label, each in sorted(found.groups.items())}
        for found in played
    ]


def _drawn(number: int) -> KaiWorld:
    """With the names as uids and a second between creations: an API server would choose both."""
    drawn = random_world(number)
    for index, each in enumerate((*drawn.groups, *drawn.pods)):
        created = (_NOW + timedelta(seconds=index)).strftime("%Y-%m-%dT%H:%M:%SZ")
        each["metadata"] |= {"uid": each["metadata"]["name"], "creationTimestamp": created}
    for pod in drawn.pods:
        pod["status"] = {"phase": "Running" if "nodeName" in pod["spec"] else "Pending"}
    return KaiWorld(
        taken=_NOW,
        shards=[Shard(config=to_config({"placementStrategy": drawn.placement}))],
        queues=drawn.queues,
        nodes=drawn.nodes,
        pod_groups=drawn.groups,
        pods=drawn.pods,
        priority_classes=priority_classes(),
        returns=True,
    )
