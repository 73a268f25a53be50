"""Builds the snapshot of one gang from the caches.

Nodes, pods of others and other gangs are read only when the decision can depend on them. Reads caches, calls
nothing, decides nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime

from muster.controller.gangs.capacity_claims import unpinned_demand, unused_claims
from muster.controller.gangs.indexes import (
    BY_ENDING,
    BY_LEASE,
    BY_NODE,
    BY_OWNER,
    BY_POOL,
    BY_REQUEST,
    lease_given,
    lease_of,
)
from muster.controller.gangs.objects import (
    Belonging,
    Node,
    Pod,
    ProvisioningRequest,
)
from muster.controller.gangs.owner import Owners
from muster.controller.gangs.placeholder_sets import is_asked_by_pods
from muster.controller.gangs.progress import in_the_way, recheck_at
from muster.controller.gangs.split import split
from muster.controller.gangs.surroundings import ALONE, Surroundings
from muster.controller.gangs.templates import POOL
from muster.controller.gangs.usage import NodeUsage
from muster.controller.gangs.vacated_leases import can_be_taken
from muster.controller.gangs.verify import PodDemand
from muster.controller.gangs.view import GangView
from muster.controller.kai.gathering import GangOwners, Gathering
from muster.controller.kai.indexes import BOUND_IN, BY_CLUSTER, RELEASED
from muster.controller.kai.labels import (
    CLUSTERS,
    gang_of,
    is_bound,
    is_finished,
    is_gated,
    is_owned,
    is_preemptible,
    part_of,
    pool_of,
    priority_of,
    queue_of,
)
from muster.controller.kai.objects import CountedWork, GangOwner, GatedPod, PriorityClass, Queue, RayCluster
from muster.controller.kai.pod_groups import pod_group_demands
from muster.controller.kai.preemption import Rivals, RunningGang
from muster.controller.kai.queue_capacity import QueueDemand
from muster.controller.kai.snapshot import BatchSnapshot, ClusterSnapshot, queue_demand, running_gang
from muster.controller.kube.resource import Key
from muster.controller.runtime.informer import Informer
from muster.model.gangpolicy import GangPolicy
from muster.model.names import POOL_LABEL


@dataclass(slots=True, kw_only=True, eq=False)
class View(GangView[GangOwner]):
    """The caches, queried in terms of gangs."""

    clusters: Informer[RayCluster]
    work: tuple[Informer[CountedWork], ...] = ()
    pods: Informer[GatedPod]
    queues: Informer[Queue]
    priorities: Informer[PriorityClass]
    policy: Callable[[], GangPolicy | None]
    gathering: Gathering = field(init=False)
    _owners: GangOwners = field(init=False)
    _lost: set[str] = field(init=False, default_factory=set)
    """Nodes that were seen to go, while pods of them are known."""

    def __post_init__(self) -> None:
        GangView.__post_init__(self)
        self.usage = NodeUsage(self.pods)
        self._owners = GangOwners(self.clusters, self.work)
        self.gathering = Gathering(
            gangs=self._owners,
            pods=self.pods,
            requests=self.requests,
            templates=self.templates,
            placeholders=self.placeholders,
            queues=self.queues,
            priorities=self.priorities,
            policy=self.policy,
            base_snapshot=self._base_snapshot,
            queue_demand=self._queue_demand,
        )

        self.pods.store.listen(self._pod_changed)
        self.requests.store.listen(self._request_changed)
        self.nodes.store.listen(self._node_changed)

    @property
    def owners(self) -> Owners:
        return CLUSTERS

    @property
    def gangs(self) -> GangOwners:
        return self._owners

    def snapshot(self, cluster: GangOwner, *, now: datetime) -> ClusterSnapshot:
        """Everything that a decision about this cluster depends on."""
        self.gathering.reconciling(cluster.key, now=now)
        snapshot = self._base_snapshot(cluster, now)
        if snapshot.is_finished:
            return snapshot
        on = {pod.spec.node_name for pod in snapshot.pods if is_bound(pod)}
        nodes = {name: node for name in on if (node := self.nodes.get(Key("", name)))}
        # Other controllers than KubeRay count a deleted pod as one that failed.
        broken = self.signs.evicts(nodes.values()) if isinstance(cluster, RayCluster) else {}
        snapshot = replace(snapshot, broken=broken, gone=frozenset(on & self._lost))
        if snapshot.preempting:
            snapshot = replace(snapshot, ending=tuple(self.pods.store.by_index(BY_ENDING, BY_ENDING)))
        if not any(is_gated(pod) for pod in snapshot.pods):
            return snapshot
        snapshot = replace(
            snapshot,
            rivals=self.rivals(snapshot),
            ending=tuple(self.pods.store.by_index(BY_ENDING, BY_ENDING)),
        )
        try:
            return replace(snapshot, surroundings=self._surroundings(snapshot))
        except ValueError:
            return snapshot  # A bad quantity: the decision meets it too, and reports it.

    def running_on(self, before: Node | None, after: Node | None) -> Iterable[Key]:
        """The clusters that queue again because of this node, or because it is gone."""
        lost = self.signs.evicts([after]) if after else [before.metadata.name] if before else []
        return {
            key for name in lost for pod in self.pods.store.by_index(BY_NODE, name) for key in gang_of(pod)
        }

    def _pod_changed(self, before: GatedPod | None, after: GatedPod | None) -> None:
        if before is None or after is not None:
            return
        name = before.spec.node_name
        node = self.nodes.get(Key("", name))
        if node and lease_of(node):
            self.gathering.left(node.metadata.labels.get(POOL_LABEL, ""))
        if not self.pods.store.by_index(BY_NODE, name):
            self._lost.discard(name)

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        if after is not None:
            self._lost.discard(after.metadata.name)
        elif before is not None and self.pods.store.by_index(BY_NODE, before.metadata.name):
            self._lost.add(before.metadata.name)

    def _request_changed(self, before: ProvisioningRequest | None, after: ProvisioningRequest | None) -> None:
        if before and not after and lease_given(before):
            self.gathering.left(before.metadata.annotations.get(POOL, ""))

    def asks_of(self, key: Key) -> list[Belonging]:
        """What stands for its requests: those, and the templates of its placeholders."""
        templates = self.templates.store.by_index(BY_OWNER, key)
        return [*self.requests.store.by_index(BY_OWNER, key), *filter(is_asked_by_pods, templates)]

    def _base_snapshot(self, cluster: GangOwner, now: datetime) -> ClusterSnapshot:
        uid, key = cluster.metadata.uid, cluster.key
        requests = self.requests.store.by_index(BY_OWNER, key)
        made = self.templates.store.by_index(BY_OWNER, key)
        templates = tuple(item for item in made if CLUSTERS.uid_of(item) == uid)
        kept = self.placeholders.store.by_index(BY_OWNER, key)
        placeholders = tuple(item for item in kept if CLUSTERS.uid_of(item) == uid)
        return ClusterSnapshot(
            cluster=cluster,
            now=now,
            policy=self.policy(),
            pods=tuple(
                pod
                for pod in self.pods.store.by_index(BY_CLUSTER, key)
                if not is_finished(pod) and is_owned(pod, cluster)
            ),
            requests=(
                *(item for item in requests if CLUSTERS.uid_of(item) == uid),
                *self.placeholder_sets(templates, placeholders),
            ),
            templates=templates,
            placeholders=placeholders,
            priorities=self._classes(),
            ledger=self.gathering.ledger,
            line=self.gathering.line,
            reported=self.gathering.reported,
        )

    def _classes(self) -> Mapping[str, PriorityClass]:
        return {each.metadata.name: each for each in self.priorities.store}

    def _queue_demand(self, pod: GatedPod) -> QueueDemand:
        (key,) = gang_of(pod) or (None,)
        cluster = self.gangs.get(key) if key else None
        return queue_demand(pod, cluster, self.policy() or GangPolicy(), self._classes())

    def rivals(self, snapshot: ClusterSnapshot) -> Rivals:
        """What KAI might take for it: read only where its priority or its quota may entitle it to any."""
        try:
            batches = [each for each in snapshot.batch_snapshots if each.is_readable and not each.batch.unit]
            # What KAI starts with is one batch.
            return self._rivals_of(batches[0]) if batches else Rivals()
        except ValueError:
            return Rivals()  # Of what cannot be read nothing is taken.

    def _rivals_of(self, batch: BatchSnapshot) -> Rivals:
        own = {demand.queue for demand in batch.queue_demands}
        is_lowest = all(each.value >= batch.priority for each in self.priorities.store)
        queues = set() if is_lowest else own
        if batch.is_within_quota:
            queues |= {name for name in batch.cluster_snapshot.ledger.over_quota if name not in own}
        gangs, left = tuple(self._takeable(queues, batch)), tuple(self._left(batch))
        if not (gangs or left):
            return Rivals()
        names = {pod.spec.node_name for gang in gangs for part in gang.parts for pod in part.pods}
        nodes = {name: node for name in names if (node := self.judged_node(name))}
        return Rivals(
            gangs=gangs,
            nodes=nodes,
            used=self.usage.of((*nodes, *(node.metadata.name for node in left))),
            left=left,
            in_use={pool: self._in_use(pool) for pool in batch.pools},
            takers=frozenset(self.gathering.takers_before(batch)),
        )

    def _takeable(self, queues: Iterable[str], batch: BatchSnapshot) -> Iterator[RunningGang]:
        """Preemptible gangs of these queues, in its own those of a lower priority. Of all others only one pod
        is looked at.
        """
        pods: dict[tuple[Key, str], list[GatedPod]] = {}
        for queue in sorted(queues):
            for pod in self.pods.store.by_index(BOUND_IN, queue):
                (key,) = gang_of(pod)
                cluster = self.gangs.get(key)
                pods.setdefault((key, part_of(pod, cluster) if cluster else ""), []).append(pod)
        own = {demand.queue for demand in batch.queue_demands}
        classes, policy = self._classes(), self.policy() or GangPolicy()
        for (key, _), placed in pods.items():
            cluster, first = self.gangs.get(key), placed[0]
            if key == batch.cluster.key or cluster is None or not is_preemptible(first, cluster, classes):
                continue
            if queue_of(first, cluster) in own and priority_of(first, cluster, classes) >= batch.priority:
                continue
            with suppress(ValueError):  # KAI cannot group it, and so takes nothing of it.
                yield running_gang(cluster, placed, policy, classes)

    def _left(self, batch: BatchSnapshot) -> Iterator[Node]:
        """Idle nodes of leases that no request has any more: the cloud gives them to none, and the gang that
        is first in line may have them, once it has asked for some in vain.
        """
        if not (batch.turn or batch.history.retry_at):
            return iter(())
        pools = {spec.pool for spec in batch.gang.request_specs if can_be_taken(spec)}
        nodes = [
            node
            for pool in sorted(pools)
            for node in self.nodes.store.by_index(BY_POOL, pool)
            if lease_of(node) and not self.requests.store.by_index(BY_LEASE, lease_of(node))
            if not self._is_in_use(node)
        ]
        return iter(self.judged(nodes) if nodes and self.gathering.is_first(batch) else ())

    def _in_use(self, pool: str) -> int:
        return sum(map(self._is_in_use, self.nodes.store.by_index(BY_POOL, pool)))

    def _is_in_use(self, node: Node) -> bool:
        """Whether a pod on it has a device."""
        used = self.usage.of([node.metadata.name]).get(node.metadata.name, {})
        return any("/" in name and amount for name, amount in used.items())

    def _surroundings(self, snapshot: ClusterSnapshot) -> Surroundings:
        """What is ending in its pools, once it has requested; nodes, once all of that is Provisioned."""
        readable = [each for each in snapshot.batch_snapshots if each.is_readable]
        asked = [each for each in readable if each.turn]
        if not asked:
            return ALONE
        on_nodes = [(pod, self.nodes.get(Key("", pod.spec.node_name))) for pod in snapshot.ending]
        ending = {pod.key: pod for each in asked for pod in in_the_way(each.gang, on_nodes)}
        since = min(each.turn[0] for each in asked if each.turn)
        recheck = recheck_at(tuple(ending.values()), since=since, now=snapshot.now)
        aside = "; ".join(sorted({text for each in asked if (text := self.set_aside(each.gang))}))
        around = Surroundings(ending=tuple(ending.values()), recheck_at=recheck, set_aside=aside)
        provisioned = [each for each in asked if each.gang.request_specs and each.is_provisioned]
        if not provisioned:
            return around
        pools = {
            group.demand.flavor.name
            for each in provisioned
            for group in each.pod_group_demands
            if not group.demand.flavor.by_placeholders
        }
        nodes = self.judged(
            node for pool in sorted(pools) for node in self.nodes.store.by_index(BY_POOL, pool)
        )
        claims, used = (
            tuple(self._claims(snapshot, provisioned)),
            self.usage.of(node.metadata.name for node in nodes),
        )
        return replace(around, nodes=nodes, used=used, claims=claims)

    def _claims(self, snapshot: ClusterSnapshot, mine: list[BatchSnapshot]) -> Iterator[PodDemand]:
        """Room on shared nodes for gangs that were promised it first and have not taken it yet."""
        shared = {demand.flavor.name for each in mine for demand in each.gang.on_shared_nodes}
        rank = max(_rank(each) for each in mine)
        gathering = self.gathering.batches.items() if shared else ()
        for other in (each for key, batches in gathering if key != snapshot.cluster.key for each in batches):
            if _rank(other) < rank and any(
                demand.flavor.name in shared for demand in other.gang.on_shared_nodes
            ):
                yield from unused_claims(
                    *(other.gang, other.current, self._consumers(other)),
                    ended={},
                    is_handed_over=bool(other.batch.ungated),
                )
        for key in self.pods.store.index_values(RELEASED) if shared else ():
            for pod in self.pods.store.by_index(RELEASED, key):
                yield from self._released(pod, snapshot, shared)

    def _consumers(self, other: BatchSnapshot) -> Iterator[Pod]:
        for request in other.current.values():
            yield from self.pods.store.by_index(BY_REQUEST, request.key)

    def _released(self, pod: GatedPod, snapshot: ClusterSnapshot, shared: set[str]) -> Iterator[PodDemand]:
        """A pod that has passed and has no node yet: what it was promised is still its own."""
        (key,) = gang_of(pod)
        cluster = self.gangs.get(key)
        if cluster is None or snapshot.policy is None or pool_of(pod, cluster) not in shared:
            return
        try:
            found = [each.demand for each in pod_group_demands([pod], cluster, snapshot.policy)]
        except ValueError:
            return
        yield from map(unpinned_demand, split(found, annotations={}).on_shared_nodes)


def _rank(snapshot: BatchSnapshot) -> tuple[bool, datetime, str]:
    """Priority of claims: what passes already, then the one that was provisioned first."""
    moments = [request.status.since("Provisioned") for request in snapshot.current.values()]
    last = max((moment for moment in moments if moment), default=snapshot.now)
    return not snapshot.batch.ungated, last, snapshot.batch.attempt
