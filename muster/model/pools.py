"""Pools: nodes of one machine type, or of one size, and one capacity type.

Responsible for the settings of a pool and what its nodes can hold.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from muster.model import names
from muster.model.accelerators import ACCELERATORS, Accelerator
from muster.model.capacity import LEGAL_CAPACITY, PROVISIONING_CLASSES, Capacity, Gangs, Reservation
from muster.model.keys import Parameter, Schema, SchemaWriter, Seconds, declared
from muster.model.kueue import PoolOptions
from muster.model.machines import ARM64, FURTHER_NETWORKS, MACHINES, Machine, chips_of
from muster.model.quantities import GIB, Bytes, Gpus, Millicores, Quantity, format_cpu, format_memory
from muster.model.regions import LazyTable, Provider
from muster.model.section import Section

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


# The settings of a pool's nodes beyond their machine: image, placement, local disks, networks.
#
# One setting covers both clouds where both have the feature. What a machine and a capacity type allow is in
# validation/pools.py.

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


__all__ = ["LEGAL_CAPACITY", "MOST_RUN", "PROVISIONING_CLASSES", "Capacity", "Pool", "Reservation"]

# Flex-start nodes live at most seven days:
# https://cloud.google.com/kubernetes-engine/docs/concepts/dws
MOST_RUN: Final = 7 * 24 * 3600
MOST_GPUS_PER_NODE: Final = 16
"""Of a machine that a table has."""


def _topologies(_writer: SchemaWriter) -> Schema:
    return {
        "type": "string",
        "enum": sorted({each for machine in MACHINES.values() for each in machine.topologies}),
    }


def _read_resources(section: Section) -> Mapping[str, Quantity]:
    """Extended resources and huge pages: what else a node has, its other keys say."""
    amounts: dict[str, Quantity] = {}
    for name in section.names():
        amount = section.quantity(name)
        if name in names.DEVICE_RESOURCES or not ("/" in name or name.startswith("hugepages-")):
            fix = "write the name of an extended resource, such as rdma/ib, or remove it."
            section.note(name, "is not a resource that only the nodes' owner knows of.", fix)
        elif amount is not None and not amount.value:
            section.note(name, "is 0.", "write what one node has, or remove it.")
        elif amount is not None:
            amounts[name] = amount
    return MappingProxyType(dict(sorted(amounts.items())))


# GPUs that come with a Grace CPU: all that is known of a node that Muster does not make.
_ON_ARM: Final = ("nvidia-gh200", "nvidia-gb200", "nvidia-gb300")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """`gpus_per_node` is 0 for a CPU pool; `provisioning_class` is set exactly for queued pools.

    `min_nodes`: a pool of fixed size has as many as `max_nodes`. `max_run`: in seconds; None: never, except
    in a queued GKE pool, where it is seven days.

    `image` None is the provider's default. `boot_disk_gib` holds images where no local disk does.
    `placement_group`: the existing group of EC2 in which its nodes are compact; None: one of the pool's own.

    `topology`: None in all pools but those of TPUs. `fallback`: how nodes are bought where `capacity` has
    none.

    `by_variable`: a container gets the GPUs that its variable NVIDIA_VISIBLE_DEVICES names, as KAI's parts of
    GPUs need it. Any container can then take all GPUs of its node.
    """

    name: str
    machine: Machine
    gpus_per_node: int = declared(
        "GPUs of one node, or chips of a TPU.",
        is_derived=True,
        default_text="those of the machine",
        example=1,
        maximum=MOST_GPUS_PER_NODE,
    )
    topology: str | None = declared(
        "How the chips of a TPU slice are connected. A slice of several nodes is the whole pool.",
        None,
        default_text="that of one node",
        example="4x4",
        read=lambda section, key: section.text(key, example="2x4"),
        schema=_topologies,
    )
    capacity: Capacity = declared(
        "How nodes are bought: queued for all nodes of a gang at once, the others as pods request. A list is "
        "tried first to last, by ComputeClasses and Karpenter.",
        is_derived=True,
        written_default=Capacity.ON_DEMAND,
        example=Capacity.QUEUED.value,
        schema=lambda writer: {
            "anyOf": [writer.of_type(Capacity), writer.of_type(tuple[Capacity, ...], {"minItems": 1})]
        },
    )
    fallback: tuple[Capacity, ...] = ()
    by_variable: bool = False
    preference: int = declared(
        "Work goes first to the pool with the higher preference, after CPU pools.",
        0,
        default_text="0; of equal pools the most common accelerator first, then reservation and "
        "capacity-block, queued, on-demand, spot, then the order of the file",
        example=1,
        minimum=-100,
        maximum=100,
    )
    max_nodes: int = declared(
        "Maximum number of nodes, over all zones. On EKS each zone may grow to it, and quota bounds their "
        "sum.",
        example=8,
        minimum=1,
        maximum=15_000,
    )
    min_nodes: int = declared("Nodes that are always there, over all zones.", 0, example=1, maximum=15_000)
    gangs: Gangs | None = declared(
        "How a gang gets nodes of a pool that is not queued: all at once by placeholders, or not.",
        None,
        default_text="placeholders where Karpenter makes the nodes, else none",
        example=Gangs.PLACEHOLDERS.value,
    )
    parameters: Mapping[str, Parameter] = declared(
        "Parameters of every ProvisioningRequest of the pool, such as maxRunDurationSeconds.",
        {},
        default_text="none",
        example={"maxRunDurationSeconds": "86400"},
    )
    provisioning_class: str | None = declared(
        "The class of the pool's ProvisioningRequests.",
        None,
        default_text="that of the provider, for a queued pool",
        example="queued-provisioning.gke.io",
    )
    reservation: Reservation | None = declared(
        "What a reserved pool takes from: a name, id or ARN, or name and project.", None, example="h100-2026"
    )
    zones: tuple[str, ...] = declared(
        "Zones of the nodes.",
        (),
        default_text="those of the cluster; on GKE those that sell the machine",
        example=["us-central1-a"],
    )
    max_run: Seconds | None = declared(
        "After this time a node is deleted, even if it runs work.",
        None,
        key="maxRunDuration",
        default_text="never; in a queued pool of GKE seven days",
        example="24h",
    )
    image: Image | None = declared(
        "The operating system of the nodes.", None, default_text="that of the provider"
    )
    boot_disk_gib: int = declared(
        "Size of the boot disk in GiB.",
        BOOT_DISK_GIB,
        key="bootDiskGiB",
        example=500,
        minimum=30,
        maximum=16_384,
    )
    local_disks: LocalDisks = declared(
        "Whether the machine's local disks hold images, logs and files of containers.",
        LocalDisks.NONE,
        default_text="ephemeral where the machine has such disks",
        example=LocalDisks.EPHEMERAL.value,
    )
    image_pull: ImagePull = declared(
        "Whether a node pulls the parts of an image in parallel, by SOCI (EKS).", ImagePull.STANDARD
    )
    placement: Placement = declared(
        "Whether nodes are close together in one zone, or the existing placement group (EKS).",
        Placement.ANY,
        schema=lambda writer: {"anyOf": [writer.of_type(Placement), writer.of_class(PlacementGroup)]},
    )
    placement_group: str | None = None
    efa: bool = declared(
        "Whether the machine's EFA interfaces are attached (EKS).",
        False,
        default_text="true on machines that are made for it",
    )
    networks: tuple[NodeNetwork, ...] = declared(
        "Further networks of the nodes, in the order of their cards (GKE).",
        (),
        fix="write a list: [{network: ..., subnetwork: ...}].",
        default_text="none",
        example=[{"network": "gpu-0", "subnetwork": "gpu-0"}],
    )
    network_profile: NetworkProfile | None = declared(
        "Whether GKE makes the networks of the machine's further cards, which pods then claim.",
        None,
        default_text="none",
    )
    labels: Mapping[str, str] = declared(
        "Labels of the nodes.", {}, default_text="none", example={"team": "vision"}
    )
    sharing: GpuSharing = declared("", GpuSharing(), is_inline=True)
    resources: Mapping[str, Quantity] = declared(
        "What one node has besides CPU, memory and GPUs; a team's quota has its part of it.",
        {},
        default_text="none",
        example={"rdma/ib": 8},
        read=lambda section, key: _read_resources(section.section(key)),
    )
    kueue: PoolOptions = declared("The pool's ResourceFlavor in Kueue's own terms.", PoolOptions())

    @staticmethod
    def complete(_section: Section, values: dict[str, Any]) -> dict[str, Any]:
        return {**values, "max_run": values["max_run"] or None}

    @property
    def bought(self) -> str:
        """How its nodes are bought, in words: `reservation`, or `reservation, on-demand, spot`."""
        return ", ".join((self.capacity, *self.fallback))

    @property
    def flavor(self) -> str:
        """The name of its ResourceFlavor."""
        return self.kueue.flavor or self.name

    @property
    def accelerator(self) -> Accelerator | None:
        """The GPU or TPU of this pool's nodes, None for a CPU pool."""
        if self.machine.gpu is not None:
            return self.machine.gpu
        named = self.machine.accelerator
        return ACCELERATORS[named] if named is not None and self.gpus_per_node else None

    @property
    def is_gpu(self) -> bool:
        """Whether its nodes have accelerators, which its quotas count: GPUs or TPUs."""
        return self.gpus_per_node > 0

    @property
    def is_tpu(self) -> bool:
        return self.is_gpu and self.machine.is_tpu

    @property
    def device(self) -> str:
        """The resource that its accelerators are, and the key of the taint of its nodes."""
        return self.accelerator.resource if self.accelerator else names.GPU_RESOURCE

    @property
    def devices(self) -> str:
        """What its quotas count, in words."""
        return f"{names.DEVICES[self.device]}s"

    @property
    def is_nvidia(self) -> bool:
        """Whether its accelerators are NVIDIA's GPUs, which the GPU Operator serves and KAI counts."""
        return self.is_gpu and self.device == names.GPU_RESOURCE

    @property
    def architecture(self) -> str:
        """Of its CPUs, as Kubernetes has it; empty where it is not known."""
        if self.accelerator is not None and self.accelerator.name in _ON_ARM:
            return ARM64
        return "" if self.machine.provider is Provider.EXISTING else self.machine.architecture

    @property
    def has_whole_gpus(self) -> bool:
        """A pod that names a GPU and no slice means a whole one; a pool of slices is selected by its name."""
        return self.is_nvidia and self.sharing.kind is not Sharing.MIG

    @property
    def slice_nodes(self) -> int:
        """The nodes of one slice of TPUs, which are made and lost together; 1 for all other nodes."""
        if self.topology is None or not self.is_gpu:
            return 1
        return max(1, chips_of(self.topology) // self.gpus_per_node)

    @property
    def device_labels(self) -> dict[str, str]:
        """The labels by which GKE chooses a slice for a pod."""
        if not self.is_tpu or self.topology is None:
            return {}
        kind = str(self.machine.accelerator)
        return {names.TPU_ACCELERATOR_LABEL: kind, names.TPU_TOPOLOGY_LABEL: self.topology}

    @property
    def slots_per_node(self) -> int:
        """GPUs as pods ask for them: a node advertises a shared GPU once for each of its shares."""
        return self.gpus_per_node * self.sharing.shares

    @property
    def max_gpus(self) -> Gpus:
        """What quotas divide: GPUs as pods ask for them."""
        return Gpus(self.max_nodes * self.slots_per_node)

    @property
    def request_parameters(self) -> dict[str, str]:
        """The parameters of every ProvisioningRequest of the pool, sorted. By default a capacity check is
        repeated and fails after seven days at the earliest, and its gang holds quota until then. Muster's is
        answered once, and the controller retries later (cluster-autoscaler,
        provisioningrequest/checkcapacity).
        """
        at_once = {"noRetry": "true"} if self.provisioning_class == names.CHECK_CAPACITY_CLASS else {}
        return dict(sorted({**at_once, **self.parameters}.items()))

    @property
    def max_cpu(self) -> Millicores:
        return Millicores(self.max_nodes * self.machine.allocatable_cpu)

    @property
    def max_memory(self) -> Bytes:
        return Bytes(self.max_nodes * self.machine.allocatable_memory)

    def largest_pod(self, provider: Provider) -> Mapping[str, str]:
        """Above what a pod fits no node of the pool, by resource, GPUs excepted. An upper bound: DaemonSets
        take from it, and the owner of an existing cluster chooses what its nodes reserve. A resource that
        nothing is known of is left out.
        """
        machine = self.machine
        others = {name: str(amount) for name, amount in self.resources.items()}
        if provider is Provider.EXISTING:
            return {"cpu": format_cpu(machine.cpu), "memory": format_memory(machine.memory), **others}
        found = {
            "cpu": format_cpu(machine.allocatable_cpu),
            "memory": format_memory(machine.most_memory),
            **others,
        }
        is_boot_disk = self.local_disks is LocalDisks.NONE
        disk = Bytes(self.boot_disk_gib * GIB) if is_boot_disk else machine.local_storage
        return found | ({"ephemeral-storage": format_memory(disk)} if disk else {})

    @property
    def order(self) -> tuple[bool, int, int, int]:
        """The place of the pool among all pools, for Kueue tries flavors in order: CPU pools, then by
        preference, from the most common accelerator to the scarcest, and by capacity.
        """
        accelerator = self.accelerator
        return (self.is_gpu, -self.preference, accelerator.rank if accelerator else 0, self.capacity.rank)


# What a job of several nodes lacks on a pool whose machines have a network between GPUs of their own.
#
# `muster validate`, `muster check` and the API server warn of it. None refuses: the job runs, slower.

_CLAIMED = "the NCCL plugin's installer and the jobs' claims of the cards"
_PARTS = "the NCCL plugin's installer, the Network objects and the jobs' annotations and variables"


def missing_on(pool: Pool) -> str:
    """What the pool's nodes lack, whatever the job asks for; empty where nothing is known to be missing."""
    machine = pool.machine
    if not pool.is_gpu:
        return ""
    if machine.fabric is not None:
        if pool.network_profile is not None:
            return (
                f"{machine.fabric} of {machine.name} is half set up: GKE makes networks for its cards, and "
                f"Muster does not bring {_CLAIMED}"
            )
        wanted, given = FURTHER_NETWORKS[machine.fabric], len(pool.networks)
        cards = (
            f"{given} of its {wanted} further network cards have a network, and " if given < wanted else ""
        )
        return f"{machine.fabric} of {machine.name} is not set up: {cards}Muster does not bring {_PARTS}"
    if machine.efa_by_default and not pool.efa:
        return f"the {machine.efa} EFA interfaces of {machine.name} are not attached"
    return ""


def missing_for(pool: Pool, requests: Mapping[str, object]) -> str:
    """What pods with these requests lack there; empty where nothing is known to be missing."""
    if pool.is_gpu and pool.efa and not requests.get(names.EFA_RESOURCE):
        efa = pool.machine.efa
        return (
            f"the pods request no {names.EFA_RESOURCE}; "
            f"one with all {pool.gpus_per_node} GPUs of a node can request {efa}"
        )
    return missing_on(pool)
