"""What the metrics say of a Ray cluster is what its pods wait for."""

from muster.controller.gangs.metrics import GangState
from muster.controller.kai.gang_state import observe
from tests.unit.kai.kai_world import Group, World
from tests.unit.kai.test_kai_machine import HEAD, run, world

PAIR = {"headgroup": HEAD, "workers": Group("h100", 2)}


def state(here: World, name: str) -> GangState | None:
    cluster = here.clusters[name]
    found = observe(cluster, here.of(name), here.snapshot(name).requests, now=here.now)
    return found.state if found else None


def test_a_gang_is_told_from_the_gate_to_its_nodes() -> None:
    here = world()
    here.submit("a", PAIR)
    assert state(here, "a") is None, "no pod is there yet"
    run(here, 1)
    assert state(here, "a") is GangState.PROVISIONING
    run(here, 6)
    assert state(here, "a") is GangState.RUNNING


def test_a_gang_without_room_is_queued() -> None:
    here = world(quota=1)
    here.submit("a", PAIR)
    run(here, 3)
    assert state(here, "a") is GangState.QUEUED


def test_a_failed_attempt_backs_off_and_says_why() -> None:
    here = world(stock={"l4": 4, "h100": 0})
    here.submit("a", PAIR)
    run(here, 2)
    (name, *_) = here.requests
    here.answer(name, "Failed", "ResourcePoolExhausted")
    here.settle()
    found = observe(here.clusters["a"], here.of("a"), here.snapshot("a").requests, now=here.now)
    assert found is not None
    assert found.state is GangState.BACKING_OFF
    assert found.failure.startswith("out of stock")
