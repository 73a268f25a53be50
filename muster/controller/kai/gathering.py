"""What queues and pools hold, kept up with the caches and with what is being written.

A pod or a gang is read anew only when it has changed. A gang whose queue has no room is reconciled when that
very queue has room for it, one that waits for its turn when that comes. What a decision takes counts from the
decision on, because the caches show it when it is written. All else in memory is an index of the caches.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import chain
from typing import Any

from muster.controller.gangs.indexes import BY_OWNER
from muster.controller.gangs.objects import Belonging, Placeholder, PodTemplate, ProvisioningRequest
from muster.controller.gangs.placeholder_sets import is_asked_by_pods
from muster.controller.gangs.turn_order import TurnIndex, TurnPosition
from muster.controller.kai.actions import Decision, PatchAnnotations
from muster.controller.kai.indexes import BY_CLUSTER, RELEASED
from muster.controller.kai.labels import (
    CLUSTERS,
    STATUS,
    gang_of,
    is_bound,
    is_finished,
    is_gated,
    is_released,
    pool_of,
    preempts_since,
)
from muster.controller.kai.ledger import Ledger
from muster.controller.kai.objects import CountedWork, GangOwner, GatedPod, PriorityClass, Queue, RayCluster
from muster.controller.kai.queue_capacity import QueueDemand, QueueUsage, Shortfall
from muster.controller.kai.snapshot import BatchSnapshot, ClusterSnapshot
from muster.controller.kube.resource import Key
from muster.controller.runtime.informer import Informer
from muster.model.gangpolicy import GangPolicy
from muster.model.names import KAI_QUEUE_LABEL

# The objects that gangs belong to, of every kind that the stack serves, as one cache.


class GangOwners:
    """Ray clusters and other work, by the keys of their gangs."""

    def __init__(self, clusters: Informer[RayCluster], work: Sequence[Informer[CountedWork]]) -> None:
        self._clusters = clusters
        self._work = {each.resource.kind: each for each in work}

    def get(self, key: Key) -> GangOwner | None:
        kind = key.name.rpartition("/")[0]
        cache = self._work.get(kind) if kind else self._clusters
        return cache.get(key) if cache else None

    def __iter__(self) -> Iterator[GangOwner]:
        return chain(self._clusters.store, *(each.store for each in self._work.values()))

    def listen(self, listener: Callable[[Any, Any], None]) -> None:
        """`listener`: is called with (before, after), as that of a store."""
        self._clusters.store.listen(listener)
        for each in self._work.values():
            each.store.listen(listener)


class Gathering(TurnIndex):
    """`base_snapshot`: what is known of a cluster alone; `queue_demand`: what a pod takes of its queue."""

    def __init__(
        self,
        *,
        gangs: GangOwners,
        pods: Informer[GatedPod],
        requests: Informer[ProvisioningRequest],
        templates: Informer[PodTemplate],
        placeholders: Informer[Placeholder],
        queues: Informer[Queue],
        priorities: Informer[PriorityClass],
        policy: Callable[[], GangPolicy | None],
        base_snapshot: Callable[[GangOwner, datetime], ClusterSnapshot],
        queue_demand: Callable[[GatedPod], QueueDemand],
    ) -> None:
        super().__init__()
        self._gangs, self._pods, self._requests = gangs, pods, requests
        self._templates = templates
        self._policy = policy
        self._base_snapshot, self._queue_demand = base_snapshot, queue_demand
        self.ledger = Ledger(queues.store)
        self.batches: dict[Key, tuple[BatchSnapshot, ...]] = {}
        """Those that have requested capacity or have begun to pass, by cluster."""
        self._begun: dict[Key, BatchSnapshot] = {}
        """What is being written of."""
        self._waiting: dict[Key, tuple[TurnPosition, ...]] = {}
        """Gangs with room in their queues that wait for their turn to begin."""
        self._to_preempt: dict[Key, BatchSnapshot] = {}
        """Gangs that KAI is to make room for, once it has made room for others."""
        self._attempts: dict[Key, set[str]] = {}
        """Whose share is in the ledger."""
        self._changed_pods: dict[Key, None] = {}
        self.reported: dict[str, datetime] = {}
        """When words on a pod last took the place of others, by its uid. Losing that costs a write."""
        self._seen_policy: object = self
        """The policy by which all of this was read."""
        gangs.listen(self._owner_changed)
        pods.store.listen(self._pod_changed)
        requests.store.listen(self._made_changed)
        templates.store.listen(self._template_changed)
        placeholders.store.listen(self._made_changed)
        queues.store.listen(self._queue_changed)
        priorities.store.listen(self._priority_changed)

    def decided(self, snapshot: ClusterSnapshot, decision: Decision) -> None:
        """What it waits for from now on. A cluster that was deleted during a write waits for nothing."""
        key = snapshot.cluster.key
        if self._gangs.get(key) is None:
            return
        self._await_room(key, decision.shortfalls)
        for note in decision.actions:
            if isinstance(note, PatchAnnotations) and note.status and STATUS in note.pod.metadata.annotations:
                self.reported[note.pod.metadata.uid] = snapshot.now
        if decision.to_preempt is None:
            self._to_preempt.pop(key, None)
        else:
            self._to_preempt[key] = decision.to_preempt
        if self._waiting.pop(key, ()) != decision.in_line:
            self._changed[key] = None
        if decision.in_line:
            self._waiting[key] = decision.in_line
        if decision.begins is None:
            self._update(key, snapshot.now)

    @contextmanager
    def applying(self, snapshot: ClusterSnapshot, decision: Decision) -> Iterator[None]:
        """While this decision is written, others see what it takes."""
        key, begun = snapshot.cluster.key, decision.begins
        if begun is None:
            yield
            return
        self._begun[key] = begun
        self._changed[key] = None
        try:
            with self._asking(begun.turn_position(), decision.actions, key=key, now=snapshot.now):
                self._update(key, snapshot.now)
                yield
        finally:
            del self._begun[key]
            self._changed[key] = None
            self._update(key, snapshot.now)

    # Preemption

    def takers_before(self, batch: BatchSnapshot) -> Iterator[str]:
        """The pools where KAI makes room for another gang, or is to do so before this one."""
        key = batch.cluster.key
        for other in self._pods.store.index_values(RELEASED):
            yield from self._taken_by(other)
        for other, begun in self._begun.items():
            if other != key and begun.preempts:
                yield from begun.pools
        for other, waiting in self._to_preempt.items():
            if other != key and waiting.queue_order < batch.queue_order:
                yield from waiting.pools

    def is_first(self, batch: BatchSnapshot) -> bool:
        """Whether no other gang that waits for nodes of its pools goes before it."""
        others = (each for pool in batch.pools for each in self._awaiting(pool))
        mine = batch.queue_order
        return not any(each.queue_order < mine and each.cluster.key != batch.cluster.key for each in others)

    def _awaiting(self, pool: str) -> Iterator[BatchSnapshot]:
        """Gangs that wait for nodes of this pool."""
        found = (each for batches in self.batches.values() for each in batches)
        return (each for each in found if each.awaits_nodes and pool in each.pools)

    def left(self, pool: str) -> None:
        """Nodes of it may be idle from now on: reconcile the gang that may have them first."""
        first = min(self._awaiting(pool), key=lambda each: each.queue_order, default=None)
        if first is not None:
            self.enqueue(first.cluster.key)

    def _taken_by(self, key: Hashable) -> Iterator[str]:
        assert isinstance(key, Key)
        cluster = self._gangs.get(key)
        for pod in self._pods.store.by_index(RELEASED, key):
            if preempts_since(pod) and (pool := pool_of(pod, cluster)):
                yield pool

    # Room

    def _await_room(self, key: Key, shortfalls: tuple[Shortfall, ...]) -> None:
        self._gave(self.ledger.await_room(key, shortfalls))
        if shortfalls:
            self._recall(key)

    def _gave(self, queues: Iterable[str]) -> None:
        """These queues hold less than before, or something else: reconcile those that they have room for."""
        for name in queues:
            for waiter in self.ledger.waiting_for(name):
                if self._has_room(waiter):
                    self.enqueue(waiter)
                else:
                    self._recall(waiter)

    def _recall(self, waiter: Key) -> None:
        """Reconcile the gangs that may have to give way to it."""
        try:
            outranked = self.ledger.outranked_by(waiter)
        except ValueError:
            return  # A bad quantity: the reconcile of its gang reports it.
        for key, batches in self.batches.items() if outranked else ():
            if any(each.batch.attempt in outranked for each in batches):
                self.enqueue(key)

    def _has_room(self, key: Key) -> bool:
        try:
            return self.ledger.has_room_for(key)
        except ValueError:
            return True  # A bad quantity: its own reconcile reports it.

    def _put(self, holder: Key | str, usage: Iterable[QueueUsage]) -> None:
        self._gave(self.ledger.put(holder, tuple(usage)))

    def _queue_changed(self, before: Queue | None, after: Queue | None) -> None:
        if after is not None:
            self.ledger.put_queue(after)
        elif before is not None:
            self.ledger.remove_queue(before.metadata.name)
        if before is None or after is None or before.spec.parent_queue != after.spec.parent_queue:
            for waiter in self.ledger.waiters:
                self.enqueue(waiter)
        else:
            self._gave([after.metadata.name])

    # What changes

    def _owner_changed(self, before: GangOwner | None, after: GangOwner | None) -> None:
        if after is None:
            assert before is not None
            self._forget(before.key)
            return
        self._changed[after.key] = None
        if before is None or before.metadata.labels != after.metadata.labels:
            self._mark_pods(self._pods.store.by_index(BY_CLUSTER, after.key))

    def _forget(self, key: Key) -> None:
        self._await_room(key, ())
        self._waiting.pop(key, None)
        self._to_preempt.pop(key, None)
        self.batches.pop(key, None)
        self._hold(key, {})
        self._gone(key)

    def _pod_changed(self, before: GatedPod | None, after: GatedPod | None) -> None:
        pod = after or before
        assert pod is not None
        if before is not None and after is not None and _facts(before) == _facts(after):
            return
        for key in gang_of(pod):
            if self._gangs.get(key) is not None:
                self._changed[key] = None
        if after is None:
            self.reported.pop(pod.metadata.uid, None)
            self._changed_pods.pop(pod.key, None)
            self._put(pod.key, ())
            return
        if not after.metadata.labels.get(KAI_QUEUE_LABEL):
            self._put(after.key, ())
        self._mark_pods([after])
        if self.ledger.waiters:
            self._read_pods()

    def _mark_pods(self, pods: Iterable[GatedPod]) -> None:
        """Those that KubeRay has put into a queue, as it does where it runs with KAI."""
        self._changed_pods |= {pod.key: None for pod in pods if pod.metadata.labels.get(KAI_QUEUE_LABEL)}

    def _template_changed(self, before: PodTemplate | None, after: PodTemplate | None) -> None:
        """A placeholder set begins and ends with its templates."""
        some = after or before
        if some is not None and is_asked_by_pods(some):
            self._made_changed(before, after)

    def _made_changed(self, before: Belonging | None, after: Belonging | None) -> None:
        for item in (before, after):
            for key in CLUSTERS.keys_of(item) if item else ():
                if self._gangs.get(key) is not None:
                    self._changed[key] = None

    def _priority_changed(self, before: PriorityClass | None, after: PriorityClass | None) -> None:
        self._seen_policy = self

    # What is read

    def _update(self, own: Key, now: datetime) -> None:
        """The policy and priorities concern all of them; they change when a person changes them."""
        policy = self._policy()
        if self._seen_policy is not policy:
            self._seen_policy = policy
            self._mark_pods(self._pods.store)
            self._changed |= {each.key: None for each in self._gangs}
        self._read_pods()
        super()._update(own, now)

    def _read_pods(self) -> None:
        while self._changed_pods:
            key = next(iter(self._changed_pods))
            del self._changed_pods[key]
            if (pod := self._pods.get(key)) is not None:
                self._put(key, self._usage_of(pod))

    def _usage_of(self, pod: GatedPod) -> Iterator[QueueUsage]:
        """Pods that wait without a gate of ours and without our release count for nothing: KAI may never
        start them.
        """
        if is_finished(pod) or is_gated(pod) or not (is_bound(pod) or is_released(pod)):
            return
        try:
            yield QueueUsage(demand=self._queue_demand(pod), is_bound=is_bound(pod))
        except ValueError:
            return  # Not ours to judge: KAI counts it when it starts it.

    def _positions_of(self, key: Key, now: datetime) -> Iterator[TurnPosition]:
        snapshot = self._read(key, now)
        batches = _begun_batches(snapshot) if snapshot else ()
        found = {batch.batch.attempt: (batch, batch.reserved_usage) for batch in batches}
        begun = self._begun.get(key)
        if begun is not None and not _has_begun_to_pass(found.get(begun.batch.attempt)):
            found[begun.batch.attempt] = begun, begun.intended_usage
        self.batches[key] = tuple(batch for batch, _ in found.values())
        self._hold(key, {attempt: usage for attempt, (_, usage) in found.items()})
        for batch, _ in found.values():
            position = batch.turn_position() if batch is begun or batch.is_in_turn_order else None
            if position is not None:
                yield position
        # One that was seen waiting by a cache that lagged may have asked long before.
        yield from (each for each in self._waiting.get(key, ()) if each.uid not in found)
        yield from snapshot.taking if snapshot else ()

    def _hold(self, key: Key, usage: Mapping[str, tuple[QueueUsage, ...]]) -> None:
        """The attempts of the cluster that take something of their queues, and no others."""
        for attempt in self._attempts.pop(key, set()) - usage.keys():
            self._put(attempt, ())
        for attempt, taken in usage.items():
            self._put(attempt, taken)
        if usage:
            self._attempts[key] = set(usage)
        if not self.batches.get(key):
            self.batches.pop(key, None)

    def _read(self, key: Key, now: datetime) -> ClusterSnapshot | None:
        """None where nothing of it has begun."""
        cluster = self._gangs.get(key)
        has_begun = (
            self._requests.store.by_index(BY_OWNER, key)
            or self._pods.store.by_index(RELEASED, key)
            or any(map(is_asked_by_pods, self._templates.store.by_index(BY_OWNER, key)))
        )
        if cluster is None or cluster.metadata.deletion_timestamp or not has_begun:
            return None
        return self._base_snapshot(cluster, now)


def _begun_batches(snapshot: ClusterSnapshot) -> list[BatchSnapshot]:
    try:
        batches = snapshot.batch_snapshots
    except ValueError:
        return []
    return [batch for batch in batches if (batch.turn or batch.batch.ungated) and batch.is_readable]


def _has_begun_to_pass(found: tuple[BatchSnapshot, object] | None) -> bool:
    return found is not None and bool(found[0].batch.ungated)


def _facts(pod: GatedPod) -> tuple[object, ...]:
    """What anything here depends on; most changes of a running pod are of other things."""
    meta = pod.metadata
    return is_finished(pod), is_gated(pod), pod.spec.node_name, meta.annotations, meta.labels, meta.uid
