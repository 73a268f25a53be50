"""The settings of a pool's nodes beyond their machine: image, placement, local disks, networks.

One setting covers both clouds where both have the feature. What a machine and a capacity type allow is in
validation/nodes.py and validation/pools.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from muster.model.accelerators import ACCELERATORS
from muster.model.keys import Schema, SchemaWriter, declared
from muster.model.regions import LazyTable, Provider

# Sharing a GPU between pods: the kinds of sharing, what each isolates, and how a GPU is divided.


class Sharing(StrEnum):
    """none: a GPU is one pod's. time-slicing: pods take turns; each can use all of the GPU's memory and end
    the others by doing so. mps: pods run at once, each with its part of the memory, and a fault of one ends
    all. mig: the GPU is cut into instances with memory and faults of their own.
    """

    NONE = "none"
    TIME_SLICING = "time-slicing"
    MPS = "mps"
    MIG = "mig"


def _profiles(_writer: SchemaWriter) -> Schema:
    profiles = {profile for profiles in MIG_PROFILES.values() for profile in profiles}
    return {"type": "string", "enum": sorted(profiles)}


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSharing:
    """`shares`: how many pods one GPU serves; `profile`: the MIG profile that defines it."""

    kind: Sharing = declared("How pods share one GPU.", Sharing.NONE, key="sharing")
    shares: int = declared("How many pods one GPU serves.", 1, example=4, minimum=1)
    profile: str | None = declared(
        "The MIG profile that divides the GPU, with `sharing: mig`.", None, key="migProfile", schema=_profiles
    )

    @property
    def name(self) -> str:
        """As configurations and labels name it: `time-slicing-4`, `mig-1g.10gb`, `none`."""
        if self.kind is Sharing.NONE:
            return self.kind.value
        return f"{self.kind}-{self.profile or self.shares}"


# GKE's limit of clients of one GPU, and MPS's own since Volta:
# https://cloud.google.com/kubernetes-engine/docs/concepts/timesharing-gpus,
# https://docs.nvidia.com/deploy/mps/
MOST_SHARES: Final = 48

# What is not isolated, in a person's words; MIG isolates.
NOT_ISOLATED: Final[Mapping[Sharing, str]] = MappingProxyType(
    {
        Sharing.TIME_SLICING: "time-slicing does not isolate memory: one pod can take all, and others fail.",
        Sharing.MPS: "MPS does not isolate faults: an error of one pod ends every pod on that GPU.",
    }
)

# accelerator -> profile -> instances of one GPU, all equal.
MIG_PROFILES: Final[Mapping[str, Mapping[str, int]]] = LazyTable(
    lambda: {name: entry.mig for name, entry in ACCELERATORS.items() if entry.mig}
)


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
    {Provider.GKE: (Image.COS,), Provider.EKS: (Image.AL2023, Image.BOTTLEROCKET), Provider.EXISTING: ()}
)
