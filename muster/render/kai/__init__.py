"""The stack as objects of the KAI Scheduler 0.17.

    priority_classes(stack)  PriorityClass of every priority, and those that KAI itself falls back to
    topologies(stack)        Topology objects
    shards(stack)            SchedulingShard of every partition
    cluster_objects(stack)   Topologies and SchedulingShards
    queues(stack)            every Queue, parents first
    team_objects(stack, t)   Namespace and Queues of one team
    by_department(stack)     department -> team (or "" for its own Queues) -> objects
    names_by_team(stack)     team -> its Queue, or pool -> its Queue where each pool has its own
    leaf_queues(stack)       team -> pool -> the Queue that its work names
    chart_values(stack, ...) the values of KAI's own chart

Objects are in the order in which they can be applied. The order depends on the stack alone, not on the order
of keys in its file.
"""

from muster.render.kai.shards import shards, topologies
from muster.render.kai.tree import (
    by_department,
    chart_values,
    cluster_objects,
    leaf_queues,
    names_by_team,
    priority_classes,
    queues,
    team_objects,
)

__all__ = [
    "by_department",
    "chart_values",
    "cluster_objects",
    "leaf_queues",
    "names_by_team",
    "priority_classes",
    "queues",
    "shards",
    "team_objects",
    "topologies",
]
