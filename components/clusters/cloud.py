"""The cloud under a cluster of our own making, for what else a stack makes there."""

from dataclasses import dataclass

import pulumi


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """`provider` reaches the cluster's own project or account; `control_plane` is there before what is made
    with it.
    """

    provider: pulumi.ProviderResource
    control_plane: pulumi.Resource

    def options(self, parent: pulumi.Resource) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(parent=parent, provider=self.provider, depends_on=[self.control_plane])
