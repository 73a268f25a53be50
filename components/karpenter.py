"""Karpenter on EKS, from its chart, and the objects from which nodes are launched: Karpenter's, or those of
EKS Auto Mode, which runs Karpenter outside of the cluster.

Responsible for the order and the chart's values. What it launches is rendered by render/karpenter.py, and
what it may do in AWS is clusters/eks/karpenter.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pulumi

from muster.components.bundle import Bundle
from muster.components.clusters.cloud import Provisioning
from muster.components.component import Component
from muster.components.context import PlatformContext
from muster.components.gpu_operator import release
from muster.model import names
from muster.model.clusters import EksCluster

# https://karpenter.sh/docs/getting-started/getting-started-with-karpenter/ asks for a CPU; it uses one while
# it decides, and its memory holds every pod and node.
_RESOURCES: Final = {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}}


def chart_values(
    cluster: EksCluster, *, queue: str, image: str, node_selector: Mapping[str, str]
) -> dict[str, Any]:
    """`queue`: the name of its queue. `image`: its reference, by tag or digest."""
    place, _, digest = image.partition("@")
    repository, _, tag = place.rpartition(":") if ":" in place.rpartition("/")[2] else (place, "", "")
    return {
        # Its pods keep off each other's nodes, and nothing adds nodes to the system pool.
        "replicas": min(2, cluster.system_pool.min_nodes),
        "serviceAccount": {"name": names.KARPENTER},
        "nodeSelector": {"kubernetes.io/os": "linux", **node_selector},
        # The chart's own refuses a node of the zone that has a pod already, also where there is no other.
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": names.ZONE_LABEL, "whenUnsatisfiable": "ScheduleAnyway"}
        ],
        # The digest of the chart is that of the chart's own image.
        "controller": {
            "image": {"repository": repository, "tag": tag, "digest": digest},
            "resources": _RESOURCES,
        },
        "settings": {"clusterName": cluster.name, "interruptionQueue": queue},
    }


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
