"""Jobs that were created in the same second, in the order in which Kueue treated them. Pure.

Within a queue Kueue compares UIDs then. Between queues chance decides, anew in each of its cycles: their
heads come from a map (Kueue 0.19, pkg/cache/queue/manager.go, heads), and nothing orders equal ones
(pkg/scheduler/scheduler.go, makeClassicalIterator). A recording has the outcome.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import groupby

from muster.replay.recording import Job


def by_treatment(jobs: Sequence[Job]) -> Iterator[Job]:
    """Jobs in the order of a recording; of those of one second, the first in their queues by their starts."""
    for _, found in groupby(jobs, key=lambda job: int(job.created)):
        yield from _merged([*found])


def _merged(jobs: Sequence[Job]) -> Iterator[Job]:
    queues: dict[tuple[str, str], list[Job]] = {}
    for job in reversed(jobs):
        queues.setdefault((job.team, job.queue), []).append(job)
    while queues:
        # The queue whose first job started first.
        key = min(queues, key=lambda each: (_start(queues[each][-1]), each))
        yield queues[key].pop()
        if not queues[key]:
            del queues[key]


def _start(job: Job) -> float:
    return job.runs[0].reserved if job.runs else math.inf
