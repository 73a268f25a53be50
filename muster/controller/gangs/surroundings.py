"""What lies around a gang at one moment: nodes, their pods, and what other gangs leave to it.

Kept apart from the gang's own facts: those are computed once, whatever lies around them.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from muster.controller.gangs.objects import Node, Pod
from muster.controller.gangs.verify import PodDemand


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    is_surveyed: bool = False
    """The nodes for what is placed first have been read, although nothing is requested yet."""
    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    """The pods on those nodes."""
    claims: tuple[PodDemand, ...] = ()
    """Capacity claimed by other gangs whose pods are not bound yet."""
    ending: tuple[Pod, ...] = ()
    """Pods that were deleted and still hold nodes of its pools."""
    recheck_at: datetime | None = None
    """When these may have changed: no event of theirs reconciles a gang that waits for requests."""
    must_wait: bool = False
    """Another gang makes its request in the next pool first."""
    must_give_way: bool = False
    """It holds what a preceding gang waits for, and lacks what that one holds."""


ALONE: Final = Surroundings()
