"""What differs between the KAI queues of two stacks.

Decides which figures of a Queue are compared: quota, limit and over-quota weight of each resource, and the
queue's own priority. Leaves what they come to to muster.model.kai, and words to sections/kai.py.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from muster.live.snapshot import Snapshot
from muster.model import names
from muster.model.kai import DEFAULT_QUEUE_PRIORITY, Figure, Unlimited
from muster.model.kai.priorities import effective, is_preemptible
from muster.model.kai.tree import RESOURCES, Figures, Node, nodes
from muster.model.priorities import Priority
from muster.model.stack import Scheduler, Stack

# KAI's words and those of the nodes that it counts on.
RESOURCE_OF: Final[Mapping[str, str]] = {"gpu": names.GPU_RESOURCE, "cpu": "cpu", "memory": "memory"}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueChange:
    """One resource of one Queue. A side that is None has no such Queue."""

    queue: str
    path: tuple[str, ...]
    resource: str
    before: Figures | None
    after: Figures | None


@dataclass(frozen=True, slots=True)
class QueuePriorityChange:
    """A queue's or a priority's rank; None where it is not there."""

    name: str
    before: int | None
    after: int | None


@dataclass(frozen=True, slots=True)
class QueueOveruse:
    """A Queue that holds more of a resource than a figure, its quota or its limit: GPUs, millicores or
    bytes.
    """

    queue: str
    resource: str
    used: int
    quota: int


def is_kai(*stacks: Stack | None) -> bool:
    """Whether KAI schedules any of them."""
    return any(stack is not None and stack.scheduler is Scheduler.KAI for stack in stacks)


def queue_changes(base: Stack | None, head: Stack | None) -> tuple[QueueChange, ...]:
    """Every resource of every Queue that differs, in the order of the tree."""
    old, new = _nodes(base), _nodes(head)
    found = []
    for name in dict.fromkeys([*new, *old]):
        for resource in RESOURCES:
            before, after = (_figures(side.get(name), resource) for side in (old, new))
            if before != after:
                path = _path(new.get(name) or old[name])
                found.append(
                    QueueChange(queue=name, path=path, resource=resource, before=before, after=after)
                )
    return tuple(found)


def queue_priority_changes(base: Stack | None, head: Stack | None) -> tuple[QueuePriorityChange, ...]:
    """Queues that get what is free before others, or after them, other than they did."""
    old = {name: _queue_priority(node) for name, node in _nodes(base).items()}
    new = {name: _queue_priority(node) for name, node in _nodes(head).items()}
    both = [name for name in new if name in old and new[name] != old[name]]
    return tuple(QueuePriorityChange(name, old[name], new[name]) for name in both)


def eviction_changes(base: Stack | None, head: Stack | None) -> tuple[tuple[Priority, bool], ...]:
    """Priorities whose work became non-preemptible (True), or preemptible."""
    old, new = ({each.name: each for each in _priorities(stack)} for stack in (base, head))
    return tuple(
        (each, not is_preemptible(each))
        for name, each in sorted(new.items())
        if name in old and is_preemptible(each) is not is_preemptible(old[name])
    )


def queues_over_quota(head: Stack | None, snapshot: Snapshot) -> Iterator[QueueOveruse]:
    """Teams' Queues that hold more GPUs now than their new quota."""
    used = _gpus_in_use(snapshot)
    for name, node in _nodes(head).items():
        quota, now = node.figures["gpu"].quota, used.get(name, 0)
        if node.team is not None and not isinstance(quota, Unlimited) and now * 1000 > quota:
            yield QueueOveruse(name, "gpu", now, quota)


def queues_at_limit(head: Stack | None, snapshot: Snapshot) -> Iterator[QueueOveruse]:
    """Queues, departments' too, that hold as many GPUs as their new limit, or more. KAI ends nothing for
    that, and starts nothing that would go further (docs/queues of kai-scheduler/KAI-Scheduler 0.17).
    """
    used = _gpus_in_use(snapshot)
    for name, node in _nodes(head).items():
        limit, now = node.figures["gpu"].limit, used.get(name, 0)
        if now and not isinstance(limit, Unlimited) and now * 1000 >= limit:
            yield QueueOveruse(name, "gpu", now, limit)


def _gpus_in_use(snapshot: Snapshot) -> dict[str, int]:
    """Queue -> GPUs that it holds now. KAI names no flavor."""
    return {
        queue.name: each.amount
        for queue in snapshot.queues
        for each in queue.usage
        if not each.flavor and each.resource == RESOURCE_OF["gpu"]
    }


def format_figure(resource: str, figure: Figure[int]) -> str:
    """A figure as a reader takes it: GPUs, CPUs, mebibytes."""
    if isinstance(figure, Unlimited):
        return "unlimited"
    if resource == "memory":
        return f"{figure // 2**20} MiB"
    return f"{figure / 1000:g}"


def _nodes(stack: Stack | None) -> dict[str, Node]:
    if stack is None or stack.scheduler is not Scheduler.KAI:
        return {}
    return {node.name: node for node in nodes(stack)}


def _priorities(stack: Stack | None) -> list[Priority]:
    return [] if stack is None or stack.scheduler is not Scheduler.KAI else effective(stack.priorities)


def _figures(node: Node | None, resource: str) -> Figures | None:
    return None if node is None else node.figures[resource]


def _queue_priority(node: Node) -> int:
    rank = node.owner.kai.priority
    return DEFAULT_QUEUE_PRIORITY if rank is None else rank


def _path(node: Node) -> tuple[str, ...]:
    own = () if node.team is None else (node.team.name,)
    return (*(department.name for department in node.above), *own)
