"""KAI's own API as types: everything of it that a stack may say and the words of queues.py cannot.

    Figure, UNLIMITED    an amount, or no bound at all
    Share, Shares        quota, limit and weight of one resource; of GPUs, CPU and memory
    QueueSettings        a team's or department's own words to its Queue
    ShardSettings        a SchedulingShard: placement, plugins, actions, budgets
    Topology             which node labels say how near two nodes are
    KaiSettings          what a stack says to KAI as a whole (`muster:kai`)
    EXCLUDED             fields of KAI's that the model leaves out, each with its reason

Two modules are about whole stacks and are asked for by name: partition.py (which pools share a shard, what
their queues are called) and tree.py (every Queue with its figures).

Decides units, and that nobody has to know how KAI spells "without bound" or "nothing". Leaves the manifests
to render/kai and what is legal to rules/kai.
"""

from muster.model.kai.excluded import EXCLUDED
from muster.model.kai.figures import UNLIMITED, Figure, MilliGpus, Unlimited, added, within
from muster.model.kai.queue import DEFAULT_QUEUE_PRIORITY, QueueSettings, Share, Shares
from muster.model.kai.settings import KaiSettings, Sharding
from muster.model.kai.shard import Action, Placement, Plugin, SearchBudgets, ShardSettings, Strategy, Usage
from muster.model.kai.topology import Level, Topology

__all__ = [
    "DEFAULT_QUEUE_PRIORITY",
    "EXCLUDED",
    "UNLIMITED",
    "Action",
    "Figure",
    "KaiSettings",
    "Level",
    "MilliGpus",
    "Placement",
    "Plugin",
    "QueueSettings",
    "SearchBudgets",
    "ShardSettings",
    "Sharding",
    "Share",
    "Shares",
    "Strategy",
    "Topology",
    "Unlimited",
    "Usage",
    "added",
    "within",
]
