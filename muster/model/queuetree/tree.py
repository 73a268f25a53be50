"""The queues as a webhook needs them: by namespace.

Not responsible for the format of the object (manifest.py) nor for checks (muster.controller).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import Final

from muster.model.names import GPU_RESOURCE
from muster.model.pods import Amounts
from muster.model.quantities import parse_quantity

Limits = Mapping[str, Mapping[str, str]]

# The key of `Queue.most` for a queue that counts its GPUs over all pools together, as KAI's do.
ANY_POOL: Final = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """`name` is the name that work uses. `most` is an upper bound of the GPUs of each pool that work of the
    queue can hold at a time, borrowed ones included. A missing pool means none of its GPUs; without any pool
    the bound is unknown.

    `limits` bound what is no GPU in the same way: one mapping a resource group, of pool or flavor -> resource
    -> quantity. The groups together name every resource that the queue has a quota of; empty: unknown.

    `pool` is the queue's one pool, empty for a queue of any pool; `gpus` are those of one of its nodes, as
    pods request them.
    """

    name: str
    pool: str = ""
    gpus: int = 0
    most: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    limits: tuple[Limits, ...] = ()

    @property
    def groups(self) -> tuple[Mapping[str, Amounts], ...]:
        """The upper bounds of all resources, by group and pool. GPUs are in the first group."""
        first, *others = self.limits or ({},)
        pools = {**dict.fromkeys(first), **dict.fromkeys(self.most)}
        bounds = {pool: _amounts(first.get(pool, {})) for pool in pools}
        for pool, gpus in self.most.items():
            bounds[pool][GPU_RESOURCE] = Fraction(gpus)
        return (bounds, *({pool: _amounts(each) for pool, each in group.items()} for group in others))


def _amounts(quantities: Mapping[str, str]) -> dict[str, Fraction]:
    return {name: parse_quantity(amount) for name, amount in quantities.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """A team's namespace: the queues and priorities that its work may name."""

    team: str
    queues: tuple[Queue, ...] = ()
    priorities: tuple[str, ...] = ()
    default_priority: str | None = None

    def queue(self, name: str) -> Queue | None:
        return next((queue for queue in self.queues if queue.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTree:
    """`kai`: KAI schedules, not Kueue. `gated`: GPU pods of gangs are created with our gate. `guarded`: Ray
    clusters have to require their token. `uncounted`: prefixes of the resources that no queue counts.
    """

    kai: bool = False
    gated: bool = False
    guarded: bool = False
    uncounted: tuple[str, ...] = ()
    spaces: Mapping[str, Space] = field(default_factory=lambda: MappingProxyType({}))
