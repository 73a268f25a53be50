"""Builds the snapshot of one Ray cluster from the caches.

Nodes, pods of others and other gangs are read only when the decision can depend on them. Reads caches, calls
nothing, decides nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from muster.controller.gangs.capacity_claims import unused_claims
from muster.controller.gangs.indexes import BY_POOL, BY_REQUEST, request_of
from muster.controller.gangs.objects import Belonging, Node, Pod, PodTemplate, ProvisioningRequest
from muster.controller.gangs.split import RequestSpec
from muster.controller.gangs.surroundings import ALONE, Surroundings
from muster.controller.gangs.templates import POOL
from muster.controller.gangs.turn_order import Line, TurnPosition
from muster.controller.gangs.usage import NodeUsage
from muster.controller.gangs.verify import PodDemand
from muster.controller.kai.indexes import BY_CLUSTER, BY_QUEUE, RELEASED, ray_cluster_of
from muster.controller.kai.labels import CLUSTER_UID, is_finished, is_gated
from muster.controller.kai.ledger import of_gangs, of_pods
from muster.controller.kai.objects import GatedPod, PriorityClass, Queue, RayCluster
from muster.controller.kai.pod_groups import pod_group_demands
from muster.controller.kai.queue_capacity import QueueDemand, QueueUsage
from muster.controller.kai.snapshot import BatchSnapshot, ClusterSnapshot, queue_demand
from muster.controller.kube.resource import Key
from muster.controller.runtime.informer import Informer
from muster.model.gangpolicy import GangPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The caches, queried in terms of gangs."""

    clusters: Informer[RayCluster]
    pods: Informer[GatedPod]
    requests: Informer[ProvisioningRequest]
    templates: Informer[PodTemplate]
    nodes: Informer[Node]
    queues: Informer[Queue]
    priorities: Informer[PriorityClass]
    policy: Callable[[], GangPolicy | None]
    _queue_demands: dict[str, tuple[str, GangPolicy | None, QueueDemand]] = field(default_factory=dict)
    """By a pod's uid: its version, the policy that it was read with, and what it takes of its queue. Reading
    quantities is what a look costs.
    """

    usage: NodeUsage[GatedPod] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "usage", NodeUsage(self.pods))

    def snapshot(self, cluster: RayCluster, *, now: datetime) -> ClusterSnapshot:
        """Everything that a decision about this cluster depends on."""
        base = self._base_snapshot(cluster, now)
        if base.is_finished or not any(is_gated(pod) for pod in base.pods):
            return base
        others = list(self._provisioning(cluster, now))
        positions = (_turn_position(other) for other in others)
        snapshot = replace(
            base,
            usage=(*self._usage(base), *of_gangs(others)),
            line=Line(position for position in positions if position is not None),
        )
        try:
            return replace(snapshot, surroundings=self._surroundings(snapshot, others))
        except ValueError:
            return snapshot  # A bad quantity: the decision meets it too, and reports it.

    def orphans(self, key: Key, cluster: RayCluster | None) -> list[Belonging]:
        """What an earlier cluster of this name left, where garbage collection did not reach."""
        uid = cluster.metadata.uid if cluster else ""
        items: list[Belonging] = [
            *self.requests.store.by_index(BY_CLUSTER, key),
            *self.templates.store.by_index(BY_CLUSTER, key),
        ]
        foreign = (item for item in items if _made_for(item) != uid)
        return [item for item in foreign if not item.metadata.deletion_timestamp]

    def _base_snapshot(self, cluster: RayCluster, now: datetime) -> ClusterSnapshot:
        uid, key = cluster.metadata.uid, cluster.key
        return ClusterSnapshot(
            cluster=cluster,
            now=now,
            policy=self.policy(),
            pods=tuple(
                pod
                for pod in self.pods.store.by_index(BY_CLUSTER, key)
                if not is_finished(pod) and any(owner.uid == uid for owner in pod.metadata.owner_references)
            ),
            requests=tuple(
                item for item in self.requests.store.by_index(BY_CLUSTER, key) if _made_for(item) == uid
            ),
            templates=tuple(
                item for item in self.templates.store.by_index(BY_CLUSTER, key) if _made_for(item) == uid
            ),
            queues={queue.metadata.name: queue for queue in self.queues.store},
            priorities=self._classes(),
        )

    def _classes(self) -> Mapping[str, PriorityClass]:
        return {each.metadata.name: each for each in self.priorities.store}

    # The queues

    def _usage(self, snapshot: ClusterSnapshot) -> Iterator[QueueUsage]:
        """What the pods of all queues hold: a queue above counts what is in queues that we never name."""
        pods = (pod for name in self.pods.store.index_values(BY_QUEUE) for pod in self._in_queue(str(name)))
        yield from of_pods(self._with_needs(pods, snapshot))

    def _in_queue(self, name: str) -> list[GatedPod]:
        return self.pods.store.by_index(BY_QUEUE, name)

    def _with_needs(
        self, pods: Iterable[GatedPod], snapshot: ClusterSnapshot
    ) -> Iterator[tuple[GatedPod, QueueDemand]]:
        if len(self._queue_demands) > 2 * len(self.pods.store) + 1000:
            self._queue_demands.clear()
        for pod in pods:
            meta = pod.metadata
            version, policy, known = self._queue_demands.get(meta.uid, ("", None, None))
            if known is None or version != meta.resource_version or policy is not snapshot.policy:
                try:
                    known = self._queue_demand(pod, snapshot)
                except ValueError:
                    continue  # Not ours to judge: KAI counts it when it starts it.
                self._queue_demands[meta.uid] = (meta.resource_version, snapshot.policy, known)
            yield pod, known

    def _queue_demand(self, pod: GatedPod, snapshot: ClusterSnapshot) -> QueueDemand:
        (key,) = ray_cluster_of(pod) or (None,)
        cluster = self.clusters.get(key) if key else None
        return queue_demand(pod, cluster, snapshot.policy or GangPolicy(), snapshot.priorities)

    # Other gangs

    def _provisioning(self, cluster: RayCluster, now: datetime) -> Iterator[BatchSnapshot]:
        """The batches of other clusters that have requested capacity or have begun to pass."""
        keys = {
            *self.requests.store.index_values(BY_CLUSTER),
            *self.pods.store.index_values(RELEASED),
        }
        for key in keys:
            assert isinstance(key, Key)
            other = self.clusters.get(key)
            if (
                other is None
                or other.metadata.uid == cluster.metadata.uid
                or other.metadata.deletion_timestamp
            ):
                continue
            try:
                yield from self._base_snapshot(other, now).batch_snapshots
            except ValueError:
                continue

    def _surroundings(self, snapshot: ClusterSnapshot, others: list[BatchSnapshot]) -> Surroundings:
        """Nodes, once everything requested is Provisioned."""
        readable = [each for each in snapshot.batch_snapshots if _is_readable(each)]
        provisioned = [each for each in readable if each.gang.request_specs and each.is_provisioned]
        if not provisioned:
            return ALONE
        pools = {group.demand.flavor.name for each in provisioned for group in each.pod_group_demands}
        nodes = tuple(node for pool in sorted(pools) for node in self.nodes.store.by_index(BY_POOL, pool))
        claims = tuple(self._claims(snapshot, provisioned, others))
        return Surroundings(
            nodes=nodes, used=self.usage.of(node.metadata.name for node in nodes), claims=claims
        )

    def _claims(
        self, snapshot: ClusterSnapshot, mine: list[BatchSnapshot], others: list[BatchSnapshot]
    ) -> Iterator[PodDemand]:
        """Room on nodes that others were promised first and have not taken yet. A lease with nodes of its own
        needs no protection.
        """
        shared = {
            spec.pool
            for each in mine
            for spec in each.gang.request_specs
            if not spec.flavor.node_selector_from_details
        }
        rank = max(_rank(each) for each in mine)
        for other in others:
            if _rank(other) < rank and any(spec.pool in shared for spec in _asks(other)):
                yield from unused_claims(other.gang, other.current, self._consumers(other), ended={})
        for key in self.pods.store.index_values(RELEASED):
            for pod in self.pods.store.by_index(RELEASED, key):
                yield from self._released(pod, snapshot, shared)

    def _consumers(self, other: BatchSnapshot) -> Iterator[Pod]:
        for request in other.current.values():
            yield from self.pods.store.by_index(BY_REQUEST, request.key)

    def _released(self, pod: GatedPod, snapshot: ClusterSnapshot, shared: set[str]) -> Iterator[PodDemand]:
        """A pod that has passed and has no node yet: what it was promised is still its own."""
        if not shared & set(self._pools_of(pod)):
            return
        (key,) = ray_cluster_of(pod)
        cluster = self.clusters.get(key)
        if cluster is None or snapshot.policy is None:
            return
        try:
            for group_demand in pod_group_demands([pod], cluster, snapshot.policy):
                demand = group_demand.demand
                yield PodDemand(name=pod.metadata.name, pool=demand.flavor.name, count=1, needs=demand.needs)
        except ValueError:
            return

    def _pools_of(self, pod: GatedPod) -> Iterator[str]:
        for key in request_of(pod):
            request = self.requests.get(key)
            if request is not None:
                yield request.metadata.annotations.get(POOL, "")


def _made_for(item: Belonging) -> str:
    return item.metadata.labels.get(CLUSTER_UID, "")


def _turn_position(other: BatchSnapshot) -> TurnPosition | None:
    try:
        return other.turn_position() if other.is_in_turn_order else None
    except ValueError:
        return None


def _is_readable(mine: BatchSnapshot) -> bool:
    """A batch that is not reports it itself; the cluster's others are not affected."""
    try:
        return mine.gang is not None
    except ValueError:
        return False


def _asks(other: BatchSnapshot) -> tuple[RequestSpec, ...]:
    try:
        return other.gang.request_specs
    except ValueError:
        return ()


def _rank(snapshot: BatchSnapshot) -> tuple[bool, datetime, str]:
    """Priority of claims: what passes already, then the one that was provisioned first."""
    try:
        moments = [request.status.since("Provisioned") for request in snapshot.current.values()]
    except ValueError:
        moments = []
    last = max((moment for moment in moments if moment), default=snapshot.now)
    return not snapshot.batch.ungated, last, snapshot.batch.attempt
