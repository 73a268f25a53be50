"""WorkloadPriorityClass of every priority. Its value and description are top-level fields: the kind has no
spec.
"""

from muster.model.stack import Stack
from muster.render.manifest import Manifest, kueue


def priority_classes(stack: Stack) -> list[Manifest]:
    return [
        kueue(
            "WorkloadPriorityClass",
            priority.name,
            value=priority.value,
            description=priority.description
            or f"Priority {priority.name} ({priority.value}): goes before every lower value.",
        )
        for priority in stack.priorities
    ]
