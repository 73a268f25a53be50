"""The GPU Operator, from its chart, and what it needs around it.

Responsible for the order: the namespace and its quota exist before the pods that need them. The chart's
values are the model's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pulumi
import pulumi_kubernetes as kubernetes

from muster.artifacts.resolved import cached_chart
from muster.components.bundle import Bundle, text
from muster.components.component import Component
from muster.components.context import KubernetesObject, PlatformContext
from muster.errors import MusterError
from muster.model import gpu_operator, queuetree
from muster.model.charts import Chart
from muster.model.clusters import EksCluster, NodeProvisioner
from muster.model.gangpolicy import crd
from muster.model.gpu_operator import Installation, cloud_of
from muster.model.regions import NodeCloud
from muster.render import gpu

# A chart as one Helm release.
# One release, not a resource for each of a chart's objects: docs/decisions/001-resource-grain.md has the
# reason.

# A release waits for its pods: with images of gigabytes on fresh nodes that takes minutes.
_TIMEOUT = 600


def release(
    name: str,
    chart: Chart,
    *,
    release_name: str,
    namespace: str,
    values: pulumi.Input[Mapping[str, Any]],
    opts: pulumi.ResourceOptions,
    timeout: int = _TIMEOUT,
    skip_crds: bool = False,
) -> kubernetes.helm.v3.Release:
    """The resource `name`, which is Helm's release `release_name` and is done when its pods are ready.

    ArtifactError where the chart's archive does not have its digest.
    """
    chart = cached_chart(chart)
    home = chart.repository
    return kubernetes.helm.v3.Release(
        name,
        name=release_name,
        chart=chart.reference,
        version=chart.version,
        repository_opts=kubernetes.helm.v3.RepositoryOptsArgs(repo=home) if home else None,
        namespace=namespace,
        values=values,
        timeout=timeout,
        skip_crds=skip_crds,
        opts=opts,
    )


# CRDs that programs look for once, when they start: Kueue for ProvisioningRequests, the controller for its
# GangPolicy, Karpenter for its own.

_KARPENTER: Final = ("ec2nodeclasses", "nodeclaims", "nodepools")


def crd_manifests(context: PlatformContext) -> dict[str, str]:
    """Manifests for one Bundle. GKE serves ProvisioningRequests itself.

    Set `retain_on_delete` for the Bundle: deleting a CRD deletes all of its objects.
    """
    manifests = {"gangpolicies": text([crd()]), "queuetrees": text([queuetree.crd()])}
    if cloud_of(context.stack.cluster) is not NodeCloud.GKE:
        manifests["provisioningrequests"] = context.artifacts.crd("provisioningrequests").read_text()
    cluster = context.stack.cluster
    if isinstance(cluster, EksCluster) and cluster.autoscaler is NodeProvisioner.KARPENTER:
        manifests |= {name: context.artifacts.crd(name).read_text() for name in _KARPENTER}
    return manifests


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuOperatorArgs:
    """`context`: the cluster, and the chart and images to install.

    `installation`: which of the operator's parts run. None takes those that fit the stack's pools and cloud.
    A part that the cloud runs as well (GKE's device plugin, for example) advertises every GPU twice.
    """

    context: PlatformContext
    installation: Installation | None = None


class GpuOperator(Component):
    """`serving`: depend on it and the operator runs. GPUs are advertised once their nodes exist."""

    def __init__(self, name: str, args: GpuOperatorArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("muster:index:GpuOperator", name, opts)
        context = args.context
        wanted = args.installation or gpu_operator.installation(context.stack)
        if wanted is None:
            raise MusterError(
                "GpuOperator: the stack has no pool whose nodes need the GPU Operator.",
                fix="leave the component out, or give `installation` to install it all the same.",
            )
        self.namespace = KubernetesObject(
            f"{name}-namespace", gpu.namespace(), opts=self.child_options(provider=context.provider)
        )
        before: list[pulumi.Resource] = [self.namespace]
        around = gpu.objects(wanted, pause_image=context.artifacts.image("pause"))
        if around:
            before.append(
                Bundle(
                    f"{name}-nodes",
                    manifests={"objects": text(around)},
                    opts=self.child_options(provider=context.bundles, after=[self.namespace]),
                )
            )
        self.release = release(
            name,
            context.artifacts.chart("gpu-operator"),
            release_name="gpu-operator",
            namespace=gpu_operator.NAMESPACE,
            values=gpu_operator.values(wanted, control_nodes=context.sizing.node_selector()),
            opts=self.child_options(provider=context.provider, after=before),
        )
        self.serving: pulumi.Resource = self.release
        self.register_outputs({})
