"""The cloud of a cluster that Muster made, for what else a stack makes there."""

from dataclasses import dataclass

import pulumi


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """`provider` reaches the cluster's own project or account. `control_plane` exists before anything that is
    made with it.
    """

    provider: pulumi.ProviderResource
    control_plane: pulumi.Resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Provisioning:
    """Nodes that something in the cluster launches (Karpenter, or EKS Auto Mode) from objects of its API.

    `objects`: those objects, as the text of a Bundle. `queue`: the name of the queue on which the cloud
    announces that it takes a machine away; None where the cloud itself is what launches.
    """

    objects: pulumi.Output[str]
    queue: pulumi.Output[str] | None
