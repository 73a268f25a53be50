"""The queues that jobs are played in: those of a stack (muster/preview/replay/both.py), or of a cluster."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import itemgetter
from typing import Any, Final, Self

from muster.live.fields import mapping, text, texts
from muster.live.snapshot import PodSet, State, Workload
from muster.live.snapshot.kueue import read_tree
from muster.model import names
from muster.model.kueue import Group
from muster.model.kueue.tree import Tree
from muster.model.pools import Pool
from muster.model.queues import Team
from muster.replay import stored
from muster.replay.kueue import NodePool
from muster.replay.moment import Moment, Running
from muster.replay.player import Entry, Manifest
from muster.replay.recording import Job
from muster.replay.recording import PodSet as RecordedPods

# Whether a cloud has capacity cannot be known.
_CHECKS: Final = "admissionChecksStrategy"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorPool:
    """A pool as its ResourceFlavor describes it (provisioning.NodePool)."""

    name: str
    flavor: str
    is_gpu: bool


@dataclass(frozen=True, kw_only=True)
class Queues:
    """`objects` and `config` are what Kueue decides by, and `tree` has its queues. `teams`: by namespace, and
    by name for lists that know no namespaces. `priorities`: name -> value; a name that is missing has the
    value that was recorded. `pools`: for lists that name pools, and to say which part of a quota without a
    bound is real; a cluster has none.
    """

    objects: Sequence[Manifest]
    config: Manifest
    tree: Tree
    teams: Mapping[str, Team]
    priorities: Mapping[str, int] = field(default_factory=dict)
    pools: Sequence[Pool] = ()

    @cached_property
    def cluster_queues(self) -> Mapping[tuple[str, str], str]:
        """(namespace, name) of each LocalQueue -> its ClusterQueue."""
        return {
            (text(each, "metadata", "namespace"), text(each, "metadata", "name")): text(
                each, "spec", "clusterQueue"
            )
            for each in self.objects
            if each["kind"] == "LocalQueue"
        }

    @cached_property
    def node_pools(self) -> Sequence[NodePool]:
        """The pools of the stack, or else those that the flavors name."""
        return self.pools or [*_flavor_pools(self.objects, self.tree)]


def of_cluster(objects: Iterable[Mapping[str, object]], config: Manifest) -> Queues:
    """Of the Namespaces, ResourceFlavors, Cohorts, ClusterQueues and LocalQueues that a cluster has. Labels
    of the LocalQueues name the teams; a namespace without one is a team of its own.
    """
    played = [_plain(each) for each in objects]
    return Queues(objects=played, config=config, tree=read_tree(played), teams=_teams(played))


def _teams(objects: Iterable[Manifest]) -> dict[str, Team]:
    queues = (each["metadata"] for each in objects if each["kind"] == "LocalQueue")
    spaces: defaultdict[str, list[str]] = defaultdict(list)
    for each in sorted(queues, key=itemgetter("namespace")):
        team = each["labels"].get(names.TEAM_LABEL, each["namespace"])
        if each["namespace"] not in spaces[team]:
            spaces[team].append(each["namespace"])
    teams = (
        Team(name=name, namespace=first, further_namespaces=tuple(others))
        for name, (first, *others) in spaces.items()
    )
    return {space: team for team in teams for space in team.namespaces}


def _flavor_pools(objects: Sequence[Manifest], tree: Tree) -> Iterator[FlavorPool]:
    counted = {flavor.name for node in tree.nodes.values() for flavor in node.flavors if flavor.gpus}
    for each in objects:
        if each["kind"] == "ResourceFlavor":
            flavor = text(each, "metadata", "name")
            pool = texts(each, "spec", "nodeLabels").get(names.POOL_LABEL, flavor)
            yield FlavorPool(name=pool, flavor=flavor, is_gpu=flavor in counted)


def _plain(found: Mapping[str, object]) -> dict[str, Any]:
    """What Kueue decides by, without checks."""
    kept = ("name", "namespace", "uid")
    head = {key: value for key in kept if (value := text(found, "metadata", key))}
    spec = {key: value for key, value in mapping(found, "spec").items() if key != _CHECKS}
    return {
        "apiVersion": text(found, "apiVersion"),
        "kind": text(found, "kind"),
        "metadata": {**head, "labels": texts(found, "metadata", "labels")},
        "spec": spec,
    }


# What a job is to the player when the play begins: it holds quota, waits, or arrives later.
# A cluster shows the flavor of each resource that a running job was given. A recording has the names of its
# flavors: each pod set is taken to hold the one that its pools and its devices fit.


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
