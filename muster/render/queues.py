"""The queue objects of a stack, rendered for its scheduler.

    priority_classes(stack)  the classes that work names as its priority
    by_department(stack)     department -> team (or "" for the department's own) -> objects, parents first
    objects(stack)           all of them, in the order in which they can be applied
    names_by_team(stack)     team -> its queue, or pool -> its queue where each pool has its own

Responsible for which renderer a scheduler has.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Protocol

from muster.model.queuetree import Queue
from muster.model.stack import Scheduler, Stack
from muster.render import kai, kueue
from muster.render.manifest import Manifest


class SchedulerRenderer(Protocol):
    """What a scheduler's package renders. The two packages themselves have this shape."""

    def priority_classes(self, stack: Stack, /) -> list[Manifest]: ...

    def cluster_objects(self, stack: Stack, /) -> list[Manifest]:
        """The objects that queues refer to, in the order in which they can be applied."""

    def by_department(self, stack: Stack, /) -> dict[str, dict[str, list[Manifest]]]: ...

    def names_by_team(self, stack: Stack, /) -> dict[str, str | dict[str, str]]: ...

    def queues_of_teams(self, stack: Stack, /) -> dict[str, tuple[Queue, ...]]:
        """The queues of a team's own namespace, with what each can hold: an upper bound, for one that is too
        high lets a gang wait, and one that is too low would refuse a gang that could run.
        """


ROOMS: Final[Mapping[Scheduler, SchedulerRenderer]] = MappingProxyType(
    {Scheduler.KUEUE: kueue, Scheduler.KAI: kai}
)


def renderer(stack: Stack) -> SchedulerRenderer:
    """The renderer of the stack's scheduler."""
    return ROOMS[stack.scheduler]


def priority_classes(stack: Stack) -> list[Manifest]:
    return renderer(stack).priority_classes(stack)


def by_department(stack: Stack) -> dict[str, dict[str, list[Manifest]]]:
    return renderer(stack).by_department(stack)


def names_by_team(stack: Stack) -> dict[str, str | dict[str, str]]:
    return renderer(stack).names_by_team(stack)


def objects(stack: Stack) -> list[Manifest]:
    chosen = renderer(stack)
    tree = chosen.by_department(stack).values()
    return [
        *chosen.priority_classes(stack),
        *chosen.cluster_objects(stack),
        *(each for teams in tree for each in teams[""]),
        *(each for teams in tree for name in teams if name for each in teams[name]),
    ]
