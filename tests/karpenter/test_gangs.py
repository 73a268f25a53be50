"""Gangs by placeholders on the real Karpenter: whole or not at all, whatever cloud and neighbours do."""

import random
from contextlib import ExitStack
from typing import Final

import pytest

from tests.faults.seeds import seeds
from tests.karpenter.world import PLACEHOLDERS, PRIORITIES, RIVALS, Witness, World, pod

_GANG: Final = 4


def test_a_gang_with_stock_for_all_of_it_runs_and_nothing_else_is_bought(world: World) -> None:
    world.sells(h100=8)

    world.gang("whole", _GANG)

    world.eventually("all run", lambda: world.running("whole") == _GANG)
    left_nothing(world)
    assert len(world.nodes()) == _GANG


def test_with_stock_for_half_no_pod_starts_and_quota_and_nodes_are_given_back(world: World) -> None:
    world.sells(h100=2)
    witness = Witness(world, "torn")
    with world.managed.policy(provisionTimeout="15s"), witness.watching():
        world.gang("torn", _GANG)
        world.eventually("two nodes have come", lambda: len(world.nodes()) == 2)
        world.eventually("it says how many", lambda: "2 of 4" in world.said("torn"))
        world.eventually("the deadline ends it", lambda: ended(world, "torn"))

        # The retry is a new attempt: nothing is to come for it.
        world.end("torn")
        world.eventually("the nodes go", lambda: not world.nodes())

    assert witness.started == set()
    assert len(witness.nodes) >= 2


def test_a_node_that_is_lost_before_the_gang_starts_is_bought_again(world: World) -> None:
    world.sells(h100=2)
    witness = Witness(world, "again")
    with witness.watching():
        world.gang("again", _GANG)
        world.eventually("two stand", lambda: len(bound_placeholders(world)) == 2)
        lost = bound_placeholders(world)[0]

        world.take(lost)
        world.eventually("it is gone", lambda: lost not in world.nodes())
        assert witness.started == set()
        world.sells(h100=_GANG)

        world.eventually("all run", lambda: world.running("again") == _GANG)


def test_of_two_gangs_with_capacity_for_one_one_runs_whole_and_then_the_other(world: World) -> None:
    """Karpenter buys for the pods of both; which gang has its nodes first is not ours to say."""
    world.sells(h100=3)
    for name in ("one", "two"):
        world.gang(name, 3)

    def whole() -> list[str]:
        return [name for name in ("one", "two") if world.running(name) == 3]

    (first,) = world.eventually("one of them runs", whole)
    (second,) = {"one", "two"} - {first}
    assert world.running(second) == 0
    world.end(first)

    world.eventually("then the other", lambda: world.running(second) == 3)


def test_of_two_gangs_split_over_two_pools_with_capacity_for_one_none_starts_half(world: World) -> None:
    """Workers on h100, the head on l4. Where each gang has what the other lacks, the deadline frees both."""
    world.sells(h100=2, l4=1)
    witnesses = {name: Witness(world, name) for name in ("one", "two")}
    with ExitStack() as held:
        held.enter_context(world.managed.kuberay())
        held.enter_context(world.managed.policy(provisionTimeout="15s"))
        for name, witness in witnesses.items():
            held.enter_context(witness.watching())
            world.split_gang(name, h100=2)

        def whole() -> list[str]:
            return [name for name in witnesses if world.running(name) == 3]

        (first,) = world.eventually("one of them runs", whole)
        (second,) = set(witnesses) - {first}
        assert witnesses[second].started == set()
        world.end(first, kind="RayCluster")

        world.eventually("then the other", lambda: world.running(second) == 3)
    assert [len(each.started) for each in witnesses.values()] == [3, 3], "no pod had to be made twice"


def test_a_head_without_a_gpu_in_the_pool_of_its_workers_runs_on_their_nodes(world: World) -> None:
    """Their taint keeps out what has no placeholder."""
    world.sells(h100=2)
    with world.managed.kuberay():
        world.headed_gang("headed", pod("h100", gpus=False), h100=2)
        world.eventually("all run", lambda: world.running("headed") == 3)
    left_nothing(world)
    assert len(world.nodes()) == 2


def test_a_gang_whose_nodes_come_while_no_manager_runs_gets_them_from_the_next_one(world: World) -> None:
    """The placeholders keep the nodes from a rival that waits for them."""
    world.sells(h100=2)
    witness = Witness(world, "gang")
    with witness.watching():
        world.gang("gang", _GANG)
        world.eventually("two stand", lambda: len(bound_placeholders(world)) == 2)
        with world.without_manager():
            world.rival("rival", priority="rival-high")
            world.sells(h100=_GANG + 1)
            world.eventually("all stand", lambda: len(bound_placeholders(world)) == _GANG)
            assert witness.started == set()

        world.eventually("all run", lambda: world.running("gang") == _GANG)
    assert len(witness.started) == _GANG
    left_nothing(world)


def test_a_gang_whose_manager_is_killed_at_the_handover_runs_whole(world: World) -> None:
    """Killed as soon as a node has the gang's taint, with a rival that would take any place."""
    world.sells(h100=_GANG)
    witness = Witness(world, "gang")
    with witness.watching():
        world.gang("gang", _GANG)
        world.eventually("a node is held", world.held)
        with world.without_manager():
            world.rival("rival", priority="rival-high")
            world.sells(h100=_GANG + 1)
            world.eventually("a node for it has come", lambda: len(world.nodes()) == _GANG + 1)

        world.eventually("all run", lambda: world.running("gang") == _GANG)
    assert len(witness.started) == _GANG
    left_nothing(world)


@pytest.mark.parametrize("seed", seeds())
def test_whole_or_nothing_with_rivals_and_stock_outs(world: World, seed: int) -> None:
    """Stock comes bit by bit, rivals for the same nodes arrive in any gap, and a node may be taken."""
    drawn = random.Random(seed)
    rivals, first = drawn.randint(1, 4), drawn.randint(0, _GANG)
    world.sells(h100=first)
    witness = Witness(world, "gang")
    with witness.watching():
        arrivals = ["gang", *(f"rival-{number}" for number in range(rivals))]
        drawn.shuffle(arrivals)
        for each in arrivals:
            if each == "gang":
                world.gang("gang", _GANG)
            else:
                world.rival(each, priority=drawn.choice(("", *PRIORITIES)))
            step(world, drawn)
        if drawn.random() < 0.3 and not witness.started and (nodes := bound_placeholders(world)):
            world.take(drawn.choice(nodes))
        for count in range(first, _GANG + rivals + 1, drawn.randint(1, 3)):
            world.sells(h100=count)
            step(world, drawn)
        world.sells(h100=_GANG + rivals)

        world.eventually("the gang runs whole", lambda: world.running("gang") == _GANG)
        world.eventually("so do the rivals", lambda: served(world) == rivals)
    assert len(witness.started) == _GANG, "no pod of it had to be made twice"


def step(world: World, drawn: random.Random) -> None:
    """Until something has changed, or a moment later: what comes next comes into any gap."""
    before = state(world)
    for _ in range(drawn.randint(0, 30)):
        if state(world) != before:
            return


def state(world: World) -> tuple[object, ...]:
    return len(world.nodes()), len(bound_placeholders(world)), len(world.held()), world.running("gang")


def left_nothing(world: World) -> None:
    world.eventually("the placeholders are gone", lambda: not world.items(PLACEHOLDERS))
    world.eventually("no node is held any more", lambda: not world.held())


def bound_placeholders(world: World) -> list[str]:
    """Their nodes."""
    return [each["spec"]["nodeName"] for each in world.items(PLACEHOLDERS) if "nodeName" in each["spec"]]


def served(world: World) -> int:
    return sum("nodeName" in each["spec"] for each in world.pods(RIVALS))


def ended(world: World, name: str) -> bool:
    """The attempt is over: its quota is free."""
    return not world.has_quota(name)
