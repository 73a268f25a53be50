"""What a gang buys and does not use, in minutes of a GPU, counted on virtual time."""

import dataclasses
from datetime import timedelta

from muster.controller.gangs.retry import TRIES, parse_history
from muster.model.gangpolicy import RetryPolicy
from muster.model.names import IN_TURN_ANNOTATION
from tests.unit.admission.gang_world import PLAIN, POLICY, World, entry_of
from tests.unit.gangs.paper import flavor_policy, node

MINUTE = timedelta(minutes=1)
DAY = 24 * 60
ON_EXISTING_NODES = flavor_policy(
    "cpu", 0, provisioning_class_name="", node_selector_from_details=(), gpus_per_node=0
)
WITH_HEADS = dataclasses.replace(POLICY, flavors=(*POLICY.flavors, ON_EXISTING_NODES))
WITH_HEAD = {"head": ("cpu", 1), "big": ("h100", 1), "small": ("l4", 1)}


def gpu_minutes(world: World, minutes: int) -> int:
    """How many minutes of GPUs are bought in this time."""
    total = 0
    for _ in range(minutes):
        world.tick()
        total += sum(not name.startswith("cpu") for name in world.nodes)
    return total


# A head that fits nowhere


def test_a_head_that_fits_nowhere_buys_no_gpu_however_long_it_waits() -> None:
    """A quarter of all minutes of its GPUs, when its place was looked for last."""
    world = World(policy=WITH_HEADS)
    world.submit("a", WITH_HEAD)
    assert gpu_minutes(world, DAY) == 0
    assert not world.everything_made
    assert parse_history(world.workloads["a"]).last_failure == (
        "bookingWindow of 9m has passed: 0 of 1 cpu nodes for head"
    )
    assert not world.workloads["a"].spec.active, "it waits without quota"


def test_a_head_whose_place_is_free_again_lets_the_gang_ask_and_run() -> None:
    world = World(policy=WITH_HEADS)
    world.submit("a", WITH_HEAD)
    world.tick()
    world.still()
    assert entry_of(world).message.startswith("0 of 1 cpu nodes for head (limit 9m); releases at")
    world.nodes["cpu"] = node("cpu", "cpu")
    world.ticks(5)
    assert "a" in world.started


def test_a_head_that_loses_its_place_while_the_gpus_come_keeps_the_gang_from_starting() -> None:
    """To look first replaces no look at the end."""
    world = World(policy=WITH_HEADS, delay={"l4": 5 * MINUTE})
    world.nodes["cpu"] = node("cpu", "cpu")
    world.submit("a", WITH_HEAD)
    world.ticks(3)
    assert world.requests
    del world.nodes["cpu"]
    world.ticks(7)
    assert "a" not in world.started
    assert "0 of 1 cpu nodes for head" in entry_of(world).message


# One by one


def test_a_gang_that_asks_one_by_one_still_does_so_after_a_failed_try() -> None:
    """Its early piece was bought for a whole booking again at each retry."""
    world = World(stock={"l4": 1, "h100": 1}, delay={"h100": 25 * MINUTE})
    world.submit("a", {"big": ("h100", 1), "small": ("l4", 1)})
    world.ticks(14)
    assert IN_TURN_ANNOTATION in world.workloads["a"].metadata.annotations
    (late,) = world.requests
    world.answer(late, "Failed", "CapacityIsNotFound", "no stock")
    world.settle()
    assert TRIES in world.workloads["a"].metadata.annotations
    bought = gpu_minutes(world, 20)
    assert world.requests, "the next try waits for the late piece"
    assert bought == 0, "and for it alone"
    world.ticks(20)
    assert "a" in world.started


# Nodes that do not last

FAILING = dataclasses.replace(POLICY, retry=RetryPolicy())


def fail_soon(world: World, minutes: int, *, after: timedelta = 3 * MINUTE) -> int:
    """Nodes of a gang fail so long after each start. How often it starts."""
    starts, seen = 0, None
    for _ in range(minutes):
        world.tick()
        since = world.started.get("a")
        if since is not None and since != seen:
            starts, seen = starts + 1, since
        if since is not None and world.now - since >= after:
            for name in list(world.nodes):
                del world.nodes[name]
    return starts


def test_a_gang_whose_nodes_do_not_last_backs_off_and_is_given_up() -> None:
    """It started 320 times in two days."""
    world = World(policy=FAILING, runtime=timedelta(days=30))
    world.submit("a", PLAIN)
    starts = fail_soon(world, 2 * DAY)
    assert 30 < starts < 50
    held = world.workloads["a"]
    assert not held.spec.active
    assert "gave up after" in parse_history(held).refused
    assert "it ran for 6m" in parse_history(held).refused


def test_a_short_run_counts_as_a_failed_try_and_says_so() -> None:
    world = World(policy=FAILING, runtime=timedelta(days=30))
    world.submit("a", PLAIN)
    assert fail_soon(world, 9) == 1
    held = world.workloads["a"]
    history = parse_history(held)
    assert (held.spec.active, history.tries) == (False, 1)
    assert history.last_failure == (
        "lacks 1 l4 node for main for 2m; it ran for 6m, which counts as a failed try"
    )
    reasons = [event.reason for event in world.told]
    assert "NodesLost" in reasons


def test_a_run_that_lasts_ends_the_count_of_failed_tries() -> None:
    world = World(policy=FAILING, runtime=timedelta(days=30))
    world.submit("a", PLAIN)
    fail_soon(world, 30)
    assert parse_history(world.workloads["a"]).tries > 1
    while "a" not in world.started:
        world.tick()
    before = world.writes
    world.ticks(29)
    assert world.writes == before, "nothing is written until then"
    assert TRIES in world.workloads["a"].metadata.annotations
    world.tick()
    assert TRIES not in world.workloads["a"].metadata.annotations
    assert world.writes == before + 1
    fail_soon(world, 5, after=timedelta(0))
    held = world.workloads["a"]
    assert held.spec.active, "it queues again at once"
    assert parse_history(held).tries == 0


def test_a_preemption_soon_after_the_start_neither_counts_nor_ends_the_count() -> None:
    world = World(policy=FAILING, runtime=timedelta(days=30))
    world.submit("a", PLAIN)
    fail_soon(world, 30)
    while "a" not in world.started:
        world.tick()
    before = parse_history(world.workloads["a"]).tries
    world.evict("a", "Preempted")
    world.ticks(4)
    assert "a" in world.started
    assert parse_history(world.workloads["a"]).tries == before
