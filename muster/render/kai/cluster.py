"""The objects that KAI's Queues refer to."""

from muster.model.stack import Stack
from muster.render.kai.shards import shards
from muster.render.kai.topologies import topologies
from muster.render.manifest import Manifest


def cluster_objects(stack: Stack) -> list[Manifest]:
    """In the order in which they can be applied."""
    return [*topologies(stack), *shards(stack)]
