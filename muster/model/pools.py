"""Pools: nodes of one machine type, or of one size, and one capacity type.

Responsible for the settings of a pool and what its nodes can hold. Not responsible for how a cloud makes the
nodes (muster.components) nor for which settings are legal together (validation/pools.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from muster.model import names
from muster.model.accelerators import ACCELERATORS, Accelerator
from muster.model.capacity import LEGAL_CAPACITY, PROVISIONING_CLASSES, Capacity, Gangs, Reservation
from muster.model.kueue import PoolOptions
from muster.model.machines import Machine, chips_of
from muster.model.nodes import (
    BOOT_DISK_GIB,
    Image,
    ImagePull,
    LocalDisks,
    NetworkProfile,
    NodeNetwork,
    Placement,
)
from muster.model.providers import Provider
from muster.model.quantities import GIB, Bytes, Gpus, Millicores, Quantity, format_cpu, format_memory
from muster.model.sharing import GpuSharing

__all__ = ["LEGAL_CAPACITY", "MOST_RUN", "PROVISIONING_CLASSES", "Capacity", "Pool", "Reservation"]

# Flex-start nodes live at most seven days:
# https://cloud.google.com/kubernetes-engine/docs/concepts/dws
MOST_RUN: Final = 7 * 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """One pool. `gpus_per_node` counts GPUs, or the chips of a TPU. It is 0 for a CPU pool;
    `provisioning_class` is set exactly for queued pools.

    `min_nodes` are always there: a pool of fixed size has as many as `max_nodes`. Both count the whole pool,
    over all its zones. `zones`: the zones of its nodes; empty: those of the cluster.

    `gangs`: how gangs get nodes of it, if it is not queued; None: as its autoscaler allows.

    `parameters` go into every ProvisioningRequest of the pool (for GKE `maxRunDurationSeconds`).

    `max_run`: seconds after which a node is deleted, even if it runs work; None: never, except in a queued
    GKE pool, where it is seven days.

    `image` None is the provider's default. `boot_disk_gib` holds images where no local disk does.
    `placement_group`: the existing group of EC2 in which its nodes are compact; None: one of the pool's own.
    `efa`: the machine's EFA interfaces are attached (EKS). `networks`: further networks of GKE nodes,
    `network_profile`: or GKE makes them.
    `sharing`: how many pods one GPU serves, and how.

    `resources`: what one node has besides CPU, memory and devices, by the name of the resource (`rdma/ib`).

    `topology`: of TPUs, how the chips of one slice are connected; None in all other pools.

    `fallback`: how nodes are bought where `capacity` has none, first to last (ComputeClasses and Karpenter).

    `by_variable`: a container gets the GPUs that its variable NVIDIA_VISIBLE_DEVICES names, as KAI's parts of
    GPUs need it. Any container can then take all GPUs of its node.

    `preference`: a pool with a higher one gets work first, whatever its accelerator and capacity.
    """

    name: str
    machine: Machine
    gpus_per_node: int
    capacity: Capacity
    max_nodes: int
    min_nodes: int = 0
    gangs: Gangs | None = None
    provisioning_class: str | None = None
    parameters: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    reservation: Reservation | None = None
    zones: tuple[str, ...] = ()
    max_run: int | None = None
    image: Image | None = None
    boot_disk_gib: int = BOOT_DISK_GIB
    local_disks: LocalDisks = LocalDisks.NONE
    image_pull: ImagePull = ImagePull.STANDARD
    placement: Placement = Placement.ANY
    placement_group: str | None = None
    efa: bool = False
    networks: tuple[NodeNetwork, ...] = ()
    network_profile: NetworkProfile | None = None
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    sharing: GpuSharing = field(default_factory=GpuSharing)
    topology: str | None = None
    by_variable: bool = False
    preference: int = 0
    resources: Mapping[str, Quantity] = field(default_factory=lambda: MappingProxyType({}))
    fallback: tuple[Capacity, ...] = ()
    kueue: PoolOptions = field(default_factory=PoolOptions)

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
        if self.local_disks is LocalDisks.NONE:
            found["ephemeral-storage"] = format_memory(Bytes(self.boot_disk_gib * GIB))
        return found

    @property
    def order(self) -> tuple[bool, int, int, int]:
        """The place of the pool among all pools, for Kueue tries flavors in order: CPU pools, then by
        preference, from the most common accelerator to the scarcest, and by capacity.
        """
        accelerator = self.accelerator
        return (self.is_gpu, -self.preference, accelerator.rank if accelerator else 0, self.capacity.rank)
