"""Karpenter on EKS, from its chart, and the objects from which nodes are launched: Karpenter's, or those of
EKS Auto Mode, which runs Karpenter outside of the cluster.

Responsible for the order. What it may do in AWS is clusters/eks/karpenter.py.
"""

from dataclasses import dataclass

import pulumi

from muster.components.bundle import Bundle
from muster.components.clusters.cloud import Provisioning
from muster.components.component import Component
from muster.components.context import PlatformContext
from muster.components.gpu_operator import release
from muster.model import names
from muster.model.clusters import EksCluster
from muster.model.karpenter import chart_values


@dataclass(frozen=True, slots=True, kw_only=True)
class KarpenterArgs:
    """`context`: the cluster to install into. `cluster`: as the stack describes it.

    `provisioning`: of the cluster's component. Its objects are NodePools, of which one that leaves ends its
    nodes, as soon as no pod that must not be disturbed runs there.

    Its ServiceAccount needs the rights of `clusters.eks.karpenter` in AWS, by Pod Identity, and its CRDs are
    those of the platform.
    """

    context: PlatformContext
    cluster: EksCluster
    provisioning: Provisioning


class Karpenter(Component):
    """`serving`: depend on it and pending pods get nodes, which stay until what depends on it is gone."""

    def __init__(self, name: str, args: KarpenterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("muster:index:Karpenter", name, opts)
        context = args.context
        before: list[pulumi.Resource] | None = None
        if args.provisioning.queue is not None:
            image = context.artifacts.image("karpenter")
            self.release = release(
                name,
                context.artifacts.chart("karpenter"),
                release_name=names.KARPENTER,
                namespace=names.KARPENTER_NAMESPACE,
                values=args.provisioning.queue.apply(
                    lambda queue: chart_values(
                        args.cluster, queue=queue, image=image, node_selector=context.sizing.node_selector()
                    )
                ),
                # The platform applies them, and changes them with the chart's version, which Helm does not.
                skip_crds=True,
                opts=self.child_options(provider=context.provider),
            )
            before = [self.release]
        self.serving = Bundle(
            f"{name}-nodes",
            manifests={"nodes": args.provisioning.objects},
            opts=self.child_options(provider=context.bundles, after=before),
        )
        self.register_outputs({})
