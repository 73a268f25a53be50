"""The queues as a webhook needs them: by namespace.

Not responsible for the format of the object (manifest.py) nor for checks (muster.controller).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

# The key of `Queue.most` for a queue that counts its GPUs over all pools together, as KAI's do.
ANY_POOL: Final = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """`name` is the name that work uses. `most` is an upper bound of the GPUs of each pool that work of the
    queue can hold at a time, borrowed ones included. A missing pool means none of its GPUs; without any pool
    the bound is unknown.

    `pool` is the queue's one pool, empty for a queue of any pool; `gpus` are those of one of its nodes, as
    pods request them.
    """

    name: str
    pool: str = ""
    gpus: int = 0
    most: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))


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
    clusters have to require their token.
    """

    kai: bool = False
    gated: bool = False
    guarded: bool = False
    spaces: Mapping[str, Space] = field(default_factory=lambda: MappingProxyType({}))
