"""What stands in a cluster's queues at one moment.

    snapshot.Snapshot            queues, what they use, and every Workload that has not finished
    snapshot.take(api)           reads it from a cluster: lists, page by page, and writes nothing
    snapshot.load(path), dump()  a recorded one, as JSON

It holds what deciding about queues needs and nothing else: of a pod no environment, command, volume, image
or annotation, of a condition no message. What is not read cannot be shown.
"""

from muster.live.snapshot.fetch import fetch_snapshot
from muster.live.snapshot.queues import LocalQueue, Queue, Usage
from muster.live.snapshot.record import SnapshotError, format_snapshot, load_snapshot, parse_snapshot
from muster.live.snapshot.snapshot import Snapshot
from muster.live.snapshot.workloads import (
    Condition,
    Expression,
    Job,
    PodSet,
    State,
    Term,
    Toleration,
    Workload,
)

__all__ = [
    "Condition",
    "Expression",
    "Job",
    "LocalQueue",
    "PodSet",
    "Queue",
    "Snapshot",
    "SnapshotError",
    "State",
    "Term",
    "Toleration",
    "Usage",
    "Workload",
    "fetch_snapshot",
    "format_snapshot",
    "load_snapshot",
    "parse_snapshot",
]
