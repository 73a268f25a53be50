"""PriorityClass of every priority, with the values of the stack.

Work without a class gets one of KAI's own by its kind, so those four always exist. A stack may change their
values.
"""

from muster.model.kai.priorities import effective, is_preemptible
from muster.model.priorities import Priority
from muster.model.stack import Stack
from muster.render.manifest import Manifest, manifest


def priority_classes(stack: Stack) -> list[Manifest]:
    return [
        manifest(
            "scheduling.k8s.io/v1",
            "PriorityClass",
            priority.name,
            value=priority.value,
            preemptionPolicy="PreemptLowerPriority",
            description=_description(priority),
        )
        for priority in effective(stack.priorities)
    ]


def _description(priority: Priority) -> str:
    if priority.description:
        return priority.description
    bounds = (
        "may go over quota, and then be reclaimed"
        if is_preemptible(priority)
        else "never preempted, never over quota"
    )
    return f"Priority {priority.name} ({priority.value}): {bounds}."
