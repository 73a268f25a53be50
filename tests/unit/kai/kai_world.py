"""A KAI cluster on paper: Ray clusters, KubeRay, KAI's queues and scheduler, a cloud and nodes, on virtual
time.

The world holds API objects and nothing else. It carries out actions as the executor does; KubeRay, KAI and
the cloud take their steps between. Nothing here shares code with the programs that it stands for.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from fractions import Fraction
from typing import Any, ClassVar

import msgspec

from muster.controller.gangs.broken_nodes import is_closed_by
from muster.controller.gangs.identity import ATTEMPT
from muster.controller.gangs.objects import (
    Affinity,
    Container,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PodTemplate,
    ProvisioningRequest,
    Requirement,
    ResourceNeeds,
    Taint,
    Toleration,
)
from muster.controller.gangs.retry import to_annotations
from muster.controller.gangs.surroundings import Surroundings
from muster.controller.gangs.taints import closed_for
from muster.controller.gangs.turn_order import Line, TurnPosition
from muster.controller.gangs.usage import used_by
from muster.controller.gangs.verify import is_tolerated
from muster.controller.kai.actions import (
    Decision,
    DeleteRunning,
    DeleteUnbound,
    PatchAnnotations,
    PatchCluster,
    Ungate,
)
from muster.controller.kai.decide import decide
from muster.controller.kai.labels import CLUSTER_UID, STATUS, is_bound, is_gated, is_released, priority_of
from muster.controller.kai.ledger import Ledger
from muster.controller.kai.objects import (
    COUNTED_WORK,
    RAY_CLUSTER,
    CountedWork,
    GangOwner,
    Gate,
    GatedPod,
    GatedSpec,
    GatedStatus,
    PriorityClass,
    Queue,
    QueueSpec,
    QueueStatus,
    RayCluster,
    RayClusterSpec,
    Share,
    Shares,
    WorkerGroup,
)
from muster.controller.kai.preemption import HOSTNAME
from muster.controller.kai.queue_capacity import QueueDemand, QueueUsage
from muster.controller.kai.snapshot import BatchSnapshot, ClusterSnapshot, queue_demand
from muster.controller.kube.resource import Key, ObjectMeta, OwnerReference
from muster.controller.runtime.informer import Informer
from muster.model.gangpolicy import FlavorPolicy, GangPolicy, KaiPolicy, RetryPolicy
from muster.model.names import (
    CONSUME_ANNOTATION,
    GANG_GATE,
    GKE_LEASE_LABEL,
    GPU_RESOURCE,
    HELD_TAINT_KEY,
    POOL_LABEL,
)
from tests.unit.gangs.cached import cached
from tests.unit.gangs.paper import GPU_TAINT, Paper, flavor_policy, node, size_of

TAINTS = (GPU_TAINT, Taint(key="cloud.google.com/gke-queued", effect="NoSchedule", value="true"))
NO_BOUND = Share(quota=-1, limit=-1)
PRIORITIES = {
    name: PriorityClass(metadata=ObjectMeta(name=name), value=value)
    for name, value in (("train", 50), ("build-preemptible", 75), ("build", 100), ("inference", 125))
}

replace = msgspec.structs.replace


POLICY = GangPolicy(
    queue_timeout=timedelta(hours=2),
    retry=RetryPolicy(deadline=timedelta(days=3)),
    flavors=(
        flavor_policy("l4", 10, max_nodes=16, gpu_memory=24_576),
        flavor_policy("h100", 100, max_nodes=16, gpu_memory=24_576),
        FlavorPolicy(name="cpu", verify_nodes=False),
    ),
    kai=KaiPolicy(),
)


@dataclass(frozen=True)
class Group:
    """A group of a Ray cluster: pods of one GPU each, or of a part of one, in a pool."""

    pool: str
    replicas: int = 1
    minimum: int = 0
    hosts: int = 1
    fraction: str = ""
    memory: str = ""


def queue(name: str, *, quota: float, limit: float | None = None, parent: str = "") -> Queue:
    """Limited to its quota where nothing is said, as the stack renders a team that borrows nothing."""
    gpu = Share(quota=quota, limit=quota if limit is None else limit)
    return Queue(
        metadata=ObjectMeta(name=name),
        spec=QueueSpec(parent_queue=parent, resources=Shares(gpu=gpu, cpu=NO_BOUND, memory=NO_BOUND)),
    )


@dataclass
class World(Paper[Decision]):
    """With Ray clusters, their pods and KAI's queues."""

    namespace: ClassVar[str] = "ns"
    policy: GangPolicy = POLICY
    stock: dict[str, int] = field(default_factory=lambda: {"l4": 4, "h100": 4})
    delay: timedelta = timedelta(minutes=1)
    queues: dict[str, Queue] = field(default_factory=dict)
    clusters: dict[str, GangOwner] = field(default_factory=dict)
    groups: dict[str, dict[str, Group]] = field(default_factory=dict)
    pods: dict[str, GatedPod] = field(default_factory=dict)
    most_requested: int = 0
    schedules: bool = True
    """Whether KAI places anything at the moment."""

    # What users do

    def submit(
        self,
        name: str,
        groups: dict[str, Group],
        *,
        queue: str = "team-a",
        kind: str = "RayCluster",
        **labels: str,
    ) -> None:
        """`groups`: the head of a Ray cluster is named `headgroup`. A controller makes the pods at its next
        step.
        """
        marks = {"kai.scheduler/queue": queue, **labels}
        metadata = ObjectMeta(
            name=name, namespace="ns", uid=f"uid-{name}", labels=marks, creation_timestamp=self.now
        )
        if kind == "RayCluster":
            self.clusters[name] = RayCluster(metadata=metadata, spec=_spec(groups))
        else:
            self.clusters[name] = COUNTED_WORK[kind].type(metadata=metadata, spec=_SPECS[kind](groups))
        self.groups[name] = groups

    def begin(self, name: str, groups: dict[str, Group], **labels: str) -> None:
        """Its pods are made, and the controller decides on them."""
        self.submit(name, groups, **labels)
        self.kuberay()
        self.settle()

    def resize(self, name: str, group: str, replicas: int) -> None:
        groups = self.groups[name] | {group: dataclasses.replace(self.groups[name][group], replicas=replicas)}
        self.groups[name] = groups
        held = self.clusters[name]
        assert isinstance(held, RayCluster)
        self.clusters[name] = replace(held, spec=_spec(groups))

    def end(self, name: str) -> None:
        del self.clusters[name], self.groups[name]
        for key in [key for key, pod in self.pods.items() if _owner(pod) == f"uid-{name}"]:
            del self.pods[key]
        # Garbage collection: templates have the cluster as their owner, requests the templates.
        for items in (self.requests, self.templates):
            for key in [key for key, item in items.items() if _made_for(item) == f"uid-{name}"]:
                del items[key]

    # KubeRay

    def kuberay(self, most: int = 1000) -> None:
        for name, groups in self.groups.items():
            for group, shape in groups.items():
                have = sum(
                    _owner(pod) == f"uid-{name}" and pod.metadata.labels[_GROUP] == group
                    for pod in self.pods.values()
                )
                for _ in range(min(most, shape.replicas * shape.hosts - have)):
                    self._make_pod(name, group, shape)

    def _make_pod(self, cluster: str, group: str, shape: Group) -> None:
        name = f"{cluster}-{group}-{next(self._numbers):04}"
        held = self.clusters[cluster]
        kind = _kind(held)
        maker, end = _MAKERS.get(kind, (kind, ""))
        owner = OwnerReference(kind=maker, name=f"{cluster}{end}", uid=f"uid-{cluster}", controller=True)
        requests: dict[str, str | int | float] = {"cpu": "1", "memory": "1Gi"}
        notes = {"gpu-fraction": shape.fraction} if shape.fraction else {}
        notes |= {"gpu-memory": shape.memory} if shape.memory else {}
        if shape.pool != "cpu" and not notes:
            requests[GPU_RESOURCE] = "1"
        labels = {
            **_LABELS[kind](cluster, group),
            _GROUP: group,
            "kai.scheduler/queue": held.metadata.labels["kai.scheduler/queue"],
        }
        self.pods[name] = GatedPod(
            metadata=ObjectMeta(
                name=name,
                namespace="ns",
                uid=f"uid-{name}",
                creation_timestamp=self.now,
                labels=labels,
                annotations=notes,
                owner_references=(owner,),
            ),
            spec=GatedSpec(
                containers=(Container(resources=ResourceNeeds(requests=requests)),),
                node_selector={POOL_LABEL: shape.pool},
                scheduling_gates=(Gate(name=GANG_GATE),),
            ),
            status=GatedStatus(phase="Pending"),
        )

    # The controller

    def snapshot(self, name: str) -> ClusterSnapshot:
        seen = {other: self._plain(other) for other in self.clusters}
        gathering = [each for other in seen.values() for each in _situations(other)]
        usage: dict[Hashable, Sequence[QueueUsage]] = {
            each.batch.attempt: each.reserved_usage for each in gathering if each.is_readable
        }
        for key, pod in self.pods.items():
            if is_bound(pod) or is_released(pod):
                usage[key] = [QueueUsage(demand=self._need(pod), is_bound=is_bound(pod))]
        line = Line(
            (
                *(place for each in gathering if (place := _place(each)) is not None),
                *(taking for other in seen.values() for taking in other.taking),
            )
        )
        around = Surroundings(
            nodes=tuple(map(self.signs.judged, self.nodes.values())), used=used_by(self.pods.values())
        )

        def found(of: str) -> ClusterSnapshot:
            ledger = Ledger(self.queues.values(), usage)
            return dataclasses.replace(seen[of], ledger=ledger, line=line, surroundings=around)

        mine, own = self._priority(name), found(name)
        for other in seen:
            if self._priority(other) > mine:  # It may wait for room that this one holds.
                own.ledger.await_room(Key("ns", other), decide(found(other)).shortfalls)
        return own

    def _priority(self, name: str) -> int:
        return max((priority_of(pod, self.clusters[name], PRIORITIES) for pod in self.of(name)), default=0)

    def _plain(self, name: str) -> ClusterSnapshot:
        uid = f"uid-{name}"
        on = {pod.spec.node_name for pod in self.of(name)}
        return ClusterSnapshot(
            broken=self.signs.evicts(node for key, node in self.nodes.items() if key in on),
            gone=frozenset(on - self.nodes.keys() - {""}),
            cluster=self.clusters[name],
            now=self.now,
            policy=self.policy,
            pods=tuple(pod for pod in self.pods.values() if _owner(pod) == uid),
            requests=tuple(item for item in self.requests.values() if _made_for(item) == uid),
            templates=tuple(item for item in self.templates.values() if _made_for(item) == uid),
            priorities=PRIORITIES,
        )

    def _need(self, pod: GatedPod) -> QueueDemand:
        cluster = self.clusters[_owner(pod).removeprefix("uid-")]
        return queue_demand(pod, cluster, self.policy, PRIORITIES)

    def names(self) -> Iterable[str]:
        return self.clusters

    def decided(self, name: str, *, alone: bool = False) -> Decision:
        snapshot = self.snapshot(name)
        return decide(dataclasses.replace(snapshot, line=Line()) if alone else snapshot)

    def write(self, name: str, action: object) -> None:
        match action:
            case Ungate(pod=pod, annotations=notes, node_selector=selector, tolerations=added):
                self.check_standing(pod, notes)
                self._patch(pod, notes, selector=selector, added=added, lift=True, hosts=action.hosts)
            case PatchAnnotations(pod=pod, history=history, status=status):
                self._patch(pod, {**to_annotations(history), STATUS: status or None})
            case PatchCluster(history=history, part=part):
                held = self.clusters[name]
                changed: dict[str, str | None] = {
                    **held.metadata.annotations,
                    **to_annotations(history, part=part),
                }
                kept = {key: value for key, value in changed.items() if value is not None}
                self.clusters[name] = replace(held, metadata=replace(held.metadata, annotations=kept))
            case DeleteUnbound(pod=pod) | DeleteRunning(pod=pod):
                self.pods.pop(pod.metadata.name, None)
            case _:
                super().write(name, action)
        self.most_requested = max(self.most_requested, self.requested())

    def has_begun_to_pass(self, attempt: str) -> bool:
        passed = (each.metadata.annotations.get(ATTEMPT) for each in self.pods.values() if not is_gated(each))
        return attempt in passed

    def check_standing(self, pod: GatedPod, notes: Mapping[str, str]) -> None:
        """The oracle: no gate goes before everything that its attempt asked for is provisioned and stands."""
        flavor = self.policy.flavor(pod.spec.node_selector[POOL_LABEL])
        if flavor is None or not flavor.provisioning_class_name:
            return
        attempt = self.requests[notes[CONSUME_ANNOTATION]].metadata.labels[ATTEMPT]
        siblings = {
            key: item for key, item in self.requests.items() if item.metadata.labels[ATTEMPT] == attempt
        }
        for key, item in siblings.items():
            assert item.status.holds("Provisioned"), f"{pod.key} passes before {key} is provisioned"
            standing = [
                each
                for each in self.nodes.values()
                if each.metadata.labels.get(GKE_LEASE_LABEL) == f"lease-{key}" and each.status.holds("Ready")
            ]
            standing = [each for each in standing if self.signs.of(each) is None]
            assert len(standing) >= size_of(item)

    def _patch(
        self,
        pod: GatedPod,
        notes: object,
        *,
        selector: object = None,
        added: tuple[Toleration, ...] = (),
        lift: bool = False,
        hosts: tuple[str, ...] = (),
    ) -> None:
        held = self.pods.get(pod.metadata.name)
        if held is None:
            return
        merged = {**held.metadata.annotations, **dict(notes)}  # type: ignore[call-overload]  # a Mapping
        kept = {key: value for key, value in merged.items() if value is not None}
        spec = held.spec
        if lift:
            pinned = {**spec.node_selector, **dict(selector or {})}  # type: ignore[call-overload]  # a Mapping
            assert is_gated(held) or pinned == spec.node_selector, "a selector changed without a gate"
            gates = tuple(gate for gate in spec.scheduling_gates if gate.name != GANG_GATE)
            tolerated = (*spec.tolerations, *(each for each in added if each not in spec.tolerations))
            spec = replace(spec, node_selector=pinned, scheduling_gates=gates, tolerations=tolerated)
            spec = replace(spec, affinity=_only_on(hosts)) if hosts else spec
        self.pods[held.metadata.name] = replace(
            held, metadata=replace(held.metadata, annotations=kept), spec=spec
        )

    # The cloud

    def patience(self, pool: str) -> timedelta:
        return self.delay

    def is_used(self, name: str) -> bool:
        return any(_consumes(pod) == name and pod.spec.node_name for pod in self.pods.values())

    def new_node(self, name: str, pool: str, lease: str, *, ready: bool) -> Node:
        return node(name, pool, lease, ready=ready, cpus=8, taints=TAINTS)

    def take_away(self, node: str) -> None:
        super().take_away(node)
        for name in [name for name, pod in self.pods.items() if pod.spec.node_name == node]:
            del self.pods[name]

    def requested(self) -> int:
        """Nodes that live requests ask for."""
        return sum(map(size_of, self.requests.values()))

    # KAI

    def kai(self) -> None:
        """Bind whole gangs whose pods are all ungated and all fit, then tell what the queues hold."""
        for name in sorted(self.clusters) if self.schedules else ():
            self._place(name)
        for name, held in self.queues.items():
            total = sum(
                (self._gpus(pod) for pod in self.pods.values() if self._counts(pod, name)), Fraction(0)
            )
            status = QueueStatus(allocated={GPU_RESOURCE: str(float(total))})
            self.queues[name] = replace(held, status=status)

    def _place(self, name: str) -> None:
        groups = self.groups[name]
        is_apart = _kind(self.clusters[name]) in _APART
        for one in [{key: value} for key, value in groups.items()] if is_apart else [groups]:
            self._place_gang(name, one)

    def _place_gang(self, name: str, groups: dict[str, Group]) -> None:
        mine = [pod for pod in self.of(name) if pod.metadata.labels[_GROUP] in groups]
        for group, shape in groups.items():
            least = (shape.minimum or shape.replicas) * shape.hosts
            free = [pod for pod in mine if pod.metadata.labels[_GROUP] == group and not is_gated(pod)]
            if len(free) < least:
                return
        room = {key: self.room(key) for key in self.nodes}
        placed: dict[str, str] = {}
        for pod in mine:
            if is_gated(pod) or pod.spec.node_name:
                continue
            where = next((key for key in self.nodes if self._fits(pod, key, room[key])), None)
            if pod.spec.node_selector[POOL_LABEL] == "cpu":
                placed[pod.metadata.name] = "cpu-0"
            elif where is not None:
                room[where] -= self._gpus(pod)
                placed[pod.metadata.name] = where
        if not self._is_enough(groups, mine, placed):
            return
        for key, where in placed.items():
            pod = self.pods[key]
            status = GatedStatus(phase="Running", start_time=self.now)
            self.pods[key] = replace(pod, spec=replace(pod.spec, node_name=where), status=status)

    @staticmethod
    def _is_enough(groups: dict[str, Group], mine: Iterable[GatedPod], placed: Collection[str]) -> bool:
        """Whether the minimum of every group has a node with these."""
        on = Counter(
            pod.metadata.labels[_GROUP] for pod in mine if pod.spec.node_name or pod.metadata.name in placed
        )
        return all(
            on[group] >= (shape.minimum or shape.replicas) * shape.hosts for group, shape in groups.items()
        )

    def _fits(self, pod: GatedPod, key: str, room: Fraction) -> bool:
        held = self.nodes[key]
        labels = held.metadata.labels
        fits = all(labels.get(name) == value for name, value in pod.spec.node_selector.items())
        if closed_for(held) or is_closed_by(held, self.policy.broken_nodes.taints):
            return False
        own = {taint.key for taint in held.spec.taints if taint.key != HELD_TAINT_KEY}
        assert not fits or own <= {each.key for each in pod.spec.tolerations}, "sent where it may not run"
        fits = fits and (not (hosts := hosts_of(pod)) or labels.get(HOSTNAME) in hosts)
        kept = [taint for taint in held.spec.taints if taint.key == HELD_TAINT_KEY]
        may_enter = all(is_tolerated(taint, pod.spec.tolerations) for taint in kept)
        return fits and may_enter and held.status.holds("Ready") and room >= self._gpus(pod)

    def room(self, key: str) -> Fraction:
        return 1 - sum(
            (self._gpus(pod) for pod in self.pods.values() if pod.spec.node_name == key), Fraction(0)
        )

    def _counts(self, pod: GatedPod, name: str) -> bool:
        above = self.path(pod.metadata.labels["kai.scheduler/queue"])
        return bool(pod.spec.node_name) and name in above

    @staticmethod
    def _gpus(pod: GatedPod) -> Fraction:
        notes = pod.metadata.annotations
        if "gpu-fraction" in notes:
            return Fraction(notes["gpu-fraction"])
        if "gpu-memory" in notes:
            return Fraction(int(notes["gpu-memory"]), 24_576)
        return Fraction(str(pod.spec.containers[0].resources.requests.get(GPU_RESOURCE, 0)))

    # Time

    def tick(self, step: timedelta = timedelta(minutes=1)) -> None:
        self.now += step
        for part in (self.kuberay, self.settle, self.cloud, self.settle, self.kai, self.settle):
            part()

    def ticks(self, count: int) -> None:
        for _ in range(count):
            self.tick()

    # Questions

    def of(self, name: str) -> list[GatedPod]:
        return [pod for pod in self.pods.values() if _owner(pod) == f"uid-{name}"]

    def gated(self, name: str) -> int:
        return sum(is_gated(pod) for pod in self.of(name))

    def running(self, name: str) -> int:
        return sum(bool(pod.spec.node_name) for pod in self.of(name))

    def running_by_group(self, name: str) -> dict[str, int]:
        return dict(Counter(pod.metadata.labels[_GROUP] for pod in self.of(name) if pod.spec.node_name))

    def status(self, name: str) -> str:
        return " / ".join(
            pod.metadata.annotations[STATUS] for pod in self.of(name) if STATUS in pod.metadata.annotations
        )

    def promised(self, name: str) -> Fraction:
        """GPUs of a queue that pods have, were released for, or that live requests ask for on their behalf:
        what may not exceed its room. For whole GPUs only.
        """
        consumers = [pod for pod in self.pods.values() if not is_gated(pod)]
        mine = [pod for pod in consumers if name in self.path(pod.metadata.labels["kai.scheduler/queue"])]
        total = sum((self._gpus(pod) for pod in mine), Fraction(0))
        for key, request in self.requests.items():
            cluster = self.clusters.get(_made_for(request).removeprefix("uid-"))
            if cluster is None or name not in self.path(cluster.metadata.labels["kai.scheduler/queue"]):
                continue
            passed = sum(_consumes(pod) == key for pod in consumers)
            total += 0 if passed else size_of(request)
        return total

    def path(self, name: str) -> list[str]:
        found = []
        while name:
            found.append(name)
            name = self.queues[name].spec.parent_queue
        return found


def ray_clusters(here: World) -> Informer[RayCluster]:
    return cached(RAY_CLUSTER, [each for each in here.clusters.values() if isinstance(each, RayCluster)])


def other_work(here: World) -> tuple[Informer[CountedWork], ...]:
    work = [each for each in here.clusters.values() if isinstance(each, CountedWork)]
    return tuple(
        cached(resource, [each for each in work if each.kind.kind == kind])
        for kind, resource in COUNTED_WORK.items()
    )


def _only_on(hosts: tuple[str, ...]) -> Affinity:
    rule = Requirement(key=HOSTNAME, operator="In", values=hosts)
    terms = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(rule,)),))
    return Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=terms))


def hosts_of(pod: GatedPod) -> tuple[str, ...]:
    """The only nodes where it may go; none where it may go anywhere."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return required.node_selector_terms[0].match_expressions[0].values if required else ()


_GROUP = "world/group"
_APART = ("LeaderWorkerSet", "Deployment")
"""Of each group KAI makes a gang of its own."""
_MAKERS = {"LeaderWorkerSet": ("StatefulSet", "-0"), "Deployment": ("ReplicaSet", "-5d9")}
"""Who makes their pods."""
_LABELS: Mapping[str, Callable[[str, str], dict[str, str]]] = {
    "RayCluster": lambda name, group: {"ray.io/cluster": name, "ray.io/group": group},
    "Job": lambda name, _: {"batch.kubernetes.io/job-name": name},
    "JobSet": lambda name, group: {
        "jobset.sigs.k8s.io/jobset-name": name,
        "jobset.sigs.k8s.io/replicatedjob-name": group,
        "batch.kubernetes.io/job-name": f"{name}-{group}-0",
    },
    "PyTorchJob": lambda name, group: {
        "training.kubeflow.org/operator-name": "pytorchjob-controller",
        "training.kubeflow.org/job-name": name,
        "training.kubeflow.org/replica-type": group,
    },
    "MPIJob": lambda name, group: {
        "training.kubeflow.org/operator-name": "mpi-operator",
        "training.kubeflow.org/job-name": name,
        "training.kubeflow.org/job-role": group,
    },
    "LeaderWorkerSet": lambda name, group: {
        "leaderworkerset.sigs.k8s.io/name": name,
        "leaderworkerset.sigs.k8s.io/group-index": group,
    },
    "StatefulSet": lambda name, group: {},
    "Deployment": lambda name, group: {"pod-template-hash": "5d9"},
}
_SPECS: Mapping[str, Callable[[dict[str, Group]], dict[str, Any]]] = {
    "Job": lambda groups: {"parallelism": groups["main"].replicas, "template": {}},
    "JobSet": lambda groups: {
        "replicatedJobs": [
            {
                "name": name,
                "replicas": shape.replicas,
                "template": {"spec": {"parallelism": shape.hosts, "template": {}}},
            }
            for name, shape in groups.items()
        ]
    },
    "PyTorchJob": lambda groups: {"pytorchReplicaSpecs": _replicas(groups)},
    "MPIJob": lambda groups: {"mpiReplicaSpecs": _replicas(groups)},
    "LeaderWorkerSet": lambda groups: {
        "replicas": len(groups),
        "leaderWorkerTemplate": {
            "size": groups["0"].replicas,
            "leaderTemplate": {},
            "workerTemplate": {},
        },
    },
    "StatefulSet": lambda groups: {"replicas": groups["main"].replicas, "template": {}},
    "Deployment": lambda groups: {"replicas": len(groups), "template": {}},
}


def _kind(held: GangOwner) -> str:
    return "RayCluster" if isinstance(held, RayCluster) else held.kind.kind


def _replicas(groups: dict[str, Group]) -> dict[str, Any]:
    return {name.title(): {"replicas": shape.replicas, "template": {}} for name, shape in groups.items()}


def _spec(groups: dict[str, Group]) -> RayClusterSpec:
    return RayClusterSpec(
        worker_group_specs=tuple(
            WorkerGroup(
                group_name=name, replicas=shape.replicas, min_replicas=shape.minimum, num_of_hosts=shape.hosts
            )
            for name, shape in groups.items()
            if name != "headgroup"
        )
    )


def _owner(pod: GatedPod) -> str:
    return pod.metadata.owner_references[0].uid


def _made_for(item: ProvisioningRequest | PodTemplate) -> str:
    return item.metadata.labels[CLUSTER_UID]


def _consumes(pod: GatedPod) -> str:
    return pod.metadata.annotations.get(CONSUME_ANNOTATION, "")


def _situations(seen: ClusterSnapshot) -> tuple[BatchSnapshot, ...]:
    try:
        return seen.batch_snapshots
    except ValueError:
        return ()


def _place(each: BatchSnapshot) -> TurnPosition | None:
    try:
        return each.turn_position() if each.is_in_turn_order else None
    except ValueError:
        return None
