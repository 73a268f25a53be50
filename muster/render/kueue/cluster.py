"""The objects that Kueue's queues refer to."""

from muster.model.stack import Stack
from muster.render.kueue.checks import admission_check
from muster.render.kueue.flavors import flavors, topologies
from muster.render.manifest import Manifest


def cluster_objects(stack: Stack) -> list[Manifest]:
    """In the order in which they can be applied."""
    return [*topologies(stack), *flavors(stack), *admission_check(stack)]
