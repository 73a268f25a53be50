"""The capacity types of nodes.

Responsible for which types exist, which provider has which, and which classes of ProvisioningRequest a
queued pool can use. Which machine is sold with which type is in machines/.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar, Final

from muster.model import names
from muster.model.keys import declared
from muster.model.regions import Provider


class Capacity(StrEnum):
    """How a pool's nodes are bought.

    queued: a whole gang's nodes at once, after a ProvisioningRequest. flex-start: of the same stock on GKE,
    but nodes as pods ask; they live seven days at most. on-demand: nodes as pods ask. spot: the same,
    cheaper, and they may be taken away. reservation: from capacity already paid for. capacity-block: from a
    block reserved for a span of time.
    """

    QUEUED = "queued"
    FLEX_START = "flex-start"
    ON_DEMAND = "on-demand"
    SPOT = "spot"
    RESERVATION = "reservation"
    CAPACITY_BLOCK = "capacity-block"

    @property
    def is_reserved(self) -> bool:
        return self in (Capacity.RESERVATION, Capacity.CAPACITY_BLOCK)

    @property
    def rank(self) -> int:
        """Which of two pools with the same accelerator gets work first: the lower. What is paid for in any
        case comes before what is bought, and what may be taken away comes last.
        """
        match self:
            case Capacity.RESERVATION | Capacity.CAPACITY_BLOCK:
                return 0
            case Capacity.QUEUED | Capacity.FLEX_START:
                return 1
            case Capacity.ON_DEMAND:
                return 2
            case Capacity.SPOT:
                return 3


class Gangs(StrEnum):
    """How a gang gets the nodes of a pool that is not queued.

    placeholders: pods of ours make any autoscaler bring them, and keep them until all are there. none: nodes
    come as the gang's pods ask, some or all.
    """

    PLACEHOLDERS = "placeholders"
    NONE = "none"


# GKE alone has flex-start, and no capacity blocks. In an existing cluster Muster makes no nodes, so the ways
# to buy them mean nothing there.
LEGAL_CAPACITY: Final[Mapping[Provider, tuple[Capacity, ...]]] = MappingProxyType(
    {
        Provider.GKE: tuple(each for each in Capacity if each is not Capacity.CAPACITY_BLOCK),
        Provider.EKS: tuple(each for each in Capacity if each is not Capacity.FLEX_START),
        Provider.EXISTING: (Capacity.QUEUED, Capacity.ON_DEMAND),
    }
)

# The first class of a provider is its default. A queued pool of GKE uses flex-start with queued
# provisioning, which answers only its own class. EKS has only the open-source autoscaler. `existing` may be
# either.
PROVISIONING_CLASSES: Final[Mapping[Provider, tuple[str, ...]]] = MappingProxyType(
    {
        Provider.GKE: (names.GKE_QUEUED_CLASS,),
        Provider.EKS: (names.BEST_EFFORT_ATOMIC_CLASS, names.CHECK_CAPACITY_CLASS),
        Provider.EXISTING: (
            names.BEST_EFFORT_ATOMIC_CLASS,
            names.CHECK_CAPACITY_CLASS,
            names.GKE_QUEUED_CLASS,
        ),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """What a reserved pool takes from. On EKS the id of an on-demand capacity reservation or capacity block
    (`cr-...`), or the ARN of a resource group of reservations.
    """

    SHORT: ClassVar = "name"

    name: str = declared("The name of the reservation.", example="h100-2026")
    project: str | None = declared(
        "The project that shares it.", None, default_text="that of the cluster", example="shared-capacity"
    )

    @property
    def is_group(self) -> bool:
        """Whether it is a resource group of reservations (EKS)."""
        return self.name.startswith("arn:")
