"""Reads the queue tree from an object's spec.

The API server has validated it against its definition. Anything else in it is ignored, not an error: a
webhook with less information admits more, and the policies still apply.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from muster.model.queuetree.tree import Limits, Queue, QueueTree, Space


def from_spec(spec: Mapping[str, object]) -> QueueTree:
    spaces = {str(each.get("namespace", "")): _space(each) for each in _mappings(spec.get("namespaces"))}
    return QueueTree(
        kai=spec.get("kai") is True,
        gated=spec.get("gated") is True,
        guarded=spec.get("guarded") is True,
        uncounted=tuple(str(each) for each in _list(spec.get("uncounted"))),
        spaces=MappingProxyType(spaces),
    )


def _space(spec: Mapping[str, object]) -> Space:
    priority = spec.get("defaultPriority")
    return Space(
        team=str(spec.get("team", "")),
        queues=tuple(_queue(each) for each in _mappings(spec.get("queues"))),
        priorities=tuple(str(each) for each in _list(spec.get("priorities"))),
        default_priority=priority if isinstance(priority, str) and priority else None,
    )


def _queue(spec: Mapping[str, object]) -> Queue:
    most = spec.get("most")
    counts = most.items() if isinstance(most, Mapping) else ()
    known = {str(pool): count for pool, count in counts if isinstance(count, int)}
    gpus = spec.get("gpus")
    return Queue(
        name=str(spec.get("name", "")),
        pool=str(spec.get("pool", "")),
        gpus=gpus if isinstance(gpus, int) else 0,
        most=MappingProxyType(known),
        limits=tuple(_limits(each) for each in _mappings(spec.get("limits"))),
    )


def _limits(group: Mapping[str, object]) -> Limits:
    return {
        pool: {str(name): str(amount) for name, amount in amounts.items()}
        for pool, amounts in group.items()
        if isinstance(amounts, Mapping)
    }


def _mappings(value: object) -> Iterator[Mapping[str, object]]:
    for each in _list(value):
        if isinstance(each, Mapping):
            yield each


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
