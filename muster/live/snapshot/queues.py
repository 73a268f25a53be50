"""Queues of a snapshot: names and usage. Their quotas come from the stack that is compared."""

from dataclasses import dataclass


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
