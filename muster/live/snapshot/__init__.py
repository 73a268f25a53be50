"""A snapshot of a cluster's queues.

    Snapshot                queues, their usage, and every Workload that has not finished; of KAI: pod groups
                            and nodes
    fetch_snapshot(api)     reads one from a cluster, and writes nothing
    load_snapshot(path)     reads one from a file
    format_snapshot(found)  the file's text

A snapshot only holds what decisions about queues depend on: no environment, command, volume, image or
annotation of a pod, and no message of a condition. What is not read cannot leak.
"""

from muster.live.snapshot.fetch import (
    Snapshot,
    SnapshotError,
    fetch_snapshot,
    format_snapshot,
    load_snapshot,
    parse_snapshot,
)
from muster.live.snapshot.workloads import (
    Condition,
    Expression,
    GroupPod,
    Job,
    LocalQueue,
    Node,
    PodGroup,
    PodSet,
    Queue,
    State,
    SubGroup,
    Taint,
    Term,
    Toleration,
    Usage,
    Workload,
)

__all__ = [
    "Condition",
    "Expression",
    "GroupPod",
    "Job",
    "LocalQueue",
    "Node",
    "PodGroup",
    "PodSet",
    "Queue",
    "Snapshot",
    "SnapshotError",
    "State",
    "SubGroup",
    "Taint",
    "Term",
    "Toleration",
    "Usage",
    "Workload",
    "fetch_snapshot",
    "format_snapshot",
    "load_snapshot",
    "parse_snapshot",
]
