"""What lies around one Workload: what lies around every gang, and what is known of its running pods."""

from dataclasses import dataclass
from typing import Final

from muster.controller.gangs.objects import Pod
from muster.controller.gangs.surroundings import Surroundings


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSurroundings(Surroundings):
    lacks_pods: bool = False
    """It runs and some of its pods are on no node that will keep them: `nodes` and `own_pods` show why."""
    own_pods: tuple[Pod, ...] = ()
    """Its pods that are on a node."""
    in_outage: frozenset[str] = frozenset()
    """The nodes that are silent together with most others."""
    is_unseen: bool = False
    """It runs on shared nodes, and no pod of it has been seen on one yet."""


ALONE: Final = WorkloadSurroundings()
