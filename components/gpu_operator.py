"""The GPU Operator, from its chart, and what it needs around it: on GKE a quota and Google's driver
installer.

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
from muster.model.gangpolicy import crd
from muster.model.gpu_operator import NAMESPACE, GpuStack, Installation
from muster.model.programs import Chart
from muster.model.regions import NodeCloud
from muster.render.manifest import Manifest, manifest

_CRITICAL: Final = ["system-node-critical", "system-cluster-critical"]
# Pods of the operator on one GPU node (ten operands), and pods that exist once.
_PODS_A_NODE: Final = 10
_PODS: Final = 50
_INSTALLER: Final = "nvidia-driver-installer"


def namespace() -> Manifest:
    """Its operands mount the host: Pod Security has to let them."""
    return manifest("v1", "Namespace", NAMESPACE, labels={"pod-security.kubernetes.io/enforce": "privileged"})


def objects(wanted: Installation, *, pause_image: str) -> list[Manifest]:
    """The objects that have to exist before the chart."""
    found = [quota(wanted)] if wanted.is_gke else []
    return [*found, installer(pause_image)] if wanted.kind is GpuStack.GKE_INSTALLER else found


def quota(wanted: Installation) -> Manifest:
    """GKE lets pods of the critical priority classes run outside kube-system only under a quota:
    https://cloud.google.com/kubernetes-engine/docs/how-to/gpus. Sized for every GPU node of the stack.
    """
    nodes = sum(pool.max_nodes for pool in wanted.pools)
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": _CRITICAL}
    return manifest(
        "v1",
        "ResourceQuota",
        "critical-pods",
        namespace=NAMESPACE,
        spec={
            "hard": {"pods": str(_PODS + nodes * _PODS_A_NODE)},
            "scopeSelector": {"matchExpressions": [scope]},
        },
    )


def installer(pause_image: str) -> Manifest:
    """Google's installer for Container-Optimized OS: its image lies on the node, so it is never pulled, and
    it finds and leaves things in these places of the node
    (github.com/GoogleCloudPlatform/container-engine-accelerators, nvidia-driver-installer/cos).
    """
    labels = {"k8s-app": _INSTALLER}
    places = {
        "NVIDIA_INSTALL_DIR": ("/home/kubernetes/bin/nvidia", "/usr/local/nvidia"),
        "VULKAN_ICD_DIR": ("/home/kubernetes/bin/nvidia/vulkan/icd.d", "/etc/vulkan/icd.d"),
        "COS_TOOLS_DIR": ("/var/lib/cos-tools", "/build/cos-tools"),
    }
    env = [
        {"name": f"{name}_{side}", "value": path}
        for name, pair in places.items()
        for side, path in zip(("HOST", "CONTAINER"), pair, strict=True)
    ]
    mounts = [*places.values(), ("/dev", "/dev"), ("/", "/root")]
    container: dict[str, Any] = {
        "name": "installer",
        "image": "cos-nvidia-installer:fixed",
        "imagePullPolicy": "Never",
        "resources": {"requests": {"cpu": "150m"}},
        "securityContext": {"privileged": True},
        "env": [*env, {"name": "ROOT_MOUNT_DIR", "value": "/root"}],
        "volumeMounts": [{"name": f"v{i}", "mountPath": path} for i, (_, path) in enumerate(mounts)],
    }
    pod = {
        "priorityClassName": "system-node-critical",
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _gpu_nodes()}},
        "tolerations": [{"operator": "Exists"}],
        "hostNetwork": True,
        "hostPID": True,
        "volumes": [{"name": f"v{i}", "hostPath": {"path": path}} for i, (path, _) in enumerate(mounts)],
        "initContainers": [container],
        "containers": [{"name": "pause", "image": pause_image}],
    }
    return manifest(
        "apps/v1",
        "DaemonSet",
        _INSTALLER,
        namespace="kube-system",
        spec={
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    )


def _gpu_nodes() -> dict[str, Any]:
    """GPU nodes whose driver GKE does not install itself."""
    match = [
        {"key": "cloud.google.com/gke-accelerator", "operator": "Exists"},
        {"key": "cloud.google.com/gke-gpu-driver-version", "operator": "DoesNotExist"},
    ]
    return {"nodeSelectorTerms": [{"matchExpressions": match}]}


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
    cluster = context.stack.cluster
    if cluster.cloud is not NodeCloud.GKE:
        manifests["provisioningrequests"] = context.artifacts.crd("provisioningrequests").read_text()
    if cluster.is_ours and cluster.has_karpenter:
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
            f"{name}-namespace", namespace(), opts=self.child_options(provider=context.provider)
        )
        before: list[pulumi.Resource] = [self.namespace]
        around = objects(wanted, pause_image=context.artifacts.image("pause"))
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
