"""Keeps the jobs of a cluster that have not left, and returns those that have changed.

Pure: fed with Workloads, in any order and any number of times.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from muster.live.fields import text
from muster.replay import kueue
from muster.replay.ends import deleted
from muster.replay.ids import Ids
from muster.replay.recording import Job, Recording


@dataclass(slots=True)
class Tracker:
    """`start`: what finished before is not part of the recording. `open`: jobs that have not left, by id.
    `left`: ids of jobs that left and whose objects may still exist.
    """

    ids: Ids
    start: float
    with_names: bool = False
    open: dict[str, Job] = field(default_factory=dict)
    left: set[str] = field(default_factory=set)

    def restore(self, recording: Recording) -> None:
        """Go on where a recording ends."""
        self.open = {job.id: job for job in recording.jobs if job.left is None}
        self.left = {job.id for job in recording.jobs if job.left is not None}

    def observe(self, found: Mapping[str, object], *, at: float | None = None) -> Job | None:
        """The job of this Workload where it has changed. `at`: when a watch delivered it; None where it was
        listed, and may have changed long before.
        """
        id = self.ids.of(text(found, "metadata", "uid"))
        if id in self.left:
            return None
        before = self.open.get(id)
        finished = kueue.finished_at(found)
        if before is None and finished is not None and finished < self.start:
            self.left.add(id)
            return None
        job = kueue.observe(found, before=before, at=at, ids=self.ids, with_names=self.with_names)
        self._keep(job)
        return None if job == before else job

    def remove(self, uid: str, *, at: float) -> Job | None:
        """The job of a Workload that is gone, where it had not left before."""
        id = self.ids.of(uid)
        self.left.discard(id)
        before = self.open.pop(id, None)
        return None if before is None else deleted(before, at=at)

    def keep_only(self, uids: Set[str], *, at: float) -> list[Job]:
        """The jobs that have left, because only Workloads of these UIDs exist."""
        known = {self.ids.of(uid) for uid in uids}
        self.left &= known
        gone = [job for id, job in self.open.items() if id not in known]
        for job in gone:
            del self.open[job.id]
        return [deleted(job, at=at) for job in gone]

    def _keep(self, job: Job) -> None:
        if job.left is None:
            self.open[job.id] = job
        else:
            self.open.pop(job.id, None)
            self.left.add(job.id)
