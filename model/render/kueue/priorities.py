"""WorkloadPriorityClass of every priority. Its value and description are top-level fields: the kind has no
spec.
"""

from model.render.manifest import Manifest, kueue
from model.stack import Stack


def priority_classes(stack: Stack) -> list[Manifest]:
    return [
        kueue(
            "WorkloadPriorityClass",
            priority.name,
            value=priority.value,
            description=f"Priority {priority.name} ({priority.value}): goes before every lower value.",
        )
        for priority in stack.priorities
    ]
