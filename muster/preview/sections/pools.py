"""Pools: their order, nodes, GPUs, GPU-hours and cost."""

from collections.abc import Iterator
from typing import Final

from muster.preview import figures
from muster.preview.compare.diff import StackDiff
from muster.preview.compare.pools import PoolCost
from muster.preview.document import Items, Section, Table, Text, UntrustedText, join_names

_MOST_ORDERED: Final = 40
_OLD: Final = " (more than 90 days ago: `muster doctor --prices` reads it again)"
_HEAD: Final = (
    "Pool",
    "Nodes",
    "GPUs at most",
    "GPU-hours a day",
    "Machine",
    "Capacity",
    "Money an hour",
)


def sections(diff: StackDiff) -> Iterator[Section]:
    if diff.changes is not None and diff.changes.order is not None:
        order = diff.changes.order
        lines = tuple(
            (f"{word}: ", *join_names(names, most=_MOST_ORDERED), ".")
            for word, names in (("Before", order.before), ("After", order.after))
        )
        yield Section("Which pool gets work first", 91, (Items(lines),))
    if not diff.pools:
        return
    rows = tuple(_row(each) for each in diff.pools)
    sources = tuple(_sources(diff.pools))
    blocks = (Table(_HEAD, rows, _HEAD[1:4]), *((Items(sources),) if sources else ()))
    yield Section("Pools, nodes, GPU-hours and money", 90, blocks)


def _row(cost: PoolCost) -> tuple[Text, ...]:
    sides = (cost.pool.before, cost.pool.after)
    nodes = ["–" if pool is None else f"{pool.min_nodes} to {pool.max_nodes}" for pool in sides]
    gpus = ["–" if pool is None else str(pool.max_gpus) for pool in sides]
    machines = ["–" if pool is None else pool.machine.description for pool in sides]
    capacity = ["–" if pool is None else pool.bought for pool in sides]
    return (
        (UntrustedText(cost.pool.name),),
        (figures.format_change(*nodes),),
        (figures.format_change(*gpus),),
        (figures.format_change(*(figures.format_gpu_hours(pool) for pool in sides)),),
        (figures.format_change(*machines),),
        (figures.format_change(*capacity),),
        (figures.format_cost(cost),),
    )


def _sources(costs: tuple[PoolCost, ...]) -> Iterator[Text]:
    """The source of each price in use, once."""
    sides = (side for each in costs for side in (each.before, each.after))
    found = {(side.price, side.is_old) for side in sides if side is not None and side.price is not None}
    known = sorted(found, key=lambda each: (each[0].machine, each[0].region))
    for price, is_old in known:
        yield (
            UntrustedText(price.machine),
            " in ",
            UntrustedText(price.region),
            f", {price.capacity.value}: {price.currency} {price.hourly} a node and hour, ",
            f"read {price.read}{_OLD if is_old else ''} in ",
            UntrustedText(price.source),
            ".",
        )
