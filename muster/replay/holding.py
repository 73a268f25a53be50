"""What a job is to the player when the play begins: it holds quota, waits, or arrives later.

A cluster shows the flavor of each resource that a running job was given. A recording has the names of its
flavors: each pod set is taken to hold the one that its pools and its devices fit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from muster.live.snapshot import PodSet, State, Workload
from muster.model import names
from muster.model.kueue import Group
from muster.model.pools import Pool
from muster.replay import stored
from muster.replay.moment import Moment, Running
from muster.replay.player import Entry
from muster.replay.queues import Queues
from muster.replay.recording import Job
from muster.replay.recording import PodSet as RecordedPods


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The jobs that run when the play begins, by their keys, and what they may have been given. `groups`: by
    ClusterQueue, each pod set is given one flavor of a group for all its resources. `pools`: by flavor.
    """

    at: int
    running: Mapping[str, Running]
    pools: Mapping[str, Pool]
    groups: Mapping[str, Sequence[Group]]

    @classmethod
    def of(cls, queues: Queues, moment: Moment) -> Self:
        return cls(
            at=int(moment.at),
            running={each.job.key: each for each in moment.running},
            pools={pool.flavor: pool for pool in queues.pools},
            groups={queue.object_name: queue.groups for queue in queues.tree.teams()},
        )

    def place(self, entry: Entry, job: Job, workload: Workload, *, queue: str) -> Entry:
        """The job in its place at the start. `workload` is the job as it would wait in ClusterQueue `queue`,
        which `entry` plays.
        """
        running = self.running.get(job.key)
        if running is None:
            return replace(entry, at=max(self.at, int(job.arrival)))
        since = running.run.admitted
        ran = -self._left(running, entry) if since is None else max(self.at - int(since), 0)
        held = running.workload or self._assigned(running, workload, queue)
        if held is None:
            # Kueue chooses its flavors a second before the others arrive.
            left = max((entry.seconds or 0) - ran, 1)
            return replace(entry, seconds=left, at=self.at - 1, delays={})
        return replace(
            entry, workload=stored.holding(replace(held, cluster_queue=queue)), ran=ran, at=self.at
        )

    def waited(self, job: Job) -> float:
        """How long it has waited for its nodes."""
        running = self.running.get(job.key)
        if running is None or running.run.admitted is not None:
            return 0.0
        return max(self.at - running.run.reserved, 0.0)

    def _left(self, running: Running, entry: Entry) -> float:
        """Seconds until the nodes are there that it waits for."""
        delays = [entry.delays.get(flavor, 0) for flavor in running.run.flavors]
        return max(max(delays, default=0) - int(self.waited(running.job)), 0)

    def _assigned(self, running: Running, workload: Workload, queue: str) -> Workload | None:
        """The Workload with the flavors that its job was given; None where the recording has none."""
        run, recorded = running.run, running.job.pod_sets
        counts = run.counts or tuple(pods.count for pods in recorded)
        pod_sets: list[PodSet] = []
        for pods, asked, count in zip(recorded, workload.pod_sets, counts, strict=True):
            flavors = self._flavors(pods, run.flavors, queue)
            if flavors is None:
                return None
            usage = {resource: pods.requests[resource] * count for resource in flavors}
            pod_sets.append(replace(asked, assigned=count, flavors=flavors, usage=usage))
        return replace(workload, state=State.ADMITTED, pod_sets=tuple(pod_sets))

    def _flavors(self, pods: RecordedPods, given: Sequence[str], queue: str) -> dict[str, str] | None:
        """The flavor of each resource that the queue counts; None where none of those given fits."""
        found: dict[str, str] = {}
        for group in self.groups.get(queue, ()):
            resources = set(group.covered_resources) & pods.requests.keys()
            flavors = {flavor.name for flavor in group.flavors}
            fitting = [each for each in given if each in flavors and self._fits(pods, each)]
            if resources and not fitting:
                return None
            # Pods without a device run on nodes without one where the job has any.
            flavor = min(fitting, key=self._has_devices, default="")
            found |= dict.fromkeys(sorted(resources), flavor)
        return found

    def _fits(self, pods: RecordedPods, flavor: str) -> bool:
        pool = self.pools.get(flavor)
        if pool is None:
            return True
        is_named = not pods.pools or not {pool.name, pool.flavor}.isdisjoint(pods.pools)
        devices = [each for each in names.DEVICE_RESOURCES if pods.requests.get(each)]
        return is_named and (pool.is_gpu and pool.device in devices if devices else True)

    def _has_devices(self, flavor: str) -> bool:
        pool = self.pools.get(flavor)
        return pool is not None and pool.is_gpu
