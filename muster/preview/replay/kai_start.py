"""What a job is to KAI's player when the play begins: it runs, it waits, or it arrives later.

A cluster shows on which nodes a job's pods run. A recording does not: there KAI places what runs, a second
before the others arrive.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from muster.live.snapshot import PodGroup
from muster.preview.whatif.kai.work import group_manifest, pod_manifest
from muster.replay.kai_course import KaiEntry
from muster.replay.moment import Moment, Running
from muster.replay.recording import Job


@dataclass(frozen=True)
class KaiStart:
    moment: Moment

    def place(self, entry: KaiEntry, job: Job) -> KaiEntry:
        """The job in its place at the start. `entry` is the job as it would be submitted then."""
        at, group = int(self.moment.at), self.moment.groups.get(job.key)
        if group is not None:
            entry = _as_it_is(entry, group)
        running = self._running.get(job.key)
        if running is None:
            return replace(entry, at=max(at, int(job.arrival)))
        at = at if group is not None else at - 1
        return replace(entry, at=at, ran=max(at - int(running.since), 1), delays={})

    @cached_property
    def _running(self) -> Mapping[str, Running]:
        return {each.job.key: each for each in self.moment.running}


def _as_it_is(entry: KaiEntry, group: PodGroup) -> KaiEntry:
    """With the PodGroup and the pods of the cluster, and the nodes of those that have one."""
    pods = [(1, pod_manifest(group, pod)) for pod in group.pods if not pod.is_ending]
    return replace(entry, label=group.label, group=group_manifest(group), pods=pods)
