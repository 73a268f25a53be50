"""What the check of a gang says while Karpenter gets it no nodes, in Karpenter's own words of today."""

from tests.karpenter.world import World


def test_a_gang_of_which_half_is_in_stock_says_so(world: World) -> None:
    world.sells(h100=2)
    world.gang("torn", 4)

    world.eventually("it counts and says why", lambda: says(world, "2 of 4", "out of stock"))


def test_a_gang_behind_the_limit_of_a_node_pool_says_so(world: World) -> None:
    world.limit("h100", 16)
    try:
        world.gang("limited", 4)

        world.eventually("it counts and says why", lambda: says(world, "2 of 4", "at its limit"))
    finally:
        world.limit("h100", None)


def test_a_gang_that_comes_while_karpenter_remembers_a_refusal_is_not_called_too_large(world: World) -> None:
    """As with the provider for AWS, which asks the cloud no second time for three minutes."""
    world.sells(h100=0, unavailable_for="3m")
    world.gang("first", 2)
    world.eventually("it is refused", lambda: says(world, "0 of 2", "out of stock", name="first"))
    world.gang("second", 2)

    world.eventually("so is the next", lambda: says(world, "0 of 2", "none is on offer now", name="second"))


def says(world: World, *words: str, name: str = "") -> bool:
    found = [world.said(each) for each in ([name] if name else ("torn", "limited"))]
    return any(all(word in text for word in words) for text in found)
