"""Gangs of kai-prod on nodes that the real Karpenter buys for their placeholders, before the real KAI 0.12.0.

Three controllers look at the same pods and nodes: kube-scheduler places placeholders, Karpenter buys and
removes nodes, KAI places the gang. The cloud behind Karpenter is a stand-in, and its nodes are KWOK's.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import pytest

from muster.local.karpenter import CRDS, NODE_CLAIMS, NODE_POOLS, InstanceType, node_pool, stock_key
from muster.model.gangpolicy import RetryPolicy
from muster.model.stack import Stack
from tests import built, envtest
from tests.envtest.controllers import define, karpenter, stock
from tests.envtest.process import Programs
from tests.integration.pod_autoscaler import PLACEHOLDERS, scheduler, taint_of
from tests.integration.real_kai.bodies import POOL, Gang
from tests.integration.real_kai.placed import ask_by_placeholders
from tests.integration.real_kai.programs import Running
from tests.integration.real_kai.world import World

_TYPE: Final = InstanceType(name="g5.2xlarge", cpu="8", memory="32Gi", gpus=1, price=1.2)
_PROGRAMS: Final = ("karpenter", "kube-scheduler")
_BOUGHT: Final = "/api/v1/nodes?labelSelector=karpenter.sh/nodepool"


@dataclass(slots=True)
class Cloud:
    """What Karpenter buys in."""

    world: World
    stack: Stack

    def sells(self, count: int) -> None:
        has = {stock_key(_TYPE.name, "zone-a"): str(count), "launch": "0s", "unavailable-for": "2s"}
        stock(self.world.server, has)

    def bought(self) -> list[dict[str, Any]]:
        return self.world.items(_BOUGHT)


@pytest.fixture(scope="module")
def programs(plane: tuple[envtest.ControlPlane, Running]) -> Programs:
    """Karpenter's kinds are on the plane."""
    server, _ = plane
    found = envtest.found(_PROGRAMS, CRDS) or built.absent("karpenter", build="make test-karpenter")
    define(server, found)
    return found


@pytest.fixture
def cloud(world: World, stack: Stack, programs: Programs) -> Iterator[Cloud]:
    server = world.server
    server.apply(node_pool(POOL, [_TYPE.name]), f"{NODE_POOLS}/{POOL}")
    with scheduler(server, programs), karpenter(server, programs, [_TYPE]):
        one = Cloud(world, stack)
        yield one
        world.ours.kill_all()
        server.call("DELETE", f"/apis/ray.io/v1/namespaces/{world.namespace}/rayclusters")
        for path in (PLACEHOLDERS, f"/api/v1/namespaces/{world.namespace}/pods"):
            server.call("DELETE", f"{path}?gracePeriodSeconds=0")
        server.call("DELETE", NODE_CLAIMS)
        one.world.eventually("the nodes are gone", lambda: not one.bought() and not world.items(NODE_CLAIMS))


def test_kai_starts_all_of_a_gang_on_the_nodes_that_karpenter_has_bought(cloud: Cloud) -> None:
    world = cloud.world
    ask_by_placeholders(world, cloud.stack)
    cloud.sells(2)
    world.ours.start_manager(world.server.kubeconfig(), "--read-events")
    world.submit("a", queue="training", gang=Gang(workers=3))
    cloud.world.eventually("it says how many have come", lambda: f"2 of 3 {POOL} nodes" in world.told("a"))
    assert world.gated("a") == 4
    cloud.sells(9)
    cloud.world.eventually("KAI starts all of it", lambda: world.bound("a") == 4)
    cloud.world.eventually("the taints are gone", lambda: not any(map(taint_of, cloud.bought())))
    assert not world.items(PLACEHOLDERS)
    assert len(cloud.bought()) == 3, "no node is bought for a pod that has a placeholder"


def test_with_stock_for_a_part_of_it_no_pod_passes_its_gate_and_the_nodes_go(cloud: Cloud) -> None:
    world = cloud.world
    pauses = RetryPolicy(base=timedelta(minutes=20), max=timedelta(minutes=20))
    ask_by_placeholders(world, cloud.stack, retry=pauses)
    cloud.sells(2)
    world.ours.start_manager(world.server.kubeconfig(), "--read-events")
    world.submit("a", queue="training", gang=Gang(workers=3))
    cloud.world.eventually("its pods wait behind the gate", lambda: world.gated("a") == 4)

    def all_wait(reached: Callable[[], object]) -> Callable[[], object]:
        def look() -> object:
            assert world.gated("a") == 4, world.explained()
            return reached()

        return look

    cloud.world.eventually("two nodes have come", all_wait(lambda: f"2 of 3 {POOL} nodes" in world.told("a")))
    # Only now: a busy machine would give up on fewer.
    ask_by_placeholders(world, cloud.stack, provision_timeout=timedelta(seconds=20), retry=pauses)
    cloud.world.eventually("it is given up", all_wait(lambda: "released everything" in world.told("a")))
    assert f"2 of 3 {POOL} nodes" in world.told("a")
    cloud.world.eventually("the placeholders go", all_wait(lambda: not world.items(PLACEHOLDERS)))
    cloud.world.eventually("the nodes go", all_wait(lambda: not cloud.bought()))
