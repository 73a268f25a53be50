"""On a MultiKueue worker a gang backs off within its quota, and its spec stays as the manager wrote it."""

from datetime import timedelta

import msgspec

from muster.controller.gangs.retry import RETRY_AT, TRIES
from muster.controller.kueue.actions import State
from muster.model.gangpolicy import GangPolicy
from muster.model.names import MULTI_KUEUE_ORIGIN, STOP_ANNOTATION
from tests.unit.admission.gang_world import PLAIN, POLICY, World, entry_of, entry_state

replace = msgspec.structs.replace


def dispatched(policy: GangPolicy = POLICY) -> World:
    world = World(policy=policy)
    world.submit("a", PLAIN)
    world._metadata("a", labels={MULTI_KUEUE_ORIGIN: "multikueue"})
    world.kueue()
    world.settle()
    return world


def fail(world: World) -> None:
    for request in list(world.requests):
        world.answer(request, "Failed", "CapacityIsNotFound")
    world.settle()


def test_it_is_never_given_up_evicted_or_changed() -> None:
    """Five days of an empty pool, with pauses as anywhere else."""
    world = dispatched()
    spec = world.workloads["a"].spec
    for _ in range(5 * 24 * 6):
        fail(world)
        world.kueue()
        world.settle()
        world.now += timedelta(minutes=10)
        world.settle()
        assert world.workloads["a"].spec == spec
        assert world.workloads["a"].status.holds("QuotaReserved")
        assert len(world.requests) <= 1
    asked = len(world.everything_made)
    shortest = POLICY.retry.max * (1 - POLICY.retry.jitter_percent / 100)
    assert 5 * 24 < asked <= timedelta(days=5) / shortest + 10
    assert len(set(world.everything_made)) == asked, "each try has requests of its own"
    world.ticks(70)
    assert world.ended == ["a"]


def test_it_says_why_it_waits_and_writes_nothing_meanwhile() -> None:
    world = dispatched()
    fail(world)
    entry = entry_of(world)
    assert entry_state(world, "a") is State.PENDING
    assert entry.message.startswith("released everything (out of stock: CapacityIsNotFound); keeps its quota")
    assert [told.reason for told in world.told][-1] == "GangReleased"
    assert not world.requests
    writes = world.writes
    world.settle()
    assert world.writes == writes


def test_a_preempted_one_goes_on_with_its_pause() -> None:
    world = dispatched()
    fail(world)
    retry_at = world.workloads["a"].metadata.annotations[RETRY_AT]
    world.evict("a", "Preempted")
    world.settle()
    world.kueue()
    world.settle()
    assert world.workloads["a"].status.holds("QuotaReserved")
    assert world.workloads["a"].metadata.annotations[RETRY_AT] == retry_at
    assert not world.requests
    world.now += timedelta(minutes=2)
    world.settle()
    assert len(world.requests) == 1


def test_while_it_runs_it_keeps_its_requests() -> None:
    world = dispatched()
    fail(world)
    world.ticks(10)
    assert "a" in world.started
    assert world.requests, "they are named after its second try"
    assert world.workloads["a"].metadata.annotations[TRIES] == "1"


def test_it_is_stopped_on_its_manager_alone() -> None:
    world = dispatched()
    world._metadata("a", annotations={STOP_ANNOTATION: "true"})
    world.ticks(5)
    assert "a" in world.started
