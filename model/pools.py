"""Pools: nodes of one machine type, bought in one way.

Decides which capacity kinds exist, which provider has which, and what a pool's nodes can hold. Leaves how a
cloud makes the nodes to the components.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from model import names
from model.accelerators import ACCELERATORS, Accelerator
from model.clusters import Provider
from model.machines import Machine
from model.quantities import Bytes, Gpus, Millicores


class Capacity(StrEnum):
    """How a pool's nodes are bought.

    queued: a whole gang's nodes at once, after a ProvisioningRequest. on-demand: nodes as pods ask. spot:
    the same, cheaper, and they may be taken away. reservation: from capacity already paid for.
    capacity-block: from a block reserved for a span of time.
    """

    QUEUED = "queued"
    ON_DEMAND = "on-demand"
    SPOT = "spot"
    RESERVATION = "reservation"
    CAPACITY_BLOCK = "capacity-block"


# GKE has no capacity blocks. In an existing cluster Muster makes no nodes, so the ways to buy them mean
# nothing there.
LEGAL_CAPACITY: Final[Mapping[Provider, tuple[Capacity, ...]]] = MappingProxyType(
    {
        Provider.GKE: (Capacity.QUEUED, Capacity.ON_DEMAND, Capacity.SPOT, Capacity.RESERVATION),
        Provider.EKS: tuple(Capacity),
        Provider.EXISTING: (Capacity.QUEUED, Capacity.ON_DEMAND),
    }
)

# The first class of a provider is its default. GKE serves its own queued class and, from 1.35, the open
# autoscaler's (kubernetes/autoscaler issue 9805); on EKS the open autoscaler is all there is. `existing`
# may be either.
PROVISIONING_CLASSES: Final[Mapping[Provider, tuple[str, ...]]] = MappingProxyType(
    {
        Provider.GKE: (names.GKE_QUEUED_CLASS, names.BEST_EFFORT_ATOMIC_CLASS, names.CHECK_CAPACITY_CLASS),
        Provider.EKS: (names.BEST_EFFORT_ATOMIC_CLASS, names.CHECK_CAPACITY_CLASS),
        Provider.EXISTING: (
            names.BEST_EFFORT_ATOMIC_CLASS,
            names.CHECK_CAPACITY_CLASS,
            names.GKE_QUEUED_CLASS,
        ),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """One pool. `gpus_per_node` is 0 for a CPU pool; `provisioning_class` is set exactly for queued pools.

    `min_nodes` are always there: a pool of fixed size has as many as `max_nodes`.

    `parameters` go into every ProvisioningRequest of the pool (for GKE `maxRunDurationSeconds`).
    `reservation` names the reservation (GKE) or its id (EKS, `cr-...`).
    """

    name: str
    machine: Machine
    gpus_per_node: int
    capacity: Capacity
    max_nodes: int
    min_nodes: int = 0
    provisioning_class: str | None = None
    parameters: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    reservation: str | None = None

    @property
    def accelerator(self) -> Accelerator | None:
        """The GPU of this pool's nodes, None for a CPU pool."""
        named = self.machine.accelerator
        return ACCELERATORS[named] if named is not None and self.gpus_per_node else None

    @property
    def is_gpu(self) -> bool:
        return self.gpus_per_node > 0

    @property
    def max_gpus(self) -> Gpus:
        return Gpus(self.max_nodes * self.gpus_per_node)

    @property
    def max_cpu(self) -> Millicores:
        return Millicores(self.max_nodes * self.machine.allocatable_cpu)

    @property
    def max_memory(self) -> Bytes:
        return Bytes(self.max_nodes * self.machine.allocatable_memory)

    @property
    def order(self) -> tuple[int, str]:
        """CPU pools first, then GPUs from the most ordinary to the scarcest. Never the order of the file.

        Kueue tries flavors in order, and the engine hands maps over sorted by key: the order must come from
        what the pools are.
        """
        accelerator = self.accelerator
        return (accelerator.rank if accelerator else 0, self.name)
