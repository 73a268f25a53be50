"""The settings of a pool's nodes beyond their machine: image, placement, local disks, networks.

One setting covers both clouds where both have the feature. What a machine and a capacity type allow is in
validation/nodes.py and validation/pools.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from muster.model.keys import declared
from muster.model.providers import Provider

BOOT_DISK_GIB: Final = 200
"""The size of a boot disk where the stack names none."""


class Image(StrEnum):
    """The operating system. `cos`: GKE's Container-Optimized OS. `al2023`, `bottlerocket`: EKS's, in their
    NVIDIA variants on GPU pools, which hold driver and container toolkit.
    """

    COS = "cos"
    AL2023 = "al2023"
    BOTTLEROCKET = "bottlerocket"


class Placement(StrEnum):
    """`compact`: close together in one zone (GKE: a compact placement policy, EKS: a cluster placement
    group, an existing one or one of the pool's own), for gangs that talk much. `any`: wherever there is room.
    """

    ANY = "any"
    COMPACT = "compact"


class LocalDisks(StrEnum):
    """The use of a machine's local NVMe disks. `ephemeral`: for images, logs, emptyDirs and containers'
    files (one striped volume); fast, and lost with the node. `none`: not used.
    """

    NONE = "none"
    EPHEMERAL = "ephemeral"


class ImagePull(StrEnum):
    """How a node of EKS pulls an image. `parallel`: SOCI downloads and unpacks several parts at once, which
    takes more CPU and memory and a fast disk. `standard`: a few layers at a time.
    """

    STANDARD = "standard"
    PARALLEL = "parallel"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNetwork:
    """A further network of a GKE pool's nodes (GPUDirect): an existing VPC and subnetwork."""

    network: str = declared("An existing VPC.", example="gpu-0")
    subnetwork: str = declared("Its subnetwork.", example="gpu-0")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementGroup:
    """An existing group in which the nodes of a pool are compact (EKS)."""

    group: str = declared("The name of a cluster placement group of EC2.", example="h100-2026")


class NetworkProfile(StrEnum):
    """`auto`: GKE makes the networks of a machine's further cards, and its DRA driver hands the cards to pods
    that claim them. From GKE 1.34.1-gke.1829001 on.
    Source: github.com/GoogleCloudPlatform/cluster-toolkit at 1.95.0, modules/compute/gke-node-pool
    (enable_dranet), read 2026-11-27
    """

    AUTO = "auto"


# The first image of a provider is its default. Muster does not choose the image in an existing cluster.
IMAGES: Final[Mapping[Provider, tuple[Image, ...]]] = MappingProxyType(
    {
        Provider.GKE: (Image.COS,),
        Provider.EKS: (Image.AL2023, Image.BOTTLEROCKET),
        Provider.EXISTING: (),
    }
)
