"""Partitions: which pools one KAI scheduler serves, and the names of the queues there.

A KAI Queue has one GPU figure for all kinds of GPU. That is enough for one GPU pool. With two, a team's
quota of one pool would be usable in the other. Then every pool gets a scheduler of its own (a
SchedulingShard for the nodes, queues and gangs with the pool's label), and a team has a Queue in each.
docs/decisions/008-kai-queues.md compares the alternatives.
"""

from dataclasses import dataclass
from typing import Final

from muster.model.kai.shard import Sharding
from muster.model.pools import Pool
from muster.model.stack import Stack

DEFAULT_SHARD: Final = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """`pool` is the name that its nodes, queues and gangs carry as label; None: those without the label."""

    name: str
    pool: str | None
    pools: tuple[Pool, ...]

    def queue(self, owner: str) -> str:
        """The name of a team's or department's Queue in this partition."""
        return owner if self.pool is None else f"{owner}-{self.pool}"


def sharding(stack: Stack) -> Sharding:
    """The stack's setting, or by default the sharding that keeps the quotas of its pools separate."""
    if stack.kai.sharding is not None:
        return stack.kai.sharding
    gpu_pools = [pool for pool in stack.pools if pool.is_gpu]
    return Sharding.PER_POOL if len(gpu_pools) > 1 else Sharding.ONE


def partitions(stack: Stack) -> tuple[Partition, ...]:
    """The partitions of the stack, in the order of its pools."""
    if sharding(stack) is Sharding.ONE:
        return (Partition(name=DEFAULT_SHARD, pool=None, pools=stack.pools),)
    return tuple(Partition(name=pool.name, pool=pool.name, pools=(pool,)) for pool in stack.pools)
