"""Objects of the GPU Operator's namespace besides its chart: a quota on GKE, Google's driver installer."""

from typing import Any, Final

from muster.model.gpu_operator import NAMESPACE, GpuStack, Installation
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
