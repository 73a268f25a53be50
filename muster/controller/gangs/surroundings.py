"""What lies around a gang at one moment: nodes, their pods, and what other gangs leave to it.

Kept apart from the gang's own facts: those are computed once, whatever lies around them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from muster.controller.gangs.objects import Node, Pod
from muster.controller.gangs.vacated_leases import VacatedLease
from muster.controller.gangs.verify import PodDemand
from muster.model.pods import Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    is_surveyed: bool = False
    """The nodes for what is placed first have been read, although nothing is requested yet."""
    nodes: tuple[Node, ...] = ()
    used: Mapping[str, Amounts] = field(default_factory=dict)
    """What the pods on those nodes take, by node, without placeholders of its own: they make room for it."""
    claims: tuple[PodDemand, ...] = ()
    """Capacity claimed by other gangs whose pods are not bound yet."""
    ending: tuple[Pod, ...] = ()
    """Pods that were deleted and still hold nodes of its pools."""
    recheck_at: datetime | None = None
    """When these may have changed: no event of theirs reconciles a gang that waits for requests."""
    vacated: tuple[VacatedLease, ...] = ()
    """Leases of its pools that other gangs have left and that nobody has taken."""
    set_aside: str = ""
    """Broken nodes of its pools, and why they are closed."""
    must_wait: bool = False
    """Another gang makes its request in the next pool first."""
    must_give_way: frozenset[str] = frozenset()
    """Pools in which other gangs have what it requested first."""

    # Of a gang that runs

    lacks_pods: bool = False
    """Some of its pods are on no node that will keep them: `nodes` and `own_pods` show why."""
    own_pods: tuple[Pod, ...] = ()
    """Its pods that are on a node."""
    in_outage: frozenset[str] = frozenset()
    """The nodes that are silent together with most others."""
    is_unseen: bool = False
    """It runs on shared nodes, and no pod of it has been seen on one yet."""
    is_placing: bool = False
    """Pods of it that may start lack their nodes, and nodes have the taint that keeps them for it."""


ALONE: Final = Surroundings()
