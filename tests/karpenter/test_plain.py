"""A gang on Karpenter as it is, with no gang check: what Muster's placeholders are for."""

from tests.karpenter.world import World


def test_a_gang_with_stock_for_all_of_it_runs(world: World) -> None:
    world.sells(h100=4)

    world.gang("whole", 4, pool="plain")

    world.eventually("all four run", lambda: world.running("whole") == 4)
    assert len(world.nodes()) == 4


def test_with_stock_for_half_two_nodes_are_bought_and_kept_for_a_gang_that_cannot_run(world: World) -> None:
    world.sells(h100=2)

    world.gang("torn", 4, pool="plain")

    world.eventually("two have a node", lambda: world.running("torn") == 2)
    world.eventually(
        "the cloud has refused the third more than once",
        lambda: len([word for word in refusals(world) if "InsufficientInstanceCapacity" in word]) >= 2,
    )
    assert world.running("torn") == 2
    assert len(world.nodes()) == 2, "nobody gives back what is of no use alone"


def test_the_limit_of_a_node_pool_tears_a_gang_too_and_says_so(world: World) -> None:
    world.limit("plain", 16)
    try:
        world.gang("limited", 4, pool="plain")

        world.eventually("two have a node", lambda: world.running("limited") == 2)
        world.eventually(
            "Karpenter names the limit",
            lambda: any("exceed limits for nodepool" in each for each in world.events("FailedScheduling")),
        )
    finally:
        world.limit("plain", None)


def test_an_instance_that_still_boots_is_ended_with_its_claim(world: World) -> None:
    """As a cloud does: what was called off never joins the cluster, and is in stock again."""
    world.sells(h100=1)
    world.boots("3s")
    try:
        world.gang("late", 1, pool="plain")
        world.eventually("it is bought", lambda: [each for each in world.claims() if is_launched(each)])
        world.clear()

        world.gang("next", 1, pool="plain")

        # It boots as long as the first, which would be there before it.
        world.eventually("the next one has its node", lambda: world.running("next") == 1)
        assert len(world.nodes()) == 1
    finally:
        world.boots("0s")


def refusals(world: World) -> list[str]:
    """What Karpenter wrote about NodeClaims that the cloud did not serve. They have no namespace."""
    return world.events("InsufficientCapacityError", namespace="default")


def is_launched(claim: dict[str, object]) -> bool:
    status = claim.get("status")
    return bool(isinstance(status, dict) and status.get("providerID"))
