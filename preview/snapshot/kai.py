"""KAI's queues, cut to what a snapshot holds.

KAI counts what a queue holds without naming a pool: `status.allocated` of `queues.scheduling.run.ai` is one
amount a resource (docs/queues of kai-scheduler/KAI-Scheduler 0.17).
"""

from preview.fields import mapping, text
from preview.snapshot.kueue import amount
from preview.snapshot.queues import Queue, Usage


def queue(found: object) -> Queue:
    allocated = mapping(found, "status", "allocated")
    usage = (Usage("", name, amount(name, value)) for name, value in sorted(allocated.items()))
    return Queue(
        name=text(found, "metadata", "name"),
        parent=text(found, "spec", "parentQueue"),
        usage=tuple(each for each in usage if each.amount),
    )
