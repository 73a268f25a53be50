"""Where the real KAI places pods, by the stack's words: on few nodes or on many, and in parts of one GPU."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from muster.config import load
from muster.live.snapshot.kai import GROUP_ANNOTATION
from muster.local.kai import DEVICE_ANNOTATION, RESERVATIONS
from muster.model.names import GPU_FRACTION, GPU_GROUP_LABEL
from muster.render import kai
from tests.integration.real_kai.bodies import NO_BOUND, Json, fake_node, lone_pod
from tests.integration.real_kai.cluster import Cluster, running_cluster
from tests.integration.real_kai.random_worlds import WORLD_LABEL, RandomWorld
from tests.waiting import eventually

_STACK: Final = Path(__file__).resolve().parents[3] / "stacks" / "Pulumi.kai-prod.yaml"
# Of KAI 0.12.0: pkg/binder/common.
_SHARED: Final = "runai/shared-gpu-configmap"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("kai-placement"), has_player=False) as found:
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": RESERVATIONS}}
        found.plane.call("POST", "/api/v1/namespaces", space)
        yield found


def _placement(folder: Path, strategy: str) -> dict[str, str]:
    """What the stack renders for its scheduler when it writes this strategy."""
    written: dict[str, Any] = yaml.safe_load(_STACK.read_text())
    written["config"]["muster:kai"]["shard"]["placementStrategy"] = {"gpu": strategy, "cpu": strategy}
    file = folder / "Pulumi.placed.yaml"
    file.write_text(yaml.safe_dump(written))
    (shard,) = kai.shards(load(file))
    return dict(shard["spec"]["placementStrategy"])


def _world(name: str, placement: dict[str, str], nodes: list[Json], pods: list[Json]) -> RandomWorld:
    """Each pod is a gang of its own, and the queue has no bound."""
    spec = {"resources": dict.fromkeys(("gpu", "cpu", "memory"), NO_BOUND)}
    queues = [
        {
            "apiVersion": "scheduling.run.ai/v2",
            "kind": "Queue",
            "metadata": {"name": each},
            "spec": {**spec, **({} if each == name else {"parentQueue": name})},
        }
        for each in (name, f"{name}-team")
    ]
    groups = [
        {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": {"name": pod["metadata"]["name"], "namespace": name},
            "spec": {"minMember": 1, "queue": f"{name}-team", "priorityClassName": "train"},
        }
        for pod in pods
    ]
    for pod in pods:
        notes = pod["metadata"].setdefault("annotations", {})
        notes[GROUP_ANNOTATION] = pod["metadata"]["name"]
        # No controller takes the taint of new nodes away.
        pod["spec"]["tolerations"] = [{"operator": "Exists"}]
    for each in (*nodes, *queues, *groups, *pods):
        each["metadata"].setdefault("labels", {})[WORLD_LABEL] = name
    return RandomWorld(name=name, placement=placement, nodes=nodes, queues=queues, groups=groups, pods=pods)


def _nodes_of(cluster: Cluster, world: str) -> dict[str, str]:
    """Pod -> node, of those that have one."""
    pods = cluster.items("/api/v1/pods", world)
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods if "nodeName" in pod["spec"]}


@pytest.mark.parametrize("gpus", [1, 0], ids=["gpu", "cpu"])
@pytest.mark.parametrize(("strategy", "used"), [("binpack", 1), ("spread", 2)])
def test_pods_are_packed_or_spread_as_the_stack_says(
    cluster: Cluster, tmp_path: Path, strategy: str, used: int, gpus: int
) -> None:
    name = f"{strategy}-{gpus}"
    nodes = [fake_node(f"{name}-{number}", 2 * gpus) for number in range(2)]
    pods = [lone_pod(f"{name}-pod-{number}", f"{name}-team", "train", gpus=gpus) for number in range(2)]
    world = _world(name, _placement(tmp_path, strategy), nodes, pods)
    cluster.create(world)
    with cluster.scheduler(name, world.placement):
        eventually("both pods have a node", lambda: len(_nodes_of(cluster, name)) == 2)
    assert len({*_nodes_of(cluster, name).values()}) == used


def test_two_halves_share_one_gpu_and_a_third_waits(cluster: Cluster, tmp_path: Path) -> None:
    name = "halves"
    pods = [lone_pod(f"half-{number}", f"{name}-team", "train", gpus=0) for number in range(3)]
    for pod in pods:
        # The second as KAI's admission webhook writes it.
        pod["metadata"]["annotations"] = {GPU_FRACTION: "0.5", _SHARED: pod["metadata"]["name"]}
    world = _world(name, _placement(tmp_path, "binpack"), [fake_node(name, 1)], pods)
    cluster.create(world)

    def two_are_placed() -> bool:
        return len(_nodes_of(cluster, name)) == 2

    with cluster.scheduler(name, world.placement) as scheduler:
        eventually("two halves have a node", two_are_placed, step=lambda: _report_device(cluster))
        scheduler.settle()
    assert two_are_placed()
    placed = [pod for pod in cluster.items("/api/v1/pods", name) if "nodeName" in pod["spec"]]
    (group,) = {pod["metadata"]["labels"][GPU_GROUP_LABEL] for pod in placed}
    (reservation,) = _reservations(cluster)
    assert reservation["metadata"]["labels"][GPU_GROUP_LABEL] == group
    for pod in placed:
        config = f"/api/v1/namespaces/{name}/configmaps/{pod['metadata']['annotations'][_SHARED]}-0"
        assert cluster.plane.call("GET", config)["data"]["GPU_PORTION"] == "0.50"


def _reservations(cluster: Cluster) -> list[Json]:
    return list(cluster.plane.call("GET", f"/api/v1/namespaces/{RESERVATIONS}/pods")["items"])


def _report_device(cluster: Cluster) -> None:
    """What KAI's reservation pod does on a node with a GPU: it names the device that it holds."""
    for pod in _reservations(cluster):
        if DEVICE_ANNOTATION not in pod["metadata"].get("annotations", {}):
            path = f"/api/v1/namespaces/{RESERVATIONS}/pods/{pod['metadata']['name']}"
            change = {"metadata": {"annotations": {DEVICE_ANNOTATION: "GPU-0"}}}
            cluster.plane.call("PATCH", path, change, content_type="application/merge-patch+json")
