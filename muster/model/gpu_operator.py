"""The values of the GPU Operator's chart for each cloud and image.

Responsible for which component installs the driver and advertises the GPUs, and for the device plugin's
configuration of GPU sharing. A default of the chart that is right is not repeated. Safe versions are in
versions.py.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from muster.model import names
from muster.model.clusters import Cluster
from muster.model.pools import GpuSharing, Image, Pool, Sharing
from muster.model.programs import GPU_OPERATOR_NAMESPACE, Program, Version
from muster.model.regions import NodeCloud
from muster.model.stack import ArtifactSource, Stack

NAMESPACE: Final = GPU_OPERATOR_NAMESPACE
# Where GKE's driver lies on Container-Optimized OS, whose root cannot be written:
# https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/google-gke.html
_COS_DRIVER: Final = "/home/kubernetes/bin/nvidia"
PLUGIN_LABEL: Final = "nvidia.com/device-plugin.config"
MIG_LABEL: Final = "nvidia.com/mig.config"
# With this label at "false" on a node the operator deploys none of its operands there
# (github.com/NVIDIA/gpu-operator, controllers/state_manager.go, hasOperandsDisabled).
OPERANDS_LABEL: Final = "nvidia.com/gpu.deploy.operands"
_CONFIG: Final = "muster-device-plugin"
# Its device plugin names a container's GPUs to containerd by CDI alone. Older ones also name them by the
# variable NVIDIA_VISIBLE_DEVICES, which any container may write, and need runtimes that obey it. Source:
# https://github.com/NVIDIA/gpu-operator at v26.7.0, v25.10.0 and v25.3.4, controllers/object_controls.go
# (transformDevicePluginCtrForCDI), read 2026-11-27
FIRST_BY_CDI: Final = Version(25, 10)
OBEYS_VARIABLE: Final = "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED"
"""Of the toolkit's DaemonSet: whether its runtime gives an unprivileged container the GPUs that it names."""


class GpuStack(StrEnum):
    """Whose driver and whose advertiser the GPU nodes have.

    gke-managed: GKE installs the driver and its plugin advertises. gke-installer: Google's installer
    DaemonSet brings the driver, the operator's plugin advertises. ami: driver and container toolkit are on
    EKS's NVIDIA images, the operator's plugin advertises. oci-managed: driver and container toolkit are on
    Oracle's GPU images, and OKE's add-on NvidiaGpuPlugin advertises
    (Source: https://docs.nvidia.com/aicr/integrator-guide/oke-gpu-setup, read 2026-11-27). operator: the
    operator brings driver and container toolkit, and its plugin advertises. On AKS this takes node pools
    without Azure's driver, `--gpu-driver none`
    (Source: https://learn.microsoft.com/azure/aks/nvidia-gpu-operator, read 2026-11-27).
    """

    GKE_MANAGED = "gke-managed"
    GKE_INSTALLER = "gke-installer"
    AMI = "ami"
    OCI_MANAGED = "oci-managed"
    OPERATOR = "operator"


_KINDS: Final = {
    NodeCloud.GKE: GpuStack.GKE_MANAGED,
    NodeCloud.EKS: GpuStack.AMI,
    NodeCloud.AKS: GpuStack.OPERATOR,
    NodeCloud.OCI: GpuStack.OCI_MANAGED,
    NodeCloud.OTHER: GpuStack.OPERATOR,
}


def serves(pool: Pool) -> bool:
    """Whether the operator does anything on a pool's nodes. Bottlerocket's NVIDIA variants hold driver,
    container toolkit and device plugin as services of the node, and a second plugin beside theirs is not
    supported: https://github.com/bottlerocket-os/bottlerocket/issues/3992. NVIDIA lists no Bottlerocket
    among the operator's platforms:
    https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/platform-support.html
    """
    return pool.is_nvidia and pool.image is not Image.BOTTLEROCKET


def gpu_stack(cluster: Cluster) -> GpuStack | None:
    """None where nothing is installed on the nodes: their cloud is unknown, or it is EKS Auto Mode, which has
    its own driver and device plugin (https://docs.aws.amazon.com/eks/latest/userguide/automode.html).
    """
    if cluster.is_auto:
        return None
    if cluster.has_driver_installer:
        return GpuStack.GKE_INSTALLER
    return _KINDS[cluster.cloud] if cluster.cloud else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """One stack's GPU Operator: `pools` are those that it serves."""

    kind: GpuStack
    pools: tuple[Pool, ...]

    @property
    def is_gke(self) -> bool:
        return self.kind in (GpuStack.GKE_MANAGED, GpuStack.GKE_INSTALLER)

    @property
    def has_plugin(self) -> bool:
        """Whether the operator's device plugin advertises anywhere. Two advertisers on a node count its GPUs
        twice.
        """
        return self.kind not in (GpuStack.GKE_MANAGED, GpuStack.OCI_MANAGED)

    @property
    def shared(self) -> tuple[GpuSharing, ...]:
        """Every kind of sharing in the configuration of the operator's plugin, once."""
        ways = {
            pool.sharing.name: pool.sharing for pool in self.pools if pool.sharing.kind is not Sharing.NONE
        }
        return tuple(ways[name] for name in sorted(ways)) if self.has_plugin else ()

    @property
    def has_mig(self) -> bool:
        return any(sharing.kind is Sharing.MIG for sharing in self.shared)


def installation(stack: Stack) -> Installation | None:
    """The GPU Operator that the stack installs; None where it needs none or leaves it out."""
    return required_installation(stack) if stack.installs(Program.GPU_OPERATOR) else None


def required_installation(stack: Stack) -> Installation | None:
    """The GPU Operator that the stack's nodes need, installed by Muster or not; None where it serves none of
    them, or where their cloud is not known. What was built on this machine has no GPU Operator: its GPUs are
    simulated.
    """
    kind = gpu_stack(stack.cluster)
    pools = tuple(pool for pool in stack.pools if serves(pool))
    if kind is None or not pools or stack.artifacts is ArtifactSource.LOCAL:
        return None
    return Installation(kind=kind, pools=pools)


def values(wanted: Installation, *, control_nodes: Mapping[str, str]) -> dict[str, Any]:
    """The chart's values. `control_nodes`: the node selector of what is no DaemonSet."""
    found: dict[str, Any] = {
        "operator": {"nodeSelector": {"kubernetes.io/os": "linux", **control_nodes}},
        "node-feature-discovery": {
            "master": {"nodeSelector": dict(control_nodes)},
            "gc": {"nodeSelector": dict(control_nodes)},
            "worker": {"tolerations": _tolerations(wanted)},
        },
        "daemonsets": {"tolerations": _tolerations(wanted)},
        "dcgmExporter": {"enabled": True},
        "driver": _driver(wanted),
        "devicePlugin": {"enabled": wanted.has_plugin},
        "cdi": {"enabled": True},
        "toolkit": {"enabled": False},
        "migManager": {"enabled": wanted.has_mig},
    }
    if wanted.is_gke or wanted.kind is GpuStack.OPERATOR:
        value = "true" if any(pool.by_variable for pool in wanted.pools) else "false"
        found["toolkit"] = {"env": [{"name": OBEYS_VARIABLE, "value": value}]}
    if wanted.is_gke:
        _for_cos(found)
    if wanted.shared:
        found["devicePlugin"]["config"] = _plugin_config(wanted.shared)
    if wanted.has_mig:
        # Changing a GPU's mode in a cloud's virtual machine takes a reboot of the node.
        found["mig"] = {"strategy": "single"}
        found["migManager"]["env"] = [{"name": "WITH_REBOOT", "value": "true"}]
    return found


def _driver(wanted: Installation) -> dict[str, Any]:
    """A driver of another version comes to a node when an administrator deletes its driver pod: the
    operator's own upgrades, the chart's default, end the pods that use the GPUs (Source:
    https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-driver-upgrades.html,
    read 2026-11-27).
    """
    if wanted.kind is not GpuStack.OPERATOR:
        return {"enabled": False}
    return {"enabled": True, "upgradePolicy": {"autoUpgrade": False}}


def _for_cos(found: dict[str, Any]) -> None:
    """Container-Optimized OS: the paths of driver and toolkit, and a check without a pod of its own (the
    chart requires a value of the variable).
    """
    found["hostPaths"] = {"driverInstallDir": _COS_DRIVER}
    found["toolkit"]["installDir"] = _COS_DRIVER
    found["toolkit"]["env"].append({"name": "RUNTIME_CONFIG_SOURCE", "value": "file"})
    found["validator"] = {"plugin": {"env": [{"name": "WITH_WORKLOAD", "value": "false"}]}}


def _tolerations(wanted: Installation) -> list[dict[str, str]]:
    """Of what has to run on GPU nodes. GKE taints queued nodes once more."""
    keys = [names.GPU_TAINT_KEY]
    if wanted.is_gke:
        keys.append(names.GKE_QUEUED_TAINT_KEY)
    return [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in keys]


def _plugin_config(shared: Iterable[GpuSharing]) -> dict[str, Any]:
    """One configuration for each way of sharing, chosen by a node's label; nodes without it share nothing."""
    entries = {sharing.name: plugin_entry(sharing) for sharing in (GpuSharing(), *shared)}
    return {"create": True, "name": _CONFIG, "default": Sharing.NONE.value, "data": entries}


def plugin_entry(sharing: GpuSharing) -> str:
    """The device plugin's own configuration file:
    https://github.com/NVIDIA/k8s-device-plugin#configuration-file-examples
    """
    if sharing.kind is Sharing.NONE:
        return "version: v1\n"
    if sharing.kind is Sharing.MIG:
        return "version: v1\nflags:\n  migStrategy: single\n"
    key = "timeSlicing" if sharing.kind is Sharing.TIME_SLICING else "mps"
    resource = f"    - name: {names.GPU_RESOURCE}\n      replicas: {sharing.shares}\n"
    return f"version: v1\nsharing:\n  {key}:\n    resources:\n{resource}"


def node_labels(pool: Pool, cluster: Cluster) -> dict[str, str]:
    """The labels of a GPU pool's nodes by which the operator knows what to do with them."""
    kind = gpu_stack(cluster)
    if not pool.is_nvidia or kind in (None, GpuStack.GKE_MANAGED, GpuStack.OCI_MANAGED):
        return {}
    if not serves(pool):
        return {OPERANDS_LABEL: "false"}
    if pool.sharing.kind is Sharing.NONE:
        return {}
    found = {PLUGIN_LABEL: pool.sharing.name}
    return found | {MIG_LABEL: f"all-{pool.sharing.profile}"} if pool.sharing.kind is Sharing.MIG else found


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeSharing:
    """The API's `gpuSharingConfig` and `gpuPartitionSize` of a GKE node pool whose GPUs GKE's own plugin
    advertises.
    """

    strategy: str | None = None
    clients: int | None = None
    partition: str | None = None


def gke_sharing(pool: Pool, cluster: Cluster) -> GkeSharing | None:
    """None where the pool shares nothing, or the operator's plugin is configured instead."""
    if gpu_stack(cluster) is not GpuStack.GKE_MANAGED or pool.sharing.kind is Sharing.NONE:
        return None
    if pool.sharing.kind is Sharing.MIG:
        return GkeSharing(partition=pool.sharing.profile)
    strategy = "TIME_SHARING" if pool.sharing.kind is Sharing.TIME_SLICING else "MPS"
    return GkeSharing(strategy=strategy, clients=pool.sharing.shares)
