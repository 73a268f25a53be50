"""The queues of one cluster, and their work, at one point in time."""

from dataclasses import dataclass
from datetime import datetime

from muster.live.snapshot.pod_groups import Node, PodGroup
from muster.live.snapshot.queues import LocalQueue, Queue
from muster.live.snapshot.workloads import Workload
from muster.model.stack import Scheduler


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything is sorted by name. KAI has neither LocalQueues nor Workloads.

    `pod_groups` and `nodes`: of KAI; None where the reader had no right to list them.
    """

    taken: datetime
    scheduler: Scheduler
    queues: tuple[Queue, ...]
    local_queues: tuple[LocalQueue, ...] = ()
    workloads: tuple[Workload, ...] = ()
    pod_groups: tuple[PodGroup, ...] | None = None
    nodes: tuple[Node, ...] | None = None

    def used(self, queue: str, flavor: str, resource: str) -> int:
        """The usage of a queue; 0 where the queue does not exist."""
        found = next((each for each in self.queues if each.name == queue), None)
        usage = () if found is None else found.usage
        return sum(each.amount for each in usage if (each.flavor, each.resource) == (flavor, resource))
