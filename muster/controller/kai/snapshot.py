"""A gang and its batches at one moment: plain data and questions about it.

Responsible for which requests belong to which batch: those of a waiting batch, those that released pods
consume, and those that are no longer needed. The view reads the caches, decide.py decides.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Final

from muster.controller.gangs.attempt import Attempt
from muster.controller.gangs.broken_nodes import Sign
from muster.controller.gangs.capacity_claims import unpinned_demand
from muster.controller.gangs.identity import ATTEMPT, digest, promised_by, request_name, request_of_template
from muster.controller.gangs.lease import as_past
from muster.controller.gangs.limits import subject_of
from muster.controller.gangs.objects import Belonging, Placeholder, PodTemplate, ProvisioningRequest
from muster.controller.gangs.placeholder_sets import PlaceholderSet
from muster.controller.gangs.retry import RetryHistory, parse_history
from muster.controller.gangs.split import Gang, RequestSpec, split
from muster.controller.gangs.surroundings import ALONE, Surroundings
from muster.controller.gangs.turn_order import Line, TurnPosition
from muster.controller.kai.groups import Batch, batches, is_kept_whole, needed
from muster.controller.kai.labels import (
    CLUSTER_UID,
    LEADER,
    SIZE,
    group_of,
    is_bound,
    is_gated,
    is_owned,
    is_preemptible,
    lasting_part_of,
    part_of,
    pool_of,
    preempts_since,
    priority_of,
    queue_of,
)
from muster.controller.kai.ledger import Ledger
from muster.controller.kai.objects import GangOwner, GatedPod, PriorityClass
from muster.controller.kai.pod_groups import PodGroupDemand, amounts_of, gpu_size, pod_group_demands
from muster.controller.kai.preemption import (
    Claimant,
    Part,
    Preemption,
    Rivals,
    RunningGang,
    preemption_of,
)
from muster.controller.kai.queue_capacity import (
    QueueDemand,
    QueueOrder,
    QueueUsage,
    Shortfall,
    Turn,
    demands_by_queue,
)
from muster.model.gangpolicy import GangPolicy, KaiPolicy, OverQuota
from muster.model.kai import NON_PREEMPTIBLE
from muster.model.quantities import read_count

_LAST: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class ClusterSnapshot:
    """One Ray cluster, or other work. `pods` are its live ones; `requests`, `templates` and `placeholders`
    all that carry its uid.
    """

    cluster: GangOwner
    now: datetime
    policy: GangPolicy | None
    pods: tuple[GatedPod, ...] = ()
    requests: tuple[ProvisioningRequest, ...] = ()
    templates: tuple[PodTemplate, ...] = ()
    placeholders: tuple[Placeholder, ...] = ()
    ending: tuple[GatedPod, ...] = ()
    """Pods of whatever cluster that were deleted and still have their nodes."""
    broken: Mapping[str, Sign] = field(default_factory=dict)
    """The nodes with its pods because of which it queues again."""
    gone: frozenset[str] = frozenset()
    """The nodes with its pods that are there no more."""
    priorities: Mapping[str, PriorityClass] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    """The queues and what is taken of them, by this cluster too. It goes on changing: decide at once."""
    rivals: Rivals = field(default_factory=Rivals)
    """What runs that KAI might take for it."""
    surroundings: Surroundings = ALONE
    line: Line = field(default_factory=Line)
    """The split gangs that have begun to request or wait for their turn. It goes on changing, too."""
    retry_delay: timedelta = timedelta(0)
    """How long its next attempt waits for those of other gangs."""
    reported: Mapping[str, datetime] = field(default_factory=dict)
    """When words on a pod last took the place of others, by its uid."""

    @property
    def is_finished(self) -> bool:
        return self.cluster.metadata.deletion_timestamp is not None

    def noted(self, part: str = "") -> RetryHistory:
        """The history of its pods, for those that follow them. `part`: which of its gangs'."""
        return replace(parse_history(self.cluster, part=part), nodes_missing=None)

    @property
    def broken_since(self) -> datetime | None:
        """Since when it has run on a broken node, as it was noted."""
        return as_past(parse_history(self.cluster).nodes_missing, now=self.now)

    @property
    def wants_retry(self) -> bool:
        """The backoff of a batch has ended, and the batch has not requested capacity again."""
        try:
            return not self.is_finished and any(batch.wants_retry for batch in self.batch_snapshots)
        except ValueError:
            return False  # The decision meets it too, and reports it.

    def with_retry_delay(self, delay: timedelta) -> "ClusterSnapshot":
        return replace(self, retry_delay=delay)

    @cached_property
    def batch_snapshots(self) -> tuple["BatchSnapshot", ...]:
        """One for each batch that waits. Raises ValueError for a cluster that KAI refuses to group."""
        leaders = {item.metadata.labels.get(LEADER, "") for item in self.requests}
        return tuple(
            self._batch_snapshot(batch) for batch in batches(self.cluster, self.pods, leaders=leaders)
        )

    def _batch_snapshot(self, batch: Batch) -> "BatchSnapshot":
        snapshot = BatchSnapshot(
            cluster_snapshot=self,
            batch=batch,
            full_batch=batch,
            now=self.now,
            policy=self.policy,
            requests=tuple(item for item in self.requests if _attempt(item) == batch.attempt),
            templates=tuple(item for item in self.templates if _attempt(item) == batch.attempt),
            placeholders=tuple(item for item in self.placeholders if _attempt(item) == batch.attempt),
            surroundings=self.surroundings,
        )
        sizes = [item.metadata.labels.get(SIZE, "") for item in snapshot.requests]
        sizes += [pod.metadata.annotations.get(SIZE, "") for pod in batch.ungated]
        size = read_count(next(iter(sizes), ""), most_digits=9)
        # A scale-up that has requested capacity, or begun to pass, keeps its size.
        if batch.unit and size is not None and size < len(batch.pods):
            return replace(snapshot, batch=batch.first(size))
        return snapshot

    @cached_property
    def released(self) -> Mapping[str, tuple[GatedPod, ...]]:
        """The pods that have passed, by the request that they consume."""
        found: dict[str, list[GatedPod]] = {}
        for pod in self.pods:
            name = promised_by(pod.metadata.annotations)
            if name and not is_gated(pod):
                found.setdefault(name, []).append(pod)
        return {name: tuple(pods) for name, pods in found.items()}

    def unneeded(
        self, *, kept: set[str]
    ) -> tuple[list[ProvisioningRequest], list[PodTemplate], list[Placeholder]]:
        """What belongs to no waiting attempt (`kept`) and what no pod that has passed consumes.

        A template goes with its request: it owns it, or it is what a placeholder set is known by.
        """
        past = [item for item in self.requests if _attempt(item) not in kept]
        in_use = {item.metadata.name for item in past} & self.released.keys()
        return (
            [item for item in past if item.metadata.name not in in_use],
            [
                item
                for item in self.templates
                if _attempt(item) not in kept and request_of_template(item.metadata.name) not in in_use
            ],
            [item for item in self.placeholders if _attempt(item) not in kept],
        )

    @property
    def preempting(self) -> tuple[tuple[GatedPod, ...], ...]:
        """Its pods that KAI is to make room for and that no node has yet, by attempt."""
        found: dict[str, list[GatedPod]] = {}
        for pod in self.pods:
            if preempts_since(pod) and not (is_gated(pod) or is_bound(pod)):
                found.setdefault(pod.metadata.annotations.get(ATTEMPT, ""), []).append(pod)
        return tuple(map(tuple, found.values()))

    @property
    def taking(self) -> Iterator[TurnPosition]:
        """Its gangs that KAI makes room for in pools by placeholders. What comes free there is theirs before
        that of gangs which KAI may take: kube-scheduler binds their placeholders before KAI looks again.
        """
        policy = self.policy or GangPolicy()
        for pods in self.preempting:
            flavors = map(policy.flavor, {pool_of(pod, self.cluster) for pod in pods})
            pools = frozenset(each.name for each in flavors if each and each.by_placeholders)
            yield TurnPosition(
                uid=f"{pods[0].metadata.annotations.get(ATTEMPT, '')}-takes",
                since=min(since for pod in pods if (since := preempts_since(pod))),
                priority=max(priority_of(pods[0], self.cluster, self.priorities), NON_PREEMPTIBLE),
                pools=pools,
                short=pools,
                by_pods=pools,
            )

    def stranded(self, request: str) -> tuple[GatedPod, ...]:
        """Pods that have passed for this request and that no node has yet."""
        return tuple(pod for pod in self.released.get(request, ()) if not is_bound(pod))


@dataclass(frozen=True, kw_only=True)
class BatchSnapshot(Attempt):
    """One batch of a gang and its present attempt."""

    cluster_snapshot: ClusterSnapshot
    batch: Batch
    full_batch: Batch
    """The batch before it was cut to what it has requested, or to what has room."""
    preempts: bool = False
    """It passes now, for KAI to make room."""

    @property
    def cluster(self) -> GangOwner:
        return self.cluster_snapshot.cluster

    @cached_property
    def history(self) -> RetryHistory:
        return parse_history(self.batch.leader)

    @property
    def part(self) -> str:
        """By which the history of its pods is kept on its object."""
        return lasting_part_of(self.batch.leader, self.cluster)

    @property
    def shares_note(self) -> bool:
        """Its pods may follow those of another gang of its object, and have one history with them there."""
        return part_of(self.batch.leader, self.cluster) != self.part

    @property
    def gang_pods(self) -> tuple[GatedPod, ...]:
        """All of its gang."""
        return tuple(self._of_its_gang(self.cluster_snapshot.pods))

    @property
    def own_ending(self) -> tuple[GatedPod, ...]:
        """Pods of its gang that are still ending: KubeRay makes none in their place before they have."""
        ending = self.cluster_snapshot.ending
        return tuple(self._of_its_gang(pod for pod in ending if is_owned(pod, self.cluster)))

    def _of_its_gang(self, pods: Iterable[GatedPod]) -> Iterator[GatedPod]:
        part = part_of(self.batch.leader, self.cluster)
        return (pod for pod in pods if part_of(pod, self.cluster) == part)

    @cached_property
    def pod_group_demands(self) -> tuple[PodGroupDemand, ...]:
        return pod_group_demands(self.batch.pods, self.cluster, self.policy or GangPolicy())

    @cached_property
    def gang(self) -> Gang:
        found = (group_demand.demand for group_demand in self.pod_group_demands)
        return split(found, annotations=self.cluster.metadata.annotations)

    @property
    def is_readable(self) -> bool:
        """A batch that is not reports it itself; the cluster's others are not affected."""
        try:
            _ = self.gang, self.queue_demands
        except ValueError:
            return False
        return True

    @property
    def refusal_subject(self) -> str:
        """What a refusal of it is about. Raises ValueError."""
        policy = self.policy or GangPolicy()
        demands = [
            group_demand.demand
            for group_demand in pod_group_demands(self.full_batch.pods, self.cluster, policy)
        ]
        sizes = [sorted(demand.needs.amounts.items()) for demand in demands]
        return digest(
            subject_of(split(demands, annotations=self.cluster.metadata.annotations), policy), repr(sizes)
        )

    @cached_property
    def labels(self) -> Mapping[str, str]:
        return {
            CLUSTER_UID: self.cluster.metadata.uid,
            ATTEMPT: self.batch.attempt,
            LEADER: self.batch.leader.metadata.uid,
            SIZE: str(len(self.batch.pods)),
        }

    def request_name(self, spec: RequestSpec) -> str:
        return request_name(self.cluster.metadata.uid, self.batch.attempt, spec.shape)

    def turn_position(self) -> TurnPosition | None:
        since = self.batch.leader.metadata.creation_timestamp
        return self._turn_position(uid=self.batch.attempt, since=since, priority=self.priority)

    def in_line(self) -> "BatchSnapshot":
        """The same, where it is known whether its turn has come."""
        position = None if self.is_provisioned else self.turn_position()
        if position is None:
            return self
        line = self.cluster_snapshot.line
        must_wait, must_give_way = line.must_wait(position), line.must_give_way(position)
        around = replace(self.surroundings, must_wait=must_wait, must_give_way=must_give_way)
        return replace(self, surroundings=around)

    @property
    def wants_retry(self) -> bool:
        """Its backoff has ended, and it has not requested again."""
        retry_at = self.history.retry_at
        return retry_at is not None and retry_at <= self.now and not self.requests and not self.batch.ungated

    @property
    def was_recalled(self) -> bool:
        """Its first try is older than all of its pods: KAI has placed those before them nowhere. Before its
        next try it takes no room from others.
        """
        first = self.history.first_try
        return first is not None and all(first < self._made(pod) for pod in self.batch.pods)

    @property
    def made(self) -> datetime:
        """When its leader was made."""
        return self._made(self.batch.leader)

    def _made(self, pod: GatedPod) -> datetime:
        return pod.metadata.creation_timestamp or self.now

    @property
    def turn(self) -> Turn | None:
        """Since when it provisions capacity; None while it has requested nothing."""
        asked = [item.metadata.creation_timestamp or self.now for item in self.requests]
        return (min(asked), self.batch.attempt) if asked else None

    @property
    def is_in_turn_order(self) -> bool:
        """Whether gangs that share a pool wait for it: it gathers. One that waits for room in its queue, or
        for its next try, delays no other gang: what still runs of the gang behind it may hold that very room.
        """
        return self.turn is not None and not self.batch.ungated and not self.batch.missing_reason

    @cached_property
    def queue_demands(self) -> tuple[QueueDemand, ...]:
        """What its pods take of their queues. Raises ValueError."""
        return self._queue_demands(self.batch.pods)

    @property
    def keeps_capacity(self) -> bool:
        """While it passes: nothing that was promised to it is gone. Its placeholders go before its gates, and
        the taint keeps their nodes.
        """
        asked = [self.current.get(spec.shape) for spec in self.gang.request_specs]
        return all(
            request is not None
            and (isinstance(request, PlaceholderSet) or request.status.holds("Provisioned"))
            for request in asked
        )

    @property
    def reserved_usage(self) -> tuple[QueueUsage, ...]:
        """What it holds of its queues before its pods are released: nothing until it requests. Once it has
        begun to pass, the rest of it precedes all others. Raises ValueError.
        """
        if self.batch.ungated:
            return _usage(self._queue_demands(self.batch.gated))
        return self._gathered(self.turn) if self.turn else ()

    @property
    def intended_usage(self) -> tuple[QueueUsage, ...]:
        """What it holds from the decision that begins it until the caches show the writes."""
        passes = self.preempts or not self.gang.request_specs or self.is_provisioned
        if passes:
            return _usage(self.queue_demands)
        return self._gathered(self.turn or (self.now, self.batch.attempt))

    def _gathered(self, turn: Turn) -> tuple[QueueUsage, ...]:
        priority = self.priority if self.gives_way else None
        return _usage(self.queue_demands, turn=turn, priority=priority)

    @property
    def gives_way(self) -> bool:
        """To gangs of a higher priority that wait for its queue: not once it has all of its nodes."""
        return not (self.requests and self.is_provisioned)

    def _queue_demands(self, pods: Sequence[GatedPod]) -> tuple[QueueDemand, ...]:
        return tuple(demands_by_queue(queue_demand_of(pod, self.cluster_snapshot) for pod in pods))

    @property
    def priority(self) -> int:
        snapshot = self.cluster_snapshot
        return priority_of(self.batch.leader, snapshot.cluster, snapshot.priorities)

    @property
    def is_within_quota(self) -> bool:
        """Whether its own queues stay within their quotas with it, whatever lies above. Raises ValueError."""
        ledger, holder = self.cluster_snapshot.ledger, self.batch.attempt
        return all(
            ledger.is_within_quota(demand, holder=holder, turn=self.turn) for demand in self.queue_demands
        )

    @cached_property
    def queue_order(self) -> QueueOrder:
        since = self.batch.leader.metadata.creation_timestamp or self.now
        return -self.priority, since, self.batch.attempt

    @property
    def awaits_nodes(self) -> bool:
        return self.is_in_turn_order and not self.is_provisioned

    @property
    def pools(self) -> frozenset[str]:
        return frozenset(spec.pool for spec in self.gang.request_specs)

    @cached_property
    def preemption(self) -> Preemption | None:
        """How KAI would make room for all of it; None where it would not, or might not. Only of what KAI
        starts as a whole. Raises ValueError.
        """
        around, policy = self.cluster_snapshot, self.policy
        queues = {demand.queue for demand in self.queue_demands}
        if (
            not (around.rivals.gangs or around.rivals.left)
            or policy is None
            or self.batch.unit
            or self.batch.refills
            or not is_kept_whole(self.cluster)
        ):
            return None
        if len(queues) != 1:
            return None
        specs = self.gang.request_specs
        claimant = Claimant(
            queue=next(iter(queues)),
            priority=self.priority,
            demands=self.queue_demands,
            pods=tuple(unpinned_demand(demand) for spec in specs for demand in spec.demands),
            holder=self.batch.attempt,
            turn=self.turn,
            over_quota=(policy.kai or KaiPolicy()).over_quota,
        )
        return preemption_of(claimant, around.rivals, around.ledger, now=self.now)

    @property
    def must_wait_to_preempt(self) -> bool:
        """Another gang takes room in one of its pools first: both would count on the same."""
        return bool(self.pools & self.cluster_snapshot.rivals.takers)

    def nodes_late_at(self, policy: GangPolicy, *, for_turn: bool) -> datetime | None:
        """From when its nodes count as late; None before it has requested any."""
        after = (policy.kai or KaiPolicy()).preempt_after
        if self.turn is not None:
            return None if self.is_provisioned else self.turn[0] + after
        if for_turn:
            return (self.batch.leader.metadata.creation_timestamp or self.now) + after
        if self._exceeds_limit:
            return self.now
        in_use = self.cluster_snapshot.rivals.in_use
        is_full = any(
            spec.flavor.max_nodes and in_use.get(spec.pool, 0) + spec.count > spec.flavor.max_nodes
            for spec in self.gang.request_specs
            if not spec.shares_nodes
        )
        return self.now if is_full else None

    @property
    def _exceeds_limit(self) -> bool:
        """KAI starts it only once other work of its queues has gone, on whatever nodes."""
        if not self.cluster_snapshot.rivals.gangs:
            return False
        demands = [replace(demand, is_preemptible=True) for demand in self.queue_demands]
        return self.cluster_snapshot.ledger.shortfall(demands, over_quota=OverQuota.ALLOW) is not None

    def shortfall(self, policy: GangPolicy) -> Shortfall | None:
        """Why its queue has no room for it. Raises ValueError."""
        return self.cluster_snapshot.ledger.shortfall(
            self.queue_demands,
            holder=self.batch.attempt,
            turn=self.turn,
            order=self.queue_order if self.gives_way else None,
            over_quota=(policy.kai or KaiPolicy()).over_quota,
        )


def _usage(
    demands: Sequence[QueueDemand], *, turn: Turn | None = None, priority: int | None = None
) -> tuple[QueueUsage, ...]:
    return tuple(QueueUsage(demand=demand, turn=turn, priority=priority) for demand in demands)


def queue_demand_of(pod: GatedPod, cluster_snapshot: ClusterSnapshot) -> QueueDemand:
    """What one pod of the cluster takes of its queue. Raises ValueError."""
    return queue_demand(
        pod, cluster_snapshot.cluster, cluster_snapshot.policy or GangPolicy(), cluster_snapshot.priorities
    )


def queue_demand(
    pod: GatedPod,
    cluster: GangOwner | None,
    policy: GangPolicy,
    priorities: Mapping[str, PriorityClass],
) -> QueueDemand:
    return QueueDemand(
        queue=queue_of(pod, cluster),
        amounts=amounts_of(pod, gpu_size(pod, cluster, policy)),
        is_preemptible=is_preemptible(pod, cluster, priorities),
    )


def running_gang(
    cluster: GangOwner,
    placed: Sequence[GatedPod],
    policy: GangPolicy,
    priorities: Mapping[str, PriorityClass],
) -> RunningGang:
    """What of a gang has nodes. Raises ValueError for one that KAI refuses to group."""
    oldest_first = sorted(placed, key=lambda pod: (pod.status.start_time or _LAST, pod.metadata.name))
    least = dict(needed(cluster)) if is_kept_whole(cluster) else {}
    minimum, above = list[GatedPod](), list[GatedPod]()
    for pod in oldest_first:
        group = group_of(pod)
        (minimum if least.get(group, 0) > 0 else above).append(pod)
        least[group] = least.get(group, 0) - 1
    moments = [pod.status.start_time for pod in placed]
    started = max((each for each in moments if each), default=None) if all(moments) else None
    return RunningGang(
        cluster=cluster.key,
        queue=queue_of(placed[0], cluster),
        priority=priority_of(placed[0], cluster, priorities),
        is_preemptible=all(is_preemptible(pod, cluster, priorities) for pod in placed),
        parts=tuple(
            Part(
                pods=tuple(pods),
                demands=tuple(queue_demand(pod, cluster, policy, priorities) for pod in pods),
            )
            for pods in (*([minimum] if minimum else ()), *([pod] for pod in above))
        ),
        started=started,
    )


def _attempt(item: Belonging) -> str:
    return item.metadata.labels.get(ATTEMPT, "")
