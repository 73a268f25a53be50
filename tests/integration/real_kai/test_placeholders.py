"""Gangs of kai-prod by placeholders, before the real KAI 0.12.0 and the real scheduler."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from muster.model import names
from muster.model.stack import Stack
from tests import built
from tests.integration.pod_autoscaler import NODES, PLACEHOLDERS, Autoscaler, scheduler, taint_of
from tests.integration.real_kai.bodies import POOL, Gang, fake_node
from tests.integration.real_kai.placed import ask_by_placeholders
from tests.integration.real_kai.world import World

_GPU_TAINT = {"key": names.GPU_TAINT_KEY, "value": names.GPU_TAINT_VALUE, "effect": "NoSchedule"}


@dataclass(slots=True, kw_only=True)
class Cloud(Autoscaler):
    """Nodes of one GPU, kept alive by KWOK."""

    world: World

    def make_node(self, name: str, pool: str) -> None:
        body = fake_node(name, 1)
        self.plane.call("POST", NODES, {**body, "spec": {"taints": [_GPU_TAINT]}})

    def gpu_nodes(self) -> list[dict[str, Any]]:
        return [node for node in self.nodes() if node["metadata"]["labels"].get(names.POOL_LABEL) == POOL]

    def held(self) -> list[dict[str, Any]]:
        """Placeholders with a node."""
        return [pod for pod in self.world.items(PLACEHOLDERS) if pod["spec"].get("nodeName")]

    def eventually(self, what: str, reached: Callable[[], object]) -> None:
        self.world.eventually(what, reached, self.step)


@pytest.fixture
def cloud(world: World, stack: Stack) -> Iterator[Cloud]:
    ask_by_placeholders(world, stack)
    with scheduler(world.server, built.programs(("kube-scheduler",))):
        world.ours.start_manager(world.server.kubeconfig())
        one = Cloud(world.server, world=world)
        yield one
        world.server.call("DELETE", f"{PLACEHOLDERS}?gracePeriodSeconds=0")


def test_kai_starts_all_of_a_gang_on_the_nodes_that_placeholders_have_brought(cloud: Cloud) -> None:
    world = cloud.world
    cloud.stock[POOL] = 2
    world.submit("a", queue="training", gang=Gang(workers=3))
    cloud.eventually("two placeholders have nodes", lambda: len(cloud.held()) == 2)
    cloud.eventually("it says so", lambda: f"2 of 3 {POOL} nodes" in world.told("a"))
    assert world.gated("a") == 4
    cloud.stock[POOL] = 9
    cloud.eventually("KAI starts all of it", lambda: world.bound("a") == 4)
    cloud.eventually("the taints are gone", lambda: not any(map(taint_of, cloud.gpu_nodes())))
    assert not world.items(PLACEHOLDERS)
    assert len(cloud.gpu_nodes()) == 3, "no node is bought for a pod that has a placeholder"


def test_what_grows_beyond_the_minimum_gets_its_nodes_in_the_same_way(cloud: Cloud) -> None:
    world = cloud.world
    cloud.stock[POOL] = 9
    world.submit("a", queue="training", gang=Gang(workers=2, least=2))
    cloud.eventually("the gang runs", lambda: world.bound("a") == 3)
    world.scale("a", 5)
    cloud.eventually("all of it runs", lambda: world.bound("a") == 6)
    cloud.eventually("the taints are gone", lambda: not any(map(taint_of, cloud.gpu_nodes())))
    assert len(cloud.gpu_nodes()) == 5
