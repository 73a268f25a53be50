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
