"""What lies around a gang at one moment: nodes, their pods, and gangs that compete for the same pools.

Kept apart from the gang's own facts: those are computed once, whatever lies around them.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from muster.controller.gangs.objects import Node, Pod
from muster.controller.gangs.turn_order import TurnPosition
from muster.controller.gangs.verify import PodDemand


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    """The pods on those nodes."""
    claims: tuple[PodDemand, ...] = ()
    """Capacity claimed by other gangs whose pods are not bound yet."""
    ending: tuple[Pod, ...] = ()
    """Pods that were deleted and still hold nodes of its pools."""
    recheck_at: datetime | None = None
    """When these may have changed: no event of theirs reconciles a gang that waits for requests."""
    others: tuple[TurnPosition, ...] = ()
    """Other split gangs that are not fully provisioned."""


ALONE: Final = Surroundings()
