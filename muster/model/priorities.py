"""Priorities: who goes first, and who may be preempted by whom.

Decides what a priority is. Leaves which team may use which to the teams, and preemption to the renderers.
"""

from dataclasses import dataclass
from typing import Final

HIGHEST: Final = 1_000_000_000
"""Of a PriorityClass. Values above belong to the system (HighestUserDefinablePriority of
k8s.io/kubernetes/pkg/apis/scheduling).
"""


@dataclass(frozen=True, slots=True, order=True)
class Priority:
    """A higher value goes first; within a team it preempts lower ones. `value` is a signed 32-bit integer."""

    value: int
    name: str
