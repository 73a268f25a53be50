"""The ComputeClasses of a GKE cluster that makes its node pools by itself."""

from dataclasses import dataclass

import pulumi

from muster.components.bundle import Bundle
from muster.components.clusters.cloud import Provisioning
from muster.components.component import Component
from muster.components.context import PlatformContext


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeClassesArgs:
    """`context`: the cluster, which serves the kind. `provisioning`: of the cluster's component. GKE ends the
    nodes of a class that leaves when no pod needs them.
    """

    context: PlatformContext
    provisioning: Provisioning


class ComputeClasses(Component):
    """`serving`: depend on it and pending pods get nodes."""

    def __init__(
        self, name: str, args: ComputeClassesArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("muster:index:ComputeClasses", name, opts)
        self.serving = Bundle(
            f"{name}-nodes",
            manifests={"nodes": args.provisioning.objects},
            opts=self.child_options(provider=args.context.bundles),
        )
        self.register_outputs({})
