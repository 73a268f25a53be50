"""Everything that a decision about one Ray cluster is made from, at one moment.

Decides which requests belong to which batch: those of a batch that still waits, those that released pods
consume, and those that nobody needs any more. Plain data and plain questions about it; reading the caches is
the view's, deciding is the machine's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property

from muster.controller.gangs.attempt import Attempt
from muster.controller.gangs.identity import ATTEMPT, digest, request_name, request_of_template
from muster.controller.gangs.objects import Node, Pod, PodTemplate, ProvisioningRequest
from muster.controller.gangs.retry import History, history
from muster.controller.gangs.split import Ask, Gang, split
from muster.controller.gangs.turn_order import Place
from muster.controller.gangs.unsatisfiable import about
from muster.controller.gangs.verify import Wanted
from muster.controller.kai.batches import Batch, batches
from muster.controller.kai.labels import (
    CLUSTER_UID,
    LEADER,
    SIZE,
    is_bound,
    is_gated,
    is_preemptible,
    queue_of,
)
from muster.controller.kai.objects import GatedPod, PriorityClass, Queue, RayCluster
from muster.controller.kai.pod_groups import Piece, amounts_of, gpu_size, pieces
from muster.controller.kai.queue_capacity import Held, Need, Turn, needs_by_queue
from muster.model.gangpolicy import GangPolicy
from muster.model.names import CONSUME_ANNOTATION


@dataclass(frozen=True, kw_only=True)
class Scene:
    """One Ray cluster. `pods` are its live ones; `requests` and `templates` all that carry its uid."""

    cluster: RayCluster
    now: datetime
    policy: GangPolicy | None
    pods: tuple[GatedPod, ...] = ()
    requests: tuple[ProvisioningRequest, ...] = ()
    templates: tuple[PodTemplate, ...] = ()
    queues: Mapping[str, Queue] = field(default_factory=dict)
    priorities: Mapping[str, PriorityClass] = field(default_factory=dict)
    held: tuple[Held, ...] = ()
    """What others hold of the queues; what other batches of this cluster gather is not among it."""
    nodes: tuple[Node, ...] = ()
    running: tuple[Pod, ...] = ()
    claims: tuple[Wanted, ...] = ()
    others: tuple[Place, ...] = ()
    pace: timedelta = timedelta(0)
    """How long a next try has to wait for the tries of others."""

    @property
    def is_over(self) -> bool:
        return self.cluster.metadata.deletion_timestamp is not None

    @cached_property
    def situations(self) -> tuple["Situation", ...]:
        """One for each batch that waits. Raises ValueError for a cluster that KAI refuses to group."""
        leaders = {item.metadata.labels.get(LEADER, "") for item in self.requests}
        return tuple(self._situation(batch) for batch in batches(self.cluster, self.pods, leaders=leaders))

    def _situation(self, batch: Batch) -> "Situation":
        mine = Situation(
            scene=self,
            batch=batch,
            uncut=batch,
            now=self.now,
            policy=self.policy,
            requests=tuple(item for item in self.requests if _attempt(item) == batch.attempt),
            templates=tuple(item for item in self.templates if _attempt(item) == batch.attempt),
            nodes=self.nodes,
            pods=self.running,
            claims=self.claims,
            others=self.others,
        )
        said = [item.metadata.labels.get(SIZE, "") for item in mine.requests]
        said += [pod.metadata.annotations.get(SIZE, "") for pod in batch.lifted]
        size = next(iter(said), "")
        # A growing batch that has asked, or begun to pass, stays as large as it was then.
        is_fixed = batch.unit and size.isdecimal() and int(size) < len(batch.pods)
        return replace(mine, batch=batch.first(int(size))) if is_fixed else mine

    @cached_property
    def released(self) -> Mapping[str, tuple[GatedPod, ...]]:
        """The pods that have passed, by the request that they consume."""
        found: dict[str, list[GatedPod]] = {}
        for pod in self.pods:
            name = pod.metadata.annotations.get(CONSUME_ANNOTATION, "")
            if name and not is_gated(pod):
                found.setdefault(name, []).append(pod)
        return {name: tuple(pods) for name, pods in found.items()}

    def unneeded(self, *, kept: set[str]) -> tuple[list[ProvisioningRequest], list[PodTemplate]]:
        """What belongs to no waiting attempt (`kept`) and what no pod that has passed consumes.

        A template goes with its request: it owns it.
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
        )

    def stranded(self, request: str) -> tuple[GatedPod, ...]:
        """Pods that have passed for this request and that no node has yet."""
        return tuple(pod for pod in self.released.get(request, ()) if not is_bound(pod))


@dataclass(frozen=True, kw_only=True)
class Situation(Attempt):
    """One batch of a Ray cluster and its present attempt."""

    scene: Scene
    batch: Batch
    uncut: Batch
    """The batch before it was cut to what it has asked for, or to what has room."""

    @property
    def cluster(self) -> RayCluster:
        return self.scene.cluster

    @cached_property
    def past(self) -> History:
        return history(self.batch.leader)

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        return pieces(self.batch.pods, self.cluster, self.policy or GangPolicy())

    @cached_property
    def gang(self) -> Gang:
        found = (piece.demand for piece in self.pieces)
        return split(found, wishes=self.cluster.metadata.annotations)

    @property
    def about(self) -> str:
        """What a refusal of it is about. Raises ValueError."""
        policy = self.policy or GangPolicy()
        demands = [piece.demand for piece in pieces(self.uncut.pods, self.cluster, policy)]
        sizes = [sorted(demand.needs.amounts.items()) for demand in demands]
        return digest(about(split(demands, wishes=self.cluster.metadata.annotations), policy), repr(sizes))

    @cached_property
    def labels(self) -> Mapping[str, str]:
        return {
            CLUSTER_UID: self.cluster.metadata.uid,
            ATTEMPT: self.batch.attempt,
            LEADER: self.batch.leader.metadata.uid,
            SIZE: str(len(self.batch.pods)),
        }

    def request_name(self, ask: Ask) -> str:
        return request_name(self.cluster.metadata.uid, self.batch.attempt, ask.shape)

    def place(self) -> Place | None:
        since = self.batch.leader.metadata.creation_timestamp
        return self._place(uid=self.batch.attempt, name=str(self.cluster.key), since=since)

    @property
    def wants_back(self) -> bool:
        """Its pause is over, and it has not asked again yet."""
        retry_at = self.past.retry_at
        return retry_at is not None and retry_at <= self.now and not self.requests and not self.batch.lifted

    @property
    def turn(self) -> Turn | None:
        """Since when it gathers capacity; None while it has asked for nothing."""
        asked = [item.metadata.creation_timestamp or self.now for item in self.requests]
        return (min(asked), self.batch.attempt) if asked else None

    @property
    def stands_in_line(self) -> bool:
        """Whether gangs that share a pool wait for it: it gathers. One that waits for room in its queue, or
        for its next try, holds nobody up: what still runs of the gang behind it may hold that very room.
        """
        return self.turn is not None and not self.batch.lifted and not self.batch.lacks

    @property
    def needs(self) -> tuple[Need, ...]:
        """What its pods take of their queues. Raises ValueError."""
        return tuple(needs_by_queue(need_of(pod, self.scene) for pod in self.batch.pods))

    @property
    def holdings(self) -> tuple[Held, ...]:
        """What it holds of its queues before its pods are released: nothing until it asks. Once it has begun
        to pass, the rest of it goes before everybody. Raises ValueError.
        """
        pods, turn = (self.batch.gated, None) if self.batch.lifted else (self.batch.pods, self.turn)
        if turn is None and not self.batch.lifted:
            return ()
        needs = needs_by_queue(need_of(pod, self.scene) for pod in pods)
        return tuple(Held(need=need, turn=turn) for need in needs)

    @cached_property
    def held(self) -> tuple[Held, ...]:
        """What everybody else holds, other batches of this cluster among them."""
        siblings = [other for other in self.scene.situations if other.batch.attempt != self.batch.attempt]
        return (*self.scene.held, *(each for other in siblings for each in other.holdings))


def need_of(pod: GatedPod, scene: Scene) -> Need:
    """What one pod of the cluster takes of its queue. Raises ValueError."""
    return need(pod, scene.cluster, scene.policy or GangPolicy(), scene.priorities)


def need(
    pod: GatedPod,
    cluster: RayCluster | None,
    policy: GangPolicy,
    priorities: Mapping[str, PriorityClass],
) -> Need:
    return Need(
        queue=queue_of(pod, cluster),
        amounts=amounts_of(pod, gpu_size(pod, cluster, policy)),
        is_preemptible=is_preemptible(pod, cluster, priorities),
    )


def _attempt(item: ProvisioningRequest | PodTemplate) -> str:
    return item.metadata.labels.get(ATTEMPT, "")
