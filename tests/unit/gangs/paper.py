"""What clusters on paper share (admission/gang_world.py, kai/kai_world.py): the API server's requests, their
templates and the nodes, a cloud, virtual time, and a controller that may die between two writes.

How the scheduler and its jobs behave is each world's own. Nothing here shares code with the programs that it
stands for.
"""

import dataclasses
import itertools
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import msgspec

from muster.controller.gangs.actions import CreateRequest, CreateTemplates, Delete, EmitEvent
from muster.controller.gangs.broken_nodes import (
    FAILED_POD,
    RESOURCE_SLICE,
    NodeSigns,
    node_that_rejected,
    nodes_with_tainted_devices,
)
from muster.controller.gangs.identity import template_name
from muster.controller.gangs.indexes import BY_NODE
from muster.controller.gangs.objects import (
    Condition,
    Node,
    NodeSpec,
    NodeStatus,
    PodTemplate,
    ProvisioningRequest,
    ProvisioningRequestSpec,
    ProvisioningRequestStatus,
    RequestedPodSet,
    Taint,
    TemplateReference,
)
from muster.controller.gangs.outages import nodes_in_outage, silent_zone_of, zone_of
from muster.controller.gangs.templates import PARAMETERS, POOL
from muster.controller.kube.resource import ObjectMeta
from muster.model.gangpolicy import DetailSelector, FlavorPolicy, GangPolicy
from muster.model.names import GKE_LEASE_DETAIL, GKE_LEASE_LABEL, GKE_QUEUED_CLASS, GPU_RESOURCE, POOL_LABEL
from tests.unit.gangs.cached import cached

START = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
GPU_TAINT = Taint(key="nvidia.com/gpu", effect="NoSchedule", value="present")
BOOKING = timedelta(minutes=10)

replace = msgspec.structs.replace


def among(snapshot: Any, **changes: object) -> Any:
    """The same snapshot in other surroundings."""
    around = dataclasses.replace(snapshot.surroundings, **changes)
    return dataclasses.replace(snapshot, surroundings=around)


def silent_together(nodes: Iterable[Node]) -> frozenset[str]:
    """The nodes in outage, were these all that there are."""
    listed = tuple(nodes)
    known = Counter(zone for node in listed for zone in zone_of(node))
    silent = Counter(zone for node in listed for zone in silent_zone_of(node))
    return nodes_in_outage(listed, known=known, silent=silent)


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


def node(
    name: str,
    pool: str,
    lease: str = "",
    *,
    ready: bool = True,
    cpus: int = 4,
    taints: tuple[Taint, ...] = (GPU_TAINT,),
) -> Node:
    """One with a GPU, and 4 GiB of memory for each CPU."""
    labels = {POOL_LABEL: pool, "kubernetes.io/hostname": name} | ({GKE_LEASE_LABEL: lease} if lease else {})
    size: dict[str, str | int | float] = {
        "cpu": str(cpus),
        "memory": f"{4 * cpus}Gi",
        "pods": "20",
        GPU_RESOURCE: "1",
    }
    return Node(
        metadata=ObjectMeta(name=name, uid=f"uid-{name}", labels=labels),
        spec=NodeSpec(taints=() if pool == "cpu" else taints),
        status=NodeStatus(
            conditions=(Condition(type="Ready", status="True" if ready else "False"),), allocatable=size
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


class Decided(Protocol):
    """What a state machine of gangs gives back."""

    @property
    def actions(self) -> Sequence[object]: ...


D = TypeVar("D", bound=Decided)


@dataclass
class Paper(ABC, Generic[D]):
    """The API server's content and the time."""

    namespace: ClassVar[str]
    policy: GangPolicy
    stock: dict[str, int]
    now: datetime = START
    requests: dict[str, ProvisioningRequest] = field(default_factory=dict)
    templates: dict[str, PodTemplate] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    told: list[EmitEvent] = field(default_factory=list)
    writes: int = 0
    crash_after: int | None = None
    is_late: bool = False
    """What is written now was decided long ago, by a controller that has lost its lease."""
    everything_made: list[tuple[str, str]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    signs: NodeSigns = field(init=False)

    def __post_init__(self) -> None:
        failed = cached(FAILED_POD, (), **{BY_NODE: node_that_rejected})
        slices = cached(RESOURCE_SLICE, (), **{BY_NODE: nodes_with_tainted_devices})
        self.signs = NodeSigns(
            policy=lambda: self.policy, failed=failed, slices=slices, clock=lambda: self.now
        )

    def judged_node(self, name: str) -> Node | None:
        held = self.nodes.get(name)
        return self.signs.judged(held) if held else None

    # The controller

    @abstractmethod
    def names(self) -> Iterable[str]:
        """Whatever it reconciles."""

    @abstractmethod
    def decided(self, name: str, *, alone: bool = False) -> D:
        """`alone`: before the cache shows that there is anybody else."""

    def reconcile(self, name: str) -> D:
        decision = self.decided(name)
        for action in decision.actions:
            self.carry_out(name, action)
        return decision

    def reconcile_blind(self) -> None:
        """Everybody decides before anybody writes."""
        decisions = {name: self.decided(name, alone=True) for name in self.names()}
        for name, decision in decisions.items():
            for action in decision.actions:
                self.carry_out(name, action)

    def settle(self) -> None:
        """Reconcile everything until nothing is left to do; one that never settles fails the test."""
        for _ in range(60):
            busy = [self.quietly(name) for name in sorted(self.names())]
            if not any(busy):
                return
        raise AssertionError("the controller writes for ever")

    def still(self) -> None:
        """Nothing happens for a while: who waits says why."""
        self.now += timedelta(seconds=10)
        self.settle()

    def quietly(self, name: str) -> bool:
        """Whether there was something to do."""
        try:
            return bool(self.reconcile(name).actions)
        except Crash:
            return True

    def carry_out(self, name: str, action: object) -> None:
        if isinstance(action, EmitEvent):
            self.told.append(action)
            return
        if self.crash_after is not None and self.writes >= self.crash_after:
            self.crash_after = None
            raise Crash
        self.writes += 1
        self.write(name, action)

    def write(self, name: str, action: object) -> None:
        """As the executor does."""
        match action:
            case CreateTemplates(request=request, spec=spec, labels=labels):
                for number in range(len(spec.demands)):
                    key = template_name(request, number)
                    if key not in self.templates:
                        self.templates[key] = PodTemplate(metadata=self.meta(key, labels))
            case CreateRequest(name=key):
                assert key not in self.requests
                self.everything_made.append((name, key))
                self.requests[key] = self._request(action)
            case Delete(kind="ProvisioningRequest", name=key):
                self.requests.pop(key, None)
            case Delete(kind="PodTemplate", name=key):
                self.templates.pop(key, None)

    def _request(self, action: CreateRequest) -> ProvisioningRequest:
        spec = action.spec
        names = [template_name(action.name, number) for number in range(len(spec.demands))]
        # The cache of a late controller has those that are gone.
        assert self.is_late or set(names) <= set(self.templates), "a request before its templates"
        pod_sets = tuple(
            RequestedPodSet(pod_template_ref=TemplateReference(name=template), count=demand.count)
            for template, demand in zip(names, spec.demands, strict=True)
        )
        return ProvisioningRequest(
            metadata=replace(
                self.meta(action.name, action.labels),
                annotations={
                    "pool": spec.pool,
                    POOL: spec.pool,
                    PARAMETERS: ",".join(sorted(spec.parameters)),
                },
            ),
            spec=ProvisioningRequestSpec(
                pod_sets=pod_sets,
                provisioning_class_name=spec.flavor.provisioning_class_name,
                parameters=dict(spec.parameters),
            ),
        )

    def meta(self, name: str, labels: object) -> ObjectMeta:
        return ObjectMeta(
            name=name,
            namespace=self.namespace,
            uid=f"uid-{next(self._numbers)}",
            creation_timestamp=self.now,
            labels=dict(labels),  # type: ignore[call-overload]  # a Mapping of texts
        )

    # The cloud

    @abstractmethod
    def patience(self, pool: str) -> timedelta:
        """How long a request waits at least, once it is accepted."""

    @abstractmethod
    def is_used(self, name: str) -> bool:
        """Whether pods have taken what was booked for this request."""

    def new_node(self, name: str, pool: str, lease: str, *, ready: bool) -> Node:
        return node(name, pool, lease, ready=ready)

    def cloud(self) -> None:
        """Provision whole requests while stock lasts, oldest first; nodes go with their request."""
        leases = {f"lease-{name}" for name in self.requests}
        for key, held in list(self.nodes.items()):
            if held.metadata.labels.get(GKE_LEASE_LABEL, "") not in leases | {""}:
                self.take_away(key)
        for name in self.served(list(self.requests)):
            self._serve(name)

    def served(self, names: list[str]) -> list[str]:
        """Those of the requests, oldest first, that it looks at now, and in which order."""
        return names

    def take_away(self, node: str) -> None:
        del self.nodes[node]

    def _serve(self, name: str) -> None:
        request = self.requests[name]
        status, pool = request.status, request.metadata.annotations["pool"]
        booked = status.since("Provisioned")
        since = None if booked or status.holds("Failed") else status.since("Accepted")
        fits = self.free(pool) >= size_of(request)
        if not status.conditions:
            self.answer(name, "Accepted")
        elif since and self.now - since >= self.patience(pool) and fits:
            self.provision(name)
        if booked and self.now - booked >= BOOKING and not self.is_used(name):
            self.answer(name, "BookingExpired", "BookingExpired")

    def free(self, pool: str) -> int:
        return self.stock[pool] - sum(
            each.metadata.labels[POOL_LABEL] == pool for each in self.nodes.values()
        )

    def provision(self, name: str, *, ready: bool = True) -> None:
        request = self.requests[name]
        lease, pool = f"lease-{name}", request.metadata.annotations["pool"]
        for number in range(size_of(request)):
            key = f"{lease}-{number}"
            self.nodes[key] = self.new_node(key, pool, lease, ready=ready)
        self.answer(name, "Provisioned", details={GKE_LEASE_DETAIL: lease})

    def answer(
        self,
        name: str,
        kind: str,
        reason: str = "",
        message: str = "",
        *,
        details: dict[str, str] | None = None,
    ) -> None:
        request = self.requests[name]
        conditions = with_condition(request.status.conditions, kind, "True", self.now, reason, message)
        status = ProvisioningRequestStatus(
            conditions=conditions,
            provisioning_class_details=details or request.status.provisioning_class_details,
        )
        self.requests[name] = replace(request, status=status)


def size_of(request: ProvisioningRequest) -> int:
    """Nodes that it asks for."""
    return sum(each.count for each in request.spec.pod_sets)
