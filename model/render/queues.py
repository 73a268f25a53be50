"""The queue objects of a stack, whichever scheduler it has.

    priority_classes(stack)  what work names as its priority
    by_department(stack)     department -> team (or "" for its own) -> objects, parents first

Leaves what they are to render/kueue and render/kai, which have the same functions.
"""

from model.render import kai, kueue
from model.render.manifest import Manifest
from model.stack import Scheduler, Stack


def priority_classes(stack: Stack) -> list[Manifest]:
    if stack.scheduler is Scheduler.KAI:
        return kai.priority_classes(stack)
    return kueue.priority_classes(stack)


def by_department(stack: Stack) -> dict[str, dict[str, list[Manifest]]]:
    if stack.scheduler is Scheduler.KAI:
        return kai.by_department(stack)
    return kueue.by_department(stack)
