"""The stack as objects of the KAI Scheduler 0.17.

    priority_classes(stack)  PriorityClass of every priority, and those that KAI itself falls back to
    topologies(stack)        Topology objects
    shards(stack)            SchedulingShard of every partition
    queues(stack)            every Queue, parents first
    team_objects(stack, t)   Namespace and Queues of one team
    by_department(stack)     department -> team (or "" for its own Queues) -> objects
    leaf_queues(stack)       team -> pool -> the Queue that its work names
    chart_values(stack, ...) the values of KAI's own chart

Everything comes in an order that can be applied as it stands and is the same for the same stack, whatever the
order of its file.
"""

from muster.render.kai.chart import chart_values
from muster.render.kai.priorities import priority_classes
from muster.render.kai.shards import shards
from muster.render.kai.topologies import topologies
from muster.render.kai.tree import by_department, leaf_queues, queues, team_objects

__all__ = [
    "by_department",
    "chart_values",
    "leaf_queues",
    "priority_classes",
    "queues",
    "shards",
    "team_objects",
    "topologies",
]
