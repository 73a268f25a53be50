"""A GKE cluster: its settings and their defaults.

Not a choice, because only one way is safe: nodes without public addresses, VPC-native, Dataplane V2, Workload
Identity, shielded nodes, a node service account of its own with the least roles.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from muster.model.clusters.maintenance import MaintenanceWindow
from muster.model.clusters.system import SystemPool
from muster.model.machines import MACHINES
from muster.model.providers import Provider


class ReleaseChannel(StrEnum):
    """Which versions GKE moves the cluster to, and when.
    https://cloud.google.com/kubernetes-engine/docs/concepts/release-channels

    In a channel the auto-upgrade of every pool is on ("Auto_upgrade must be true when release_channel REGULAR
    is set"). For queued and flex-start pools GKE then uses its strategy SHORT_LIVED, which replaces no node
    that runs; for the others see MaintenanceWindow.exclusions. `none` is for clusters that have it: GKE
    makes no new one for new customers, and moves all of them to `stable` on NO_CHANNEL_ENDS.

    Source: https://docs.cloud.google.com/kubernetes-engine/docs/concepts/node-pool-upgrade-strategies and
    github.com/GoogleCloudPlatform/cluster-toolkit examples/gke-consumption-options at 1.95.0, read 2026-11-27
    """

    NONE = "none"
    RAPID = "rapid"
    REGULAR = "regular"
    STABLE = "stable"
    EXTENDED = "extended"


NO_CHANNEL_ENDS: Final = date(2027, 6, 14)
NO_CHANNEL_SOURCE: Final = (
    "https://docs.cloud.google.com/kubernetes-engine/docs/release-notes-nochannel, read 2026-11-27"
)


class GpuDriver(StrEnum):
    """Which component installs the GPU driver on Container-Optimized OS and advertises the GPUs.

    `default` and `latest`: GKE does both, with its default or newest driver for the node version; the GPU
    Operator's device plugin is off. `installer`: GKE does neither (the label
    gke-no-default-nvidia-gpu-device-plugin and a disabled driver); Google's installer DaemonSet installs the
    driver and the operator's device plugin advertises. There is no third state: a mixture has no driver, or
    two advertisers (github.com/NVIDIA/aicr, pull requests 1998, 2044 and 2047).
    """

    DEFAULT = "default"
    LATEST = "latest"
    INSTALLER = "installer"

    @property
    def is_managed(self) -> bool:
        return self is not GpuDriver.INSTALLER


class GkeProvisioner(StrEnum):
    """What makes the nodes of the pools.

    `node-pools`: Muster makes a node pool each, which GKE's autoscaler resizes; it answers
    ProvisioningRequests. `compute-classes`: GKE makes node pools by itself, as ComputeClasses say, for pods
    that wait. Only the first has queued pools.
    """

    NODE_POOLS = "node-pools"
    COMPUTE_CLASSES = "compute-classes"


class GkeAddon(StrEnum):
    """Drivers that GKE runs: volumes from buckets, and file systems that many nodes write at once."""

    GCS_FUSE = "gcsFuse"
    FILESTORE = "filestore"
    LUSTRE = "lustre"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingNetwork:
    """An existing VPC. `pods` and `services` name secondary ranges of the subnetwork; a network
    of another project (shared VPC) is written `projects/PROJECT/global/networks/NAME`.
    """

    network: str
    subnetwork: str
    pods: str
    services: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeNetwork:
    """Address ranges of the VPC that Muster makes, or an existing VPC (`existing`; the ranges then have no
    effect). A node takes one address of `nodes` and a /24 of `pods`, so the defaults are for 1,024 nodes.
    `control_plane` is a separate /28 without overlaps.
    """

    nodes: str = "10.0.0.0/20"
    pods: str = "10.4.0.0/14"
    services: str = "10.8.0.0/20"
    control_plane: str = "172.16.0.0/28"
    existing: ExistingNetwork | None = None


_SYSTEM: Final = SystemPool(machine=MACHINES["e2-standard-4"])


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeCluster:
    """`zones`: the zones of the nodes; empty: GKE chooses them in the region.

    `zone`: of a zonal cluster, whose control plane and nodes are all there; `zones` then has it alone. None
    is a regional cluster.

    `authorized_networks`: name -> addresses that may reach the control plane. With `private_endpoint` it has
    no public address, and these are private ones. By default no address is authorised.

    `dns_endpoint`: the control plane's DNS name answers from anywhere to those whom IAM gives
    `container.clusters.connect`, and `pulumi up` comes in by it. For CI without fixed addresses.
    Source: https://cloud.google.com/kubernetes-engine/docs/concepts/network-isolation#dns-based_endpoint,
    read 2026-11-27

    `kms_key`: full name of a key; it encrypts Secrets in etcd and the nodes' disks. Empty: Google's own keys.

    `protect`: neither the cluster nor a pool that takes from a reservation can be destroyed by `pulumi
    destroy` or by a change that replaces it, until this is `false` and `pulumi up` has run.

    `node_service_account`: email of an existing account; empty: Muster makes one.

    `addons`: of GkeAddon those that are on; the others are off. None: as they are.

    `image_streaming`: whether nodes start containers before their image is there whole. It is for images in
    Artifact Registry, and needs the API containerfilesystem.googleapis.com. A change makes all nodes anew.
    None: as it is. Source: https://cloud.google.com/kubernetes-engine/docs/how-to/image-streaming, read
    2026-11-27

    `maintenance`: when GKE may upgrade control plane and nodes by itself; None: at any time.
    """

    name: str
    project: str
    region: str
    zones: tuple[str, ...] = ()
    zone: str | None = None
    protect: bool = True
    release_channel: ReleaseChannel = ReleaseChannel.REGULAR
    version: str | None = None
    network: GkeNetwork = GkeNetwork()
    authorized_networks: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    private_endpoint: bool = False
    dns_endpoint: bool = False
    kms_key: str | None = None
    node_service_account: str | None = None
    gpu_driver: GpuDriver = GpuDriver.DEFAULT
    system_pool: SystemPool = _SYSTEM
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    maintenance: MaintenanceWindow | None = None
    autoscaler: GkeProvisioner = GkeProvisioner.NODE_POOLS
    addons: tuple[GkeAddon, ...] | None = None
    image_streaming: bool | None = None

    @property
    def answers_requests(self) -> bool:
        """Whether a ProvisioningRequest is ever answered there."""
        return self.autoscaler is GkeProvisioner.NODE_POOLS

    @property
    def provider(self) -> Provider:
        return Provider.GKE

    @property
    def location(self) -> str:
        """Where Google keeps the cluster: a region, or the zone of a zonal cluster."""
        return self.zone or self.region
