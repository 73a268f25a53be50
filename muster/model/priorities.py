"""Priorities of work.

Responsible for what a priority is.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from muster.model.keys import ANY_INTEGER, declared

HIGHEST: Final = 1_000_000_000
"""Of a PriorityClass. Values above belong to the system (HighestUserDefinablePriority of
k8s.io/kubernetes/pkg/apis/scheduling).
"""


@dataclass(frozen=True, slots=True, order=True)
class Priority:
    """A higher value goes first; within a team it preempts lower ones. `value` is a signed 32-bit integer."""

    SHORT: ClassVar = "value"

    # mypy takes any call but `field` for a default.
    value: int = field(metadata=declared("Its value.", example=1000, **ANY_INTEGER).metadata)
    name: str
    description: str = declared(
        "What it is for.", "", default_text="what follows from the value", example="Serving."
    )
