"""Queues of a snapshot: names and usage. Their quotas come from the stack that is compared."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

# Objects that name a parent of their own kind: none may be its own ancestor in a stack.


def circles(parents: Mapping[str, str]) -> Iterator[str]:
    """The first name of each circle. `parents` has "" at the top; the caller cuts each there."""
    for name in sorted(parents):
        seen, at = {name}, parents[name]
        while at and at not in seen:
            seen.add(at)
            at = parents[at]
        if at:
            yield name


@dataclass(frozen=True, slots=True)
class Usage:
    """What the Workloads of a queue hold of one flavor and resource: `cpu` in millicores, others in whole
    units.

    `flavor` is "" where the scheduler counts without flavors (KAI).
    """

    flavor: str
    resource: str
    amount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A ClusterQueue of Kueue, or a Queue of KAI. `parent` is its Cohort or parent queue, "" at the top."""

    name: str
    parent: str
    usage: tuple[Usage, ...]


@dataclass(frozen=True, slots=True)
class LocalQueue:
    namespace: str
    name: str
    cluster_queue: str
