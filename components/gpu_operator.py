"""What makes the devices of nodes known to Kubernetes: the GPU Operator, and AWS's plugin for EFA.

The operator comes from its chart; its namespace and quota exist before the pods that need them, and the
chart's values are the model's.

EFA's plugin advertises the interfaces that the launch templates of EKS's pools attach. Without it no pod can
request `vpc.amazonaws.com/efa`, and a job of several nodes talks over TCP, which is several times slower. One
DaemonSet, as in AWS's own chart
(https://github.com/aws/eks-charts/tree/master/stable/aws-efa-k8s-device-plugin), on the nodes of the pools
that have EFA and nowhere else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pulumi
import pulumi_kubernetes as kubernetes

from muster.artifacts.chart_cache import cached_chart
from muster.components.component import Bundle, Component, text
from muster.components.context import KubernetesObject, PlatformContext, child
from muster.errors import MusterError
from muster.model import gpu_operator, names, queuetree
from muster.model.charts import Chart
from muster.model.clusters import EksCluster, NodeProvisioner
from muster.model.gangpolicy import crd
from muster.model.gpu_operator import Installation, cloud_of
from muster.model.regions import NodeCloud
from muster.render import gpu
from muster.render.manifest import manifest

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


_PLUGINS: Final = "/var/lib/kubelet/device-plugins"
_DEVICES: Final = "/dev/infiniband"


@dataclass(frozen=True, slots=True, kw_only=True)
class EfaDevicePluginArgs:
    """`context`: the cluster to install into. `pools`: the names of the pools whose nodes have EFA."""

    context: PlatformContext
    pools: Sequence[str]


class EfaDevicePlugin(Component):
    """EFA is advertised once its nodes exist."""

    def __init__(
        self, name: str, args: EfaDevicePluginArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("muster:index:EfaDevicePlugin", name, opts)
        body = {
            **manifest("apps/v1", "DaemonSet", names.EFA_PLUGIN, namespace="kube-system"),
            "spec": daemon_set(args.pools, image=args.context.artifacts.image(names.EFA_PLUGIN)),
        }
        self.daemon_set = child(self, body, provider=args.context.provider)
        self.register_outputs({})


def daemon_set(pools: Sequence[str], *, image: str) -> dict[str, Any]:
    """The spec. The pod is root on the host's network, without any capability: it opens no device itself."""
    container = {
        "name": names.EFA_PLUGIN,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "resources": {"requests": {"cpu": "10m", "memory": "20Mi"}, "limits": {"memory": "100Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": False,
        },
        "volumeMounts": [
            {"name": "device-plugins", "mountPath": _PLUGINS},
            {"name": "devices", "mountPath": _DEVICES},
        ],
    }
    labels = {"app.kubernetes.io/name": names.EFA_PLUGIN}
    in_pools = {"key": names.POOL_LABEL, "operator": "In", "values": sorted(pools)}
    return {
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [{"matchExpressions": [in_pools]}]
                        }
                    }
                },
                "automountServiceAccountToken": False,
                "containers": [container],
                "hostNetwork": True,
                "priorityClassName": "system-node-critical",
                "tolerations": [{"operator": "Exists"}],
                "volumes": [
                    {"name": "device-plugins", "hostPath": {"path": _PLUGINS}},
                    {"name": "devices", "hostPath": {"path": _DEVICES}},
                ],
            },
        },
        "updateStrategy": {"type": "RollingUpdate"},
    }
