"""The classes of cluster-autoscaler: Provisioned before nodes exist, capacity that is only looked at."""

from dataclasses import replace
from itertools import pairwise

from muster.local.simulated_cloud import names
from muster.local.simulated_cloud.actions import ReleaseNode
from muster.local.simulated_cloud.objects import Node, VmState
from tests.unit.simulated_cloud.world import ONE_GPU, World, consumer, delivered, offering, pool, request


def _ready(name: str, **changes: object) -> Node:
    own = pool()
    node = Node(
        name,
        f"uid-{name}",
        "l4",
        None,
        0.0,
        ready=True,
        labels=own.labels,
        taints=own.taints,
        allocatable=own.allocatable,
    )
    return replace(node, **changes)  # type: ignore[arg-type]  # the caller names fields of Node


def test_best_effort_is_provisioned_before_a_node_exists() -> None:
    world = World(offering())
    world.add(request("gang", provisioning_class=names.BEST_EFFORT))
    world.settle()
    assert world.state("gang", "Accepted") == ("True", "Accepted")
    assert world.state("gang", "Provisioned") == ("True", "CapacityIsProvisioned")
    assert not world.nodes
    world.run(5)
    [node] = world.nodes_of("gang")
    assert not node.lease, "only GKE's queued class labels its nodes"


def test_best_effort_takes_what_exists_before_it_buys() -> None:
    world = World(offering())
    world.nodes["static"] = _ready("static")
    world.add(request("gang", provisioning_class=names.BEST_EFFORT))
    world.run(10)
    assert world.state("gang", "Provisioned") == ("True", "CapacityIsFound")
    assert not world.bought


def test_best_effort_is_one_pool_and_all_or_nothing() -> None:
    world = World(offering(pool(stock=1), pool("h100", stock=1)))
    world.add(request("pair", count=2, provisioning_class=names.BEST_EFFORT))
    world.run(100, tick=5)
    assert world.state("pair", "Provisioned") == ("False", "CapacityIsNotFound")
    assert world.state("pair", "Failed") is None, "the original never fails it before a week is over"
    assert not world.bought


def test_best_effort_keeps_to_the_pools_maximum() -> None:
    world = World(offering(pool(stock=9, max_nodes=2)))
    world.add(request("wide", count=3, provisioning_class=names.BEST_EFFORT))
    world.run(20)
    assert world.state("wide", "Provisioned") == ("False", "CapacityIsNotFound")


def test_best_effort_counts_what_others_of_the_pool_have() -> None:
    world = World(offering(pool(stock=9, max_nodes=2)))
    world.add(request("pair", count=2, provisioning_class=names.BEST_EFFORT))
    world.run(10)
    world.add(request("more", provisioning_class=names.BEST_EFFORT))
    world.run(10)
    assert world.state("more", "Provisioned") == ("False", "CapacityIsNotFound")


def test_tries_are_spaced_wider_and_wider() -> None:
    world = World(offering(pool(stock=0)))
    world.add(request("gang", provisioning_class=names.BEST_EFFORT))
    moments: list[float] = []
    for _ in range(360):
        world.run(5, tick=5)
        condition = world.get("gang").condition("Provisioned")
        assert condition is not None
        if not moments or condition.since != moments[-1]:
            moments.append(condition.since)
    gaps = [round(late - early, -1) for early, late in pairwise(moments)]
    assert gaps[:4] == [60, 60, 120, 240]
    assert max(gaps) <= 610


def test_a_pool_that_is_not_atomic_says_provisioned_and_fills_partly() -> None:
    world = World(offering(pool(stock=1, max_nodes=4, atomic=False)))
    world.add(request("pair", count=2, provisioning_class=names.BEST_EFFORT))
    world.run(30)
    assert world.state("pair", "Provisioned") == ("True", "CapacityIsProvisioned")
    assert len(world.nodes_of("pair")) == 1
    world.capacity["l4"] = 2
    world.run(5)
    assert len(world.nodes_of("pair")) == 2


def test_a_node_that_was_delivered_and_lost_is_not_replaced() -> None:
    world = delivered(offering(pool(stock=2)), provisioning_class=names.BEST_EFFORT)
    [node] = world.nodes_of("gang")
    del world.nodes[node.name]
    world.run(60)
    assert not world.nodes_of("gang")


def test_a_machine_that_failed_is_not_bought_again() -> None:
    world = World(offering(pool(stock=1, max_nodes=4, atomic=False)), broken_machines=True)
    world.add(request("pair", count=2, provisioning_class=names.BEST_EFFORT))
    world.run(120)
    assert [bought.ordinal for bought in world.bought] == [0, 1]
    assert not world.nodes


def test_a_failed_node_stays_until_its_request_has_counted_it() -> None:
    world = World(offering(), broken_machines=True)
    world.add(request("gang", provisioning_class=names.BEST_EFFORT))
    world.run(2)
    world.now += 2
    world.step()  # buys
    world.step(upto=0)  # a crash before anything is written
    world.nodes["l4-0"] = replace(world.nodes["l4-0"], vm=VmState.FAILED)
    assert world.get("gang").delivered == 0
    assert not any(isinstance(action, ReleaseNode) for action in world.decide())
    world.settle()
    assert world.get("gang").delivered == 1
    assert not world.nodes


def test_check_capacity_finds_what_exists_and_books_it_against_others() -> None:
    world = World(offering())
    world.nodes["static"] = _ready("static")
    world.add(
        request("first", provisioning_class=names.CHECK_CAPACITY),
        request("second", provisioning_class=names.CHECK_CAPACITY),
    )
    world.run(5)
    assert world.state("first", "Provisioned") == ("True", "CapacityIsFound")
    assert world.state("second", "Provisioned") == ("False", "CapacityIsNotFound")
    world.run(1300, tick=20)
    assert world.state("first", "BookingExpired") == ("True", "CapacityReservationTimeExpired")
    assert world.state("second", "Provisioned") == ("True", "CapacityIsFound")
    assert not world.bought


def test_what_pods_already_use_is_not_booked_twice() -> None:
    world = World(offering())
    world.nodes |= {name: _ready(name) for name in ("one", "two")}
    world.add(request("first", provisioning_class=names.CHECK_CAPACITY))
    world.run(2)
    world.pods["worker"] = consumer(world.get("first"), "one")
    world.add(request("second", provisioning_class=names.CHECK_CAPACITY))
    world.run(2)
    assert world.state("second", "Provisioned") == ("True", "CapacityIsFound")


def test_check_capacity_without_retry_fails_at_once() -> None:
    world = World(offering())
    world.add(request("gang", provisioning_class=names.CHECK_CAPACITY, parameters={names.NO_RETRY: "true"}))
    world.settle()
    assert world.state("gang", "Failed") == ("True", "CapacityIsNotFound")


def test_unready_cordoned_and_tainted_nodes_hold_nothing() -> None:
    world = World(offering())
    world.nodes["unready"] = _ready("unready", ready=False)
    world.nodes["cordoned"] = _ready("cordoned", unschedulable=True)
    world.add(request("gang", provisioning_class=names.CHECK_CAPACITY))
    world.settle()
    assert world.state("gang", "Provisioned") == ("False", "CapacityIsNotFound")


def test_a_request_for_another_processor_or_class_is_left_alone() -> None:
    world = World(offering())
    world.add(
        request("other", provisioning_class=names.CHECK_CAPACITY, parameters={names.PROCESSOR_INSTANCE: "b"}),
        request("foreign", provisioning_class="atomic.example.com"),
    )
    world.run(10)
    assert not world.get("other").conditions
    assert not world.get("foreign").conditions


def test_after_a_week_an_unprovisioned_request_fails_as_expired() -> None:
    world = World(offering(pool(stock=0)))
    world.add(request("gang", provisioning_class=names.BEST_EFFORT))
    world.run(7 * 86400 + 60, tick=3600)
    assert world.state("gang", "Failed") == ("True", "Expired")


def test_a_missing_template_fails_and_is_not_tried_again() -> None:
    world = World(offering())
    world.add(request("gang", provisioning_class=names.BEST_EFFORT, shapes=(ONE_GPU, None)))
    world.run(10)
    assert world.state("gang", "Failed") == ("True", "FailedToCreatePods")
    assert "2 pod templates were referenced, 1 templates were missing: gang-1" in world.message(
        "gang", "Failed"
    )
