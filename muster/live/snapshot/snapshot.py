"""The queues of one cluster, and their work, at one point in time."""

from dataclasses import dataclass
from datetime import datetime

from muster.live.snapshot.queues import LocalQueue, Queue
from muster.live.snapshot.workloads import Workload
from muster.model.stack import Scheduler


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything is sorted by name. KAI has neither LocalQueues nor Workloads."""

    taken: datetime
    scheduler: Scheduler
    queues: tuple[Queue, ...]
    local_queues: tuple[LocalQueue, ...] = ()
    workloads: tuple[Workload, ...] = ()

    def used(self, queue: str, flavor: str, resource: str) -> int:
        """The usage of a queue; 0 where the queue does not exist."""
        found = next((each for each in self.queues if each.name == queue), None)
        usage = () if found is None else found.usage
        return sum(each.amount for each in usage if (each.flavor, each.resource) == (flavor, resource))
