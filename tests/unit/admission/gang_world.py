"""A cluster on paper: Kueue, an autoscaler and nodes, on virtual time, around the real state machine.

The world holds API objects and nothing else. It carries out actions as the executor does; Kueue and the cloud
take their steps between. Nothing here shares code with the programs that it stands for.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import msgspec

from controller.admission.actions import Action, Decision, Note, SetEntry, State, Steer, StepIn, StepOut
from controller.admission.machine import decide
from controller.admission.objects import (
    Admission,
    CheckEntry,
    EvictionCount,
    FlavorSpec,
    PodSet,
    PodSetAssignment,
    ResourceFlavor,
    SchedulingStats,
    Workload,
    WorkloadSpec,
    WorkloadStatus,
)
from controller.admission.situation import Situation
from controller.admission.steering import avoided
from controller.admission.steering import pod_sets as steered_pod_sets
from controller.gangs.actions import CreateRequest, CreateTemplates, Delete, Hold, Tell
from controller.gangs.identity import template_name
from controller.gangs.line import Place
from controller.gangs.missing import is_settled
from controller.gangs.objects import (
    Belonging,
    Condition,
    Container,
    Node,
    NodeSpec,
    NodeStatus,
    Placeholder,
    Pod,
    PodSpec,
    PodTemplate,
    PodTemplateSpec,
    ProvisioningRequest,
    ProvisioningRequestSpec,
    ProvisioningRequestStatus,
    RequestedPodSet,
    ResourceNeeds,
    Taint,
    TemplateReference,
    Toleration,
)
from controller.gangs.placeholders import named
from controller.gangs.promises import Claim
from controller.gangs.retry import annotations
from controller.kube.resource import ObjectMeta
from model.gangpolicy import DetailSelector, FlavorPolicy, GangPolicy, RetryPolicy
from model.names import GKE_LEASE_DETAIL, GKE_LEASE_LABEL, GKE_QUEUED_CLASS, POOL_LABEL

START = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
CHECK = "gang"
GPU_TAINT = Taint(key="nvidia.com/gpu", effect="NoSchedule", value="present")

replace = msgspec.structs.replace


def flavor_policy(name: str, scarcity: int, **changes: object) -> FlavorPolicy:
    lease = DetailSelector(key=GKE_LEASE_LABEL, detail=GKE_LEASE_DETAIL)
    fields = {
        "name": name,
        "provisioning_class_name": GKE_QUEUED_CLASS,
        "node_selector_from_details": (lease,),
        "max_nodes": 8,
        "gpus_per_node": 1,
        "scarcity": scarcity,
        **changes,
    }
    return FlavorPolicy(**fields)  # type: ignore[arg-type]  # the test's own keywords


POLICY = GangPolicy(
    queue_timeout=timedelta(hours=2),
    retry=RetryPolicy(deadline=timedelta(days=3)),
    flavors=(flavor_policy("l4", 10), flavor_policy("h100", 100)),
)

FLAVORS = {
    name: ResourceFlavor(
        metadata=ObjectMeta(name=name),
        spec=FlavorSpec(
            node_labels={POOL_LABEL: name},
            tolerations=(Toleration(key="nvidia.com/gpu", operator="Exists", effect="NoSchedule"),),
        ),
    )
    for name in ("l4", "h100", "cpu")
}


def pod_spec(gpus: int) -> PodSpec:
    requests: dict[str, str | int | float] = {"cpu": "1", "memory": "1Gi"}
    if gpus:
        requests["nvidia.com/gpu"] = str(gpus)
    return PodSpec(containers=(Container(resources=ResourceNeeds(requests=requests)),))


def workload(name: str, pieces: dict[str, tuple[str, int]]) -> Workload:
    """`pieces`: PodSet -> (flavor, count). A PodSet of flavor cpu asks for no GPU."""
    pod_sets = tuple(
        PodSet(name=pod_set, count=count, template=PodTemplateSpec(spec=pod_spec(0 if pool == "cpu" else 1)))
        for pod_set, (pool, count) in pieces.items()
    )
    entry = CheckEntry(name=CHECK, last_transition_time=START)
    return Workload(
        metadata=ObjectMeta(name=name, namespace="team-a", uid=f"uid-{name}", resource_version="1"),
        spec=WorkloadSpec(pod_sets=pod_sets),
        status=WorkloadStatus(admission_checks=(entry,)),
    )


def assignment(pieces: dict[str, tuple[str, int]]) -> Admission:
    return Admission(
        cluster_queue="team-a",
        pod_set_assignments=tuple(
            PodSetAssignment(name=pod_set, count=count, flavors={"cpu": pool, "nvidia.com/gpu": pool})
            for pod_set, (pool, count) in pieces.items()
        ),
    )


def node(name: str, pool: str, lease: str = "", *, ready: bool = True) -> Node:
    conditions = (Condition(type="Ready", status="True" if ready else "False"),)
    labels = {POOL_LABEL: pool} | ({GKE_LEASE_LABEL: lease} if lease else {})
    return Node(
        metadata=ObjectMeta(name=name, uid=f"uid-{name}", labels=labels),
        spec=NodeSpec(taints=() if pool == "cpu" else (GPU_TAINT,)),
        status=NodeStatus(
            conditions=conditions,
            allocatable={"cpu": "4", "memory": "16Gi", "pods": "20", "nvidia.com/gpu": "1"},
        ),
    )


def with_condition(
    conditions: tuple[Condition, ...],
    kind: str,
    status: str,
    now: datetime,
    reason: str = "",
    message: str = "",
) -> tuple[Condition, ...]:
    old = next((condition for condition in conditions if condition.type == kind), None)
    moment = old.last_transition_time if old and old.status == status else now
    new = Condition(type=kind, status=status, reason=reason, message=message, last_transition_time=moment)
    return (*(condition for condition in conditions if condition.type != kind), new)


class Crash(Exception):
    """The controller dies between two writes."""


@dataclass
class World:
    """The API server's content and the time."""

    policy: GangPolicy = POLICY
    now: datetime = START
    flavors: dict[str, ResourceFlavor] = field(default_factory=lambda: FLAVORS)
    stock: dict[str, int] = field(default_factory=lambda: {"l4": 1, "h100": 1})
    delay: dict[str, timedelta] = field(default_factory=dict)
    quota: int = 100
    runtime: timedelta = timedelta(minutes=20)
    pieces: dict[str, dict[str, tuple[str, int]]] = field(default_factory=dict)
    workloads: dict[str, Workload] = field(default_factory=dict)
    requests: dict[str, ProvisioningRequest] = field(default_factory=dict)
    templates: dict[str, PodTemplate] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    placeholders: dict[str, Placeholder] = field(default_factory=dict)
    queue_flavors: tuple[tuple[str, ...], ...] = ()
    idle: dict[str, datetime] = field(default_factory=dict)
    told: list[Tell] = field(default_factory=list)
    started: dict[str, datetime] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    writes: int = 0
    crash_after: int | None = None
    everything_made: list[tuple[str, str]] = field(default_factory=list)
    wakes: dict[str, datetime] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def submit(self, name: str, pieces: dict[str, tuple[str, int]]) -> None:
        self.pieces[name] = pieces
        self.workloads[name] = workload(name, pieces)

    # The controller

    def situation(self, name: str) -> Situation:
        mine = self._plain(name)
        others = tuple(place for other in self.workloads if other != name and (place := self._place(other)))
        seen = dataclasses.replace(
            mine, others=others, nodes=tuple(self.nodes.values()), pods=tuple(self.pods.values())
        )
        stands = seen.runs or (seen.is_growth and seen.is_gathering)
        return dataclasses.replace(seen, lacks_pods=stands and not self._is_settled(seen))

    def _is_settled(self, seen: Situation) -> bool:
        return is_settled(seen.standing, seen.carried, nodes=seen.nodes, pods=seen.pods, ended=seen.ended)

    def _plain(self, name: str) -> Situation:
        uid = self.workloads[name].metadata.uid
        return Situation(
            check=CHECK,
            workload=self.workloads[name],
            now=self.now,
            policy=self.policy,
            flavors=self.flavors,
            queue_flavors=self.queue_flavors,
            requests=tuple(item for item in self.requests.values() if _uid(item) == uid),
            templates=tuple(item for item in self.templates.values() if _uid(item) == uid),
            placeholders=tuple(item for item in self.placeholders.values() if _uid(item) == uid),
        )

    def _place(self, name: str) -> Place | None:
        other = self._plain(name)
        is_whole = other.entry is not None and other.entry.state == "Ready"
        return other.place() if other.is_gathering and not is_whole else None

    def reconcile(self, name: str) -> Decision:
        decision = decide(self.situation(name))
        for action in decision.actions:
            self._carry_out(name, action)
        return decision

    def reconcile_blind(self) -> None:
        """Everybody decides before the cache shows that there is anybody else."""
        decisions = {
            name: decide(dataclasses.replace(self.situation(name), others=())) for name in self.workloads
        }
        for name, decision in decisions.items():
            for action in decision.actions:
                self._carry_out(name, action)

    def settle(self) -> None:
        """Reconcile everything until nothing is left to do; one that never settles fails the test."""
        for _ in range(40):
            busy = [self._quietly(name) for name in sorted(self.workloads)]
            if not any(busy):
                return
        raise AssertionError("the controller writes for ever")

    def _quietly(self, name: str) -> bool:
        try:
            return bool(self.reconcile(name).actions)
        except Crash:
            return True

    def _carry_out(self, name: str, action: Action) -> None:
        if isinstance(action, Tell):
            self.told.append(action)
            return
        if self.crash_after is not None and self.writes >= self.crash_after:
            self.crash_after = None
            raise Crash
        self.writes += 1
        held = self.workloads[name]
        match action:
            case SetEntry(state=state, message=message, updates=updates):
                entry = CheckEntry(name=CHECK, state=state, message=message, pod_set_updates=updates)
                self._status(name, admission_checks=(entry,))
            case StepOut(history=history) | StepIn(history=history) | Note(history=history):
                notes = {**held.metadata.annotations}
                for key, value in annotations(history).items():
                    notes.pop(key, None)
                    if value is not None:
                        notes[key] = value
                active = {StepOut: False, StepIn: True}.get(type(action), held.spec.active)
                self.workloads[name] = replace(
                    held,
                    metadata=replace(held.metadata, annotations=notes),
                    spec=replace(held.spec, active=active),
                )
            case Steer(pools=pools, policy=policy):
                assert not held.status.holds("QuotaReserved"), "Kueue's webhook refuses it"
                applied = steered_pod_sets(held, pools, policy) if pools else ()
                wanted = {each["name"]: each["template"]["spec"] for each in applied}
                self.workloads[name] = replace(held, spec=replace(held.spec, pod_sets=_steered(held, wanted)))
            case CreateTemplates(request=request, ask=ask, labels=labels):
                for number in range(len(ask.demands)):
                    key = template_name(request, number)
                    if key not in self.templates:
                        self.templates[key] = PodTemplate(metadata=self._meta(key, labels))
            case CreateRequest(name=key, ask=ask, labels=labels):
                assert key not in self.requests
                names = [template_name(key, number) for number in range(len(ask.demands))]
                assert set(names) <= set(self.templates), "a request before its templates"
                self.everything_made.append((name, key))
                pod_sets = tuple(
                    RequestedPodSet(pod_template_ref=TemplateReference(name=template), count=demand.count)
                    for template, demand in zip(names, ask.demands, strict=True)
                )
                self.requests[key] = ProvisioningRequest(
                    metadata=replace(self._meta(key, labels), annotations={"pool": ask.pool}),
                    spec=ProvisioningRequestSpec(
                        pod_sets=pod_sets,
                        provisioning_class_name=ask.flavor.provisioning_class_name,
                        parameters=dict(ask.parameters),
                    ),
                )
            case Hold(promised=promised, labels=labels, request=request, ask=ask):
                for key, index in named(request, ask):
                    claim = promised[index].claim
                    assert claim is not None
                    self._bind(key, lease_of(claim), claim.annotations)  # or it waits for a node
                    if key not in self.placeholders:
                        self.placeholders[key] = Placeholder(metadata=self._meta(key, labels))
            case Delete(kind="ProvisioningRequest", name=key):
                self.requests.pop(key, None)
            case Delete(kind="PodTemplate", name=key):
                self.templates.pop(key, None)
            case Delete(name=key):
                self.placeholders.pop(key, None)
                self.pods.pop(key, None)

    def _meta(self, name: str, labels: object) -> ObjectMeta:
        return ObjectMeta(
            name=name,
            namespace="team-a",
            uid=f"uid-{next(self._numbers)}",
            creation_timestamp=self.now,
            labels=dict(labels),  # type: ignore[call-overload]  # a Mapping of texts
        )

    # Kueue

    def kueue(self) -> None:
        for name in sorted(self.workloads):
            self._kueue_one(name)

    def _kueue_one(self, name: str) -> None:
        held = self.workloads[name]
        status = held.status
        if status.holds("Finished"):
            return
        if not held.spec.active and not status.holds("QuotaReserved"):
            self._status(name, admission_checks=())  # 0.19.2 takes them off; adds them with the next quota
            return
        entry = held.entry(CHECK) or CheckEntry(name=CHECK)
        if status.holds("QuotaReserved") and not held.spec.active:
            self.evict(name, "Deactivated")
        elif status.holds("QuotaReserved") and entry.state == "Retry":
            self.evict(name, "AdmissionCheck")
        elif status.holds("QuotaReserved") and entry.state == "Rejected":
            self.workloads[name] = replace(held, spec=replace(held.spec, active=False))
            self.evict(name, "DeactivatedDueToAdmissionCheck")
        elif status.holds("QuotaReserved") and entry.state == "Ready" and not status.holds("Admitted"):
            self.check_ready(name)
            self.set_condition(name, "Admitted", "True")
            self.started[name] = self.now
            self._schedule(name)
        elif held.spec.active and not status.holds("QuotaReserved") and self._used() < self.quota:
            pieces = {
                key: (self._flavor(held, pool), count) for key, (pool, count) in self.pieces[name].items()
            }
            self._status(name, admission=assignment(pieces), admission_checks=(entry,))
            self.set_condition(name, "QuotaReserved", "True")
            self.set_condition(name, "Evicted", "False")

    def _flavor(self, held: Workload, pool: str) -> str:
        """The first of the queue that the PodSets do not keep away from."""
        group = next((group for group in self.queue_flavors if pool in group), (pool,))
        return next(name for name in group if name not in avoided(held))

    def _used(self) -> int:
        return sum(
            held.status.holds("QuotaReserved") and not held.status.holds("Finished")
            for held in self.workloads.values()
        )

    def evict(self, name: str, reason: str) -> None:
        """At once: reset our entry as Kueue does, leaving out what it does not own; the quota is free."""
        held = self.workloads[name]
        entry = held.entry(CHECK)
        assert entry is not None
        counted = held.status.scheduling_stats or SchedulingStats()
        count = sum(item.count for item in counted.evictions) + 1
        self._status(
            name,
            admission=None,
            admission_checks=(replace(entry, state="Pending", message=f"Reset. Previously: {entry.state}"),),
            scheduling_stats=SchedulingStats(evictions=(EvictionCount(count=count),)),
        )
        for kind, value in (("Evicted", "True"), ("QuotaReserved", "False"), ("Admitted", "False")):
            self.set_condition(name, kind, value, reason)
        self.started.pop(name, None)
        self._stop_pods(name)

    def check_ready(self, name: str) -> None:
        """The oracle: whatever is admitted stands whole."""
        mine = self._plain(name)
        assert not mine.placeholders, f"{name} is Ready and placeholders stand where its pods will"
        for ask in mine.gang.asks:
            request = mine.current.get(ask.shape)
            assert request is not None, f"{name} is Ready without a request for {ask.shape}"
            assert request.status.holds("Provisioned"), f"{name} is Ready before {ask.shape} is provisioned"
            lease = request.status.provisioning_class_details.get(GKE_LEASE_DETAIL)
            standing = [
                item
                for item in self.nodes.values()
                if item.metadata.labels.get(GKE_LEASE_LABEL) == lease and item.status.holds("Ready")
            ]
            assert len(standing) >= ask.count, f"{name} is Ready with {len(standing)} of {ask.count} nodes"

    # The cloud

    def cloud(self) -> None:
        """Provision whole requests while stock lasts, oldest first; nodes go with their request."""
        leases = {
            request.status.provisioning_class_details.get(GKE_LEASE_DETAIL)
            for request in self.requests.values()
        }
        for name, held in list(self.nodes.items()):
            if held.metadata.labels.get(GKE_LEASE_LABEL, "") not in leases | {""}:
                del self.nodes[name]
        self._scale_down()
        for name, request in list(self.requests.items()):
            pool = request.metadata.annotations["pool"]
            if not request.status.conditions:
                self.answer(name, "Accepted")
                continue
            since = request.status.since("Accepted")
            waited = since is not None and self.now - since >= self.delay.get(pool, timedelta(0))
            count = request.spec.pod_sets[0].count
            if not request.status.holds("Provisioned") and waited and self.free(pool) >= count:
                self.provision(name)
            booked = request.status.since("Provisioned")
            if (
                booked
                and self.now - booked >= timedelta(minutes=10)
                and _owner(self, request) not in self.started
            ):
                self.answer(name, "BookingExpired", "BookingExpired")

    def _scale_down(self) -> None:
        """A node that is booked no more and runs nothing for ten minutes goes."""
        used = {pod.spec.node_name for pod in self.pods.values()}
        over = {
            request.status.provisioning_class_details.get(GKE_LEASE_DETAIL)
            for request in self.requests.values()
            if request.status.holds("BookingExpired")
        }
        for name, held in list(self.nodes.items()):
            if name in used or held.metadata.labels.get(GKE_LEASE_LABEL) not in over:
                self.idle.pop(name, None)
            elif self.now - self.idle.setdefault(name, self.now) >= timedelta(minutes=10):
                del self.nodes[name]

    def free(self, pool: str) -> int:
        return self.stock[pool] - sum(
            item.metadata.labels[POOL_LABEL] == pool for item in self.nodes.values()
        )

    def provision(self, name: str, *, ready: bool = True) -> None:
        request = self.requests[name]
        lease, pool = f"lease-{name}", request.metadata.annotations["pool"]
        for number in range(request.spec.pod_sets[0].count):
            key = f"{lease}-{number}"
            self.nodes[key] = node(key, pool, lease, ready=ready)
        self.answer(name, "Provisioned")
        request = self.requests[name]
        details = {GKE_LEASE_DETAIL: lease}
        self.requests[name] = replace(
            request, status=replace(request.status, provisioning_class_details=details)
        )

    def answer(self, name: str, kind: str, reason: str = "", message: str = "") -> None:
        request = self.requests[name]
        conditions = with_condition(request.status.conditions, kind, "True", self.now, reason, message)
        status = ProvisioningRequestStatus(
            conditions=conditions, provisioning_class_details=request.status.provisioning_class_details
        )
        self.requests[name] = replace(request, status=status)

    # Jobs and time

    def jobs(self) -> None:
        """A job makes progress while every pod of it that needs a lease has a node."""
        for name, since in list(self.started.items()):
            stands = self._schedule(name)
            if stands and self.now - since >= self.runtime:
                self.set_condition(name, "Finished", "True")
                del self.started[name]
                self._stop_pods(name)
                self.ended.append(name)

    def _schedule(self, name: str) -> bool:
        """Bind what is not bound, to nodes of its lease; a pod whose node is gone is made anew."""
        entry = self.workloads[name].entry(CHECK)
        stands = True
        for update in entry.pod_set_updates if entry else ():
            lease = update.node_selector.get(GKE_LEASE_LABEL, "")
            count = next(
                item.count for item in self.workloads[name].spec.pod_sets if item.name == update.name
            )
            for number in range(count):
                stands = self._bind(f"{name}/{update.name}-{number}", lease, update.annotations) and stands
        return stands

    def _bind(self, key: str, lease: str, annotations: Mapping[str, str]) -> bool:
        bound = self.pods.get(key)
        if bound is not None and bound.spec.node_name in self.nodes:
            return True
        self.pods.pop(key, None)
        taken = {pod.spec.node_name for pod in self.pods.values()}
        for item in self.nodes.values():
            free = item.metadata.name not in taken and item.status.holds("Ready")
            if free and item.metadata.labels.get(GKE_LEASE_LABEL) == lease:
                spec = replace(pod_spec(1), node_name=item.metadata.name)
                meta = ObjectMeta(name=key, namespace="team-a", annotations=dict(annotations))
                self.pods[key] = Pod(metadata=meta, spec=spec)
                return True
        return False

    def _stop_pods(self, name: str) -> None:
        for key in [key for key in self.pods if key.startswith(f"{name}/")]:
            del self.pods[key]

    def tick(self, step: timedelta = timedelta(minutes=1)) -> None:
        self.now += step
        self.jobs()
        self.settle()
        self.cloud()
        self.settle()
        self.kueue()
        self.settle()

    def set_condition(self, name: str, kind: str, status: str, reason: str = "") -> None:
        conditions = self.workloads[name].status.conditions
        self._status(name, conditions=with_condition(conditions, kind, status, self.now, reason))

    def _status(self, name: str, **changes: object) -> None:
        held = self.workloads[name]
        self.workloads[name] = replace(held, status=replace(held.status, **changes))

    def holds_half(self) -> list[str]:
        """Split gangs that hold some of their nodes, lack others, and do not run."""
        found = []
        for name in self.workloads:
            mine = self._plain(name)
            if not mine.is_gathering or not mine.gang.is_split:
                continue
            got = [request.status.holds("Provisioned") for request in mine.current.values()]
            if any(got) and not (all(got) and len(got) == len(mine.gang.asks)):
                found.append(name)
        return found


def _steered(held: Workload, wanted: Mapping[str, object]) -> tuple[PodSet, ...]:
    """As server-side apply does it: our affinity where we name one, none where we name none any more."""
    found = []
    for each in held.spec.pod_sets:
        said = msgspec.convert(wanted.get(each.name, {}), PodSpec)
        spec = replace(each.template.spec, affinity=said.affinity)
        found.append(replace(each, template=replace(each.template, spec=spec)))
    return tuple(found)


def lease_of(claim: Claim) -> str:
    return claim.node_selector.get(GKE_LEASE_LABEL, "")


def _uid(item: Belonging) -> str:
    return item.metadata.labels["muster.dev/workload-uid"]


def _owner(world: World, request: ProvisioningRequest) -> str:
    return _uid(request).removeprefix("uid-")


def entry_state(world: World, name: str) -> State:
    entry = world.workloads[name].entry(CHECK)
    assert entry is not None
    return State(entry.state)
