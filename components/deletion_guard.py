"""What makes `pulumi destroy` of a protected stack refuse before it has touched anything.

The engine refuses resource by resource: with a protected cluster alone, it deletes the queues, the schedulers
and every pool that is not protected, and stops at the cluster. What depends on everything is deleted first,
so one protected resource there stops it at the first step.
"""

from collections.abc import Sequence
from typing import Final

import pulumi

from muster.model.clusters import Cluster, ExistingCluster

# The engine's message holds the resource's name and its own advice, which is about the program.
_STEP: Final = "set muster:cluster.protect to false and run pulumi up"


class Guard(pulumi.ComponentResource):
    """Depends on all of `over` and is protected while `protect` holds. The engine prints its name."""

    def __init__(self, *, over: Sequence[pulumi.Resource], protect: bool) -> None:
        opts = pulumi.ResourceOptions(protect=protect, depends_on=list(over))
        super().__init__("muster:index:Guard", _STEP, None, opts)
        self.register_outputs({})


def guard(cluster: Cluster, *over: pulumi.Resource | None) -> Guard | None:
    """None for a cluster that somebody else made: nothing in it is protected."""
    if isinstance(cluster, ExistingCluster):
        return None
    return Guard(over=[each for each in over if each is not None], protect=cluster.protect)
