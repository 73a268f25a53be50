"""One machine type: what it is made of, what a pod may use of it, and in which ways it can be bought."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from muster.model.accelerators import Accelerator
from muster.model.capacity import Capacity
from muster.model.machines.fabric import Fabric
from muster.model.machines.reserved import left_of_cpu, left_of_memory, most_of_memory
from muster.model.providers import Provider
from muster.model.quantities import Bytes, Millicores, format_cpu, format_memory

AMD64: Final = "amd64"
ARM64: Final = "arm64"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """`gpu_counts` holds the GPU counts it can carry: several where GPUs are attached (GKE's n1).

    `bought`: the capacity types in which the cloud sells it; `unsourced`: those that no page of the cloud
    confirms or denies.

    `local_disks`: NVMe disks of its own; on EC2, where nothing counts them, 1 for any number. `efa`: EFA
    interfaces that it can have (EC2). `fabric`: its network between GPUs (GKE). `compact`: it supports
    compact placement. `disk`: the kind of boot disk (GKE); None: GKE's default for the machine.

    `topologies`: of its TPUs, the one of a single node first; () for all other machines. `workload_policy`:
    a slice of several nodes needs a workload policy of its topology (GKE). `architecture`: of its CPU, as
    Kubernetes names it.

    `is_own`: the stack describes it (own.py). `gpu`: its GPU as described, in place of the table's. `labels`:
    what its nodes carry besides the pool's label.

    `allocatable_cpu` and `allocatable_memory` are what pods can request on one such node.
    """

    name: str
    provider: Provider
    cpu: Millicores
    memory: Bytes
    accelerator: str | None
    gpu_counts: tuple[int, ...]
    bought: frozenset[Capacity]
    unsourced: frozenset[Capacity] = frozenset()
    local_disks: int = 0
    efa: int = 0
    fabric: Fabric | None = None
    compact: bool = False
    disk: str | None = None
    topologies: tuple[str, ...] = ()
    workload_policy: bool = False
    architecture: str = AMD64
    is_own: bool = False
    gpu: Accelerator | None = None
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), hash=False)

    @property
    def is_tpu(self) -> bool:
        return bool(self.topologies)

    @property
    def description(self) -> str:
        """Its name, with the figures where the stack gives them to a machine type."""
        if not self.is_own or self.provider is Provider.EXISTING:
            return self.name
        gpus = f", {sum(self.gpu_counts)} {self.accelerator}" if self.accelerator else ""
        return f"{self.name} ({format_cpu(self.cpu)} CPU, {format_memory(self.memory)}{gpus})"

    @property
    def allocatable_cpu(self) -> Millicores:
        """Millicores left for pods. The local cluster sets a node's allocatable to the table's figures."""
        return left_of_cpu(self.provider, self.cpu)

    @property
    def allocatable_memory(self) -> Bytes:
        """Bytes left for pods."""
        return left_of_memory(self.provider, cpu=self.cpu, memory=self.memory)

    @property
    def most_memory(self) -> Bytes:
        """Bytes above which no pod fits the node, however few pods it may hold."""
        return most_of_memory(self.provider, cpu=self.cpu, memory=self.memory)

    @property
    def efa_by_default(self) -> bool:
        """A machine with several network cards needs EFA for most of its bandwidth."""
        return self.efa > 1
