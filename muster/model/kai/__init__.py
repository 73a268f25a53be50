"""KAI's API as types: the settings of a stack that queues.py does not cover.

    Figure, UNLIMITED    an amount, or no bound at all
    Share, Shares        quota, limit and weight of one resource; of GPUs, CPU and memory
    QueueSettings        settings of a team's or department's Queue
    ShardSettings        a SchedulingShard, in KAI's words; so QueueSpec and TopologySpec
    Topology             node labels that describe how close two nodes are
    KaiSettings          settings for the whole stack (`muster:kai`)

Two modules are about whole stacks and are imported by name: partition.py (which pools share a shard, the
names of their queues) and tree.py (every Queue with its figures).

Responsible for units, and for hiding how KAI spells "without bound" and "nothing".
"""

from muster.model.kai.queue import (
    DEFAULT_QUEUE_PRIORITY,
    UNLIMITED,
    Figure,
    MilliGpus,
    QueueSettings,
    QueueSpec,
    Share,
    Shares,
    Unlimited,
    added,
    within,
)
from muster.model.kai.shard import KaiSettings, Sharding, ShardSettings, Topology, TopologySpec

__all__ = [
    "DEFAULT_QUEUE_PRIORITY",
    "UNLIMITED",
    "Figure",
    "KaiSettings",
    "MilliGpus",
    "QueueSettings",
    "QueueSpec",
    "ShardSettings",
    "Sharding",
    "Share",
    "Shares",
    "Topology",
    "TopologySpec",
    "Unlimited",
    "added",
    "within",
]
