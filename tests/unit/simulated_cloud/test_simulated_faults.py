"""The script of faults: each kind breaks what it says, for whom it says, and nothing else."""

import json

from muster.local.quantities import rfc3339
from muster.local.simulated_cloud import faults, names
from muster.local.simulated_cloud.faults import Fault, FaultBook, FaultKind
from tests.unit.simulated_cloud.world import START, World, delivered, offering, pool, request


def _world(kind: FaultKind, **changes: object) -> World:
    world = World(offering(pool(stock=4, max_nodes=4)))
    world.faults = (Fault("f", "l4", kind, **changes),)  # type: ignore[arg-type]  # fields of Fault
    return world


def test_stock_out_fails_in_the_clouds_words_and_counts_whom_it_hit() -> None:
    world = _world(FaultKind.STOCK_OUT, count=1)
    world.add(request("first"))
    world.run(10)
    assert world.state("first", "Failed") == ("True", "ResourcePoolExhausted")
    assert "not enough resources available" in world.message("first", "Failed")
    world.add(request("second"))
    world.run(10)
    assert world.state("second", "Provisioned") == ("True", "Provisioned")


def test_stock_out_may_wait_for_ever_instead() -> None:
    world = _world(FaultKind.STOCK_OUT, wait=True)
    world.add(request("gang"))
    world.run(86400, tick=600)
    assert world.state("gang", "Provisioned") == ("False", "ResourcePoolExhausted")
    world.faults = ()
    world.run(10)
    assert world.state("gang", "Provisioned") == ("True", "Provisioned")


def test_partial_promises_more_than_it_brings() -> None:
    world = _world(FaultKind.PARTIAL)
    world.add(request("gang", count=3))
    world.run(10)
    assert world.state("gang", "Provisioned") == ("True", "Provisioned")
    assert len(world.nodes_of("gang")) == 2


def test_delay_comes_later_and_whole() -> None:
    world = _world(FaultKind.DELAY, by=90.0)
    world.add(request("gang", count=2))
    world.run(80)
    assert not world.nodes
    world.run(20)
    assert len(world.nodes_of("gang")) == 2


def test_stagger_comes_when_a_siblings_booking_is_over() -> None:
    world = _world(FaultKind.STAGGER, count=1)
    world.add(request("late"))
    world.settle()
    world.add(request("sibling"))
    world.run(620, tick=5)
    assert world.state("sibling", "BookingExpired") == ("True", "BookingExpired")
    assert world.state("late", "Provisioned") == ("False", "NotProvisioned")
    world.run(60, tick=5)
    assert world.state("late", "Provisioned") == ("True", "Provisioned")


def test_stagger_of_a_best_effort_request_holds_back_its_last_node() -> None:
    world = _world(FaultKind.STAGGER, count=1)
    world.add(request("gang", count=2, provisioning_class=names.BEST_EFFORT))
    world.run(20)
    assert len(world.nodes_of("gang")) == 1


def test_revoke_takes_nodes_with_pods_on_them() -> None:
    world = delivered(used=True)
    world.faults = (Fault("f", "l4", FaultKind.REVOKE, count=1),)
    world.settle()
    assert world.state("gang", "CapacityRevoked") == ("True", "CapacityRevoked")
    assert world.state("gang", "BookingExpired") == ("True", "BookingExpired"), (
        "GKE has no other revoked state"
    )
    assert not world.nodes


def test_revoke_of_a_best_effort_request_says_nothing() -> None:
    world = delivered(used=True, provisioning_class=names.BEST_EFFORT)
    world.faults = (Fault("f", "l4", FaultKind.REVOKE, count=1),)
    world.settle()
    assert not world.nodes
    assert world.state("gang", "CapacityRevoked") is None


def test_expire_ends_the_booking_at_once_and_spares_nodes_in_use() -> None:
    world = delivered(used=True)
    world.faults = (Fault("f", "*", FaultKind.EXPIRE),)
    world.run(60)
    assert world.state("gang", "BookingExpired") == ("True", "BookingExpired")
    assert world.nodes


def test_silence_answers_nothing_and_ends_with_its_window() -> None:
    world = _world(FaultKind.SILENCE, start=START, end=START + 100)
    world.add(request("gang"), request("other", provisioning_class=names.BEST_EFFORT))
    world.run(99)
    assert not world.get("gang").conditions
    assert not world.get("other").conditions
    world.run(20)
    assert world.state("gang", "Provisioned") == ("True", "Provisioned")


def test_hits_outlive_a_restart() -> None:
    book = FaultBook((Fault("f", "l4", FaultKind.STOCK_OUT, count=1, hits=frozenset({"a"})),))
    assert book.hit(FaultKind.STOCK_OUT, ["l4"], "b", START) is None
    assert book.hit(FaultKind.STOCK_OUT, ["l4"], "a", START) is not None
    assert not book.new_hits


def test_a_script_is_read_and_its_mistakes_are_named() -> None:
    data = {
        "seed": "7",
        "capacity": '{"l4": 3}',
        "good": json.dumps(
            {"pool": "l4", "kind": "delay", "at": rfc3339(START), "after": "60s", "for": "2m", "by": "30s"}
        ),
        "kind": '{"pool": "l4", "kind": "earthquake"}',
        "list": "[1, 2]",
        "bomb": "{" * 5_000,
        "mode": '{"pool": "l4", "kind": "stock-out", "mode": "sometimes"}',
    }
    book, complaints = faults.parse(data, scale=60.0)
    [fault] = book.faults
    assert (book.seed, book.capacity) == (7, {"l4": 3})
    assert (fault.start, fault.end, fault.by) == (START + 1, START + 3, 0.5)
    assert len(complaints) == 4


def test_chance_is_the_seeds_alone() -> None:
    one, two = FaultBook(seed=1), FaultBook(seed=1)
    assert one.chance("a") == two.chance("a") != FaultBook(seed=2).chance("a")
    assert 0 <= one.chance("a") < 1
