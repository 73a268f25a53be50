"""SchedulingShard of every partition: the settings of its scheduler, as the stack has them."""

from typing import Final

from muster.model import names
from muster.model.kai.tree import Partition, partitions
from muster.model.stack import Stack
from muster.render.manifest import Manifest, manifest

# Topology objects of the stack.


def topologies(stack: Stack) -> list[Manifest]:
    return [
        manifest(names.KAI_TOPOLOGY_API_VERSION, "Topology", topology.name, spec=topology.spec.written())
        for topology in sorted(stack.kai.topologies, key=lambda topology: topology.name)
    ]


# KAI's default, written so that a preview shows it.
_PLACEMENT: Final = {"gpu": "binpack", "cpu": "binpack"}


def shards(stack: Stack) -> list[Manifest]:
    return [
        manifest(names.KAI_SHARD_API_VERSION, "SchedulingShard", partition.name, spec=_spec(stack, partition))
        for partition in partitions(stack)
    ]


def _spec(stack: Stack, partition: Partition) -> Manifest:
    settings = stack.kai.pools.get(partition.pool or "", stack.kai.shard)
    # Without a value a shard has the nodes, queues and gangs that carry no pool's label.
    value = {} if partition.pool is None else {"partitionLabelValue": partition.pool}
    placement = _PLACEMENT | settings.get("placementStrategy", {})
    return {**value, **settings.written(), "placementStrategy": placement}
