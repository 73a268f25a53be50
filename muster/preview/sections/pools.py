"""Pools: nodes, GPUs, GPU-hours and money."""

from collections.abc import Iterator
from typing import Final

from muster.preview import cost, figures
from muster.preview.compare.changes import PoolChange
from muster.preview.compare.diff import StackDiff
from muster.preview.document import Items, Section, Table, Text, UntrustedText

_HEAD: Final = (
    "Pool",
    "Nodes",
    "GPUs at most",
    "GPU-hours a day",
    "Machine",
    "Capacity",
    "Money an hour",
)


def sections(told: StackDiff) -> Iterator[Section]:
    if told.changes is None or not told.changes.pools:
        return
    rows = tuple(_row(told, each) for each in told.changes.pools)
    sources = tuple(_sources(told))
    blocks = (Table(_HEAD, rows), *((Items(sources),) if sources else ()))
    yield Section("Pools, nodes, GPU-hours and money", 90, blocks)


def _row(told: StackDiff, change: PoolChange) -> tuple[Text, ...]:
    sides = (change.before, change.after)
    nodes = ["–" if pool is None else f"{pool.min_nodes} to {pool.max_nodes}" for pool in sides]
    gpus = ["–" if pool is None else str(pool.max_gpus) for pool in sides]
    machines = ["–" if pool is None else pool.machine.name for pool in sides]
    capacity = ["–" if pool is None else pool.capacity.value for pool in sides]
    costs = (
        cost.hourly_cost(change.before, told.base, told.prices),
        cost.hourly_cost(change.after, told.head, told.prices),
    )
    return (
        (UntrustedText(change.name),),
        (figures.format_change(*nodes),),
        (figures.format_change(*gpus),),
        (figures.format_change(*(figures.format_gpu_hours(pool) for pool in sides)),),
        (figures.format_change(*machines),),
        (figures.format_change(*capacity),),
        (cost.format_cost(*costs),),
    )


def _sources(told: StackDiff) -> Iterator[Text]:
    """Where each price that was used comes from, once."""
    assert told.changes is not None
    pairs = [(each.before, told.base) for each in told.changes.pools]
    pairs += [(each.after, told.head) for each in told.changes.pools]
    found = {
        told.prices.of(pool, stack.cluster) for pool, stack in pairs if pool is not None and stack is not None
    }
    known = sorted((each for each in found if each is not None), key=lambda each: (each.machine, each.region))
    for price in known:
        yield (
            UntrustedText(price.machine),
            " in ",
            UntrustedText(price.region),
            f", {price.capacity.value}: {price.currency} {price.hourly} a node and hour, ",
            f"read {price.read} in ",
            UntrustedText(price.source),
            ".",
        )
