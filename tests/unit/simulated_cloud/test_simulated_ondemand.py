"""Ordinary unschedulable pods buy nodes, and only where a pool says so."""

from dataclasses import replace
from typing import Any

from muster.local.simulated_cloud.objects import Pod
from tests.unit.simulated_cloud.world import ONE_GPU, World, offering, pool


def _pod(name: str, since: float) -> Pod:
    return Pod("team-a", name, f"uid-{name}", ONE_GPU, unschedulable=since)


def _world(**changes: object) -> World:
    offered: dict[str, Any] = {"on_demand": True, "stock": 3, "max_nodes": 3, "classes": frozenset()}
    world = World(offering(pool(**{**offered, **changes})))
    for index in range(2):
        world.pods[f"pod-{index}"] = _pod(f"pod-{index}", world.now + index)
    return world


def test_each_waiting_pod_gets_one_node_and_no_more() -> None:
    world = _world()
    world.run(60)
    assert len(world.bought) == 2
    assert all(not node.owner_uid for node in world.nodes.values())


def test_pods_that_ask_for_gpus_wait_half_a_minute_and_then_get_all_their_nodes_at_once() -> None:
    """cluster-autoscaler's buffer: a gang of plain pods is one batch."""
    world = _world(provision_delay=0.0)
    world.pods["pod-1"] = replace(world.pods["pod-1"], unschedulable=world.now)
    world.run(29)
    assert not world.bought
    world.run(1)
    assert len(world.bought) == 2


def test_an_expendable_pod_buys_nothing() -> None:
    world = _world()
    world.pods = {
        "expendable": replace(world.pods["pod-0"], priority=-100),
        "low": replace(world.pods["pod-1"], priority=-10),
    }
    world.run(60)
    assert len(world.bought) == 1


def test_a_pool_that_is_not_on_demand_buys_for_nobody() -> None:
    world = _world(on_demand=False)
    world.run(60)
    assert not world.bought


def test_gated_and_consuming_pods_never_buy() -> None:
    world = _world()
    world.pods = {
        "gated": replace(world.pods["pod-0"], gated=True),
        "consuming": replace(world.pods["pod-1"], consumes="gang"),
    }
    world.run(60)
    assert not world.bought


def test_stock_bounds_on_demand_too() -> None:
    world = _world(stock=1)
    world.run(60)
    assert len(world.nodes) == 1


def test_a_pool_whose_machines_fail_is_left_alone_for_a_while() -> None:
    world = _world()
    world.broken_machines = True
    world.run(120)
    assert 2 <= len(world.bought) <= 3
    world.broken_machines = False
    world.run(120)
    assert len(world.nodes) == 2


def test_an_on_demand_node_goes_when_its_pods_are_gone() -> None:
    world = _world()
    world.run(40)
    world.boot()
    for name, node in zip(list(world.pods), list(world.nodes), strict=True):
        world.pods[name] = replace(world.pods[name], node=node, unschedulable=None)
    world.run(120)
    assert len(world.nodes) == 2
    world.pods = {"next": _pod("next", world.now)}
    world.run(20)
    assert len(world.nodes) == 2, "a pod that waits may still come to them"
    world.pods.clear()
    world.run(20)
    assert not world.nodes
