"""The settings of a team's or department's KAI Queue (`kai:` in the tree), beyond quota, borrow and weight.

A field that is None is derived: quota and limit from the allowance, the weight from `weight`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Generic

from muster.model.kai.figures import Amount, Figure, MilliGpus
from muster.model.quantities import Bytes, Millicores

# KAI's default, written explicitly so that a preview shows it.
DEFAULT_QUEUE_PRIORITY: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Share(Generic[Amount]):
    """One resource of a queue. `limit` is the most in all, quota included. `over_quota_weight` divides what
    is free beyond all quotas among queues of one priority.
    """

    quota: Figure[Amount] | None = None
    limit: Figure[Amount] | None = None
    over_quota_weight: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """The three resources that KAI counts."""

    gpu: Share[MilliGpus] = Share()
    cpu: Share[Millicores] = Share()
    memory: Share[Bytes] = Share()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """Runtimes in seconds: how long work runs before its own queue may preempt it, or others reclaim it.

    A queue with a higher `priority` gets capacity over all quotas first and is reclaimed from last; it does
    not affect jobs. `shares` are for the one Queue of a stack with one shard, `pools` for each pool's Queue.

    `queue` is the Queue's name, the owner's when None. With `exists=False` (`queue: none`) a department has
    no Queue, and those below it have the parent that it would have.
    """

    queue: str | None = None
    exists: bool = field(default=True, metadata={"key": "queue"})
    display_name: str | None = None
    priority: int | None = None
    preempt_min_runtime: int | None = None
    reclaim_min_runtime: int | None = None
    shares: Shares = field(default=Shares(), metadata={"key": ""})
    pools: Mapping[str, Shares] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, pool: str | None) -> Shares:
        """The shares of a pool's Queue; None: of the only Queue."""
        return self.shares if pool is None else self.pools.get(pool, Shares())
