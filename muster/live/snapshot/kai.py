"""Converts KAI's queues to what a snapshot holds.

KAI counts what a queue holds without naming a pool: `status.allocated` of `queues.scheduling.run.ai` has one
amount a resource (docs/queues of kai-scheduler/KAI-Scheduler 0.17).
"""

from muster.live.fields import mapping, text
from muster.live.snapshot.kueue import parse_amount
from muster.live.snapshot.queues import Queue, Usage


def to_queue(found: object) -> Queue:
    allocated = mapping(found, "status", "allocated")
    usage = (Usage("", name, parse_amount(name, value)) for name, value in sorted(allocated.items()))
    return Queue(
        name=text(found, "metadata", "name"),
        parent=text(found, "spec", "parentQueue"),
        usage=tuple(each for each in usage if each.amount),
    )
