"""A cluster on paper: Kueue, an autoscaler and nodes, on virtual time, around the real state machine.

The world holds API objects and nothing else. It carries out actions as the executor does; Kueue and the cloud
take their steps between. Nothing here shares code with the programs that it stands for.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import ClassVar

import msgspec

from muster.controller.gangs.actions import CreatePlaceholders, Delete
from muster.controller.gangs.capacity_claims import PodClaim
from muster.controller.gangs.identity import ATTEMPT
from muster.controller.gangs.missing import is_settled
from muster.controller.gangs.objects import (
    Belonging,
    Container,
    Placeholder,
    Pod,
    PodSpec,
    PodTemplateSpec,
    ProvisioningRequest,
    ResourceNeeds,
    Toleration,
)
from muster.controller.gangs.placeholder_sets import PlaceholderSet
from muster.controller.gangs.placeholders import named
from muster.controller.gangs.retry import to_annotations
from muster.controller.gangs.surroundings import Surroundings
from muster.controller.gangs.turn_order import Line, TurnPosition
from muster.controller.gangs.usage import less, used_by
from muster.controller.kube.resource import ObjectMeta
from muster.controller.kueue.actions import (
    Deactivate,
    Decision,
    PatchAnnotations,
    Reactivate,
    SetCheckState,
    SetFlavorAffinity,
    State,
)
from muster.controller.kueue.decide import decide
from muster.controller.kueue.flavor_fallback import avoided_pools
from muster.controller.kueue.flavor_fallback import pod_sets as steered_pod_sets
from muster.controller.kueue.objects import (
    Admission,
    CheckState,
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
from muster.controller.kueue.snapshot import WorkloadSnapshot
from muster.model.gangpolicy import GangPolicy, RetryPolicy
from muster.model.names import GKE_LEASE_DETAIL, GKE_LEASE_LABEL, POD_SET_LABEL, POOL_LABEL
from tests.unit.gangs.paper import (
    BOOKING,
    START,
    Paper,
    among,
    flavor_policy,
    silent_together,
    with_condition,
)

CHECK = "gang"

replace = msgspec.structs.replace

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


PLAIN = {"main": ("l4", 1)}
NOTHING: Mapping[str, str] = MappingProxyType({})


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
    entry = CheckState(name=CHECK, last_transition_time=START)
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


@dataclass
class World(Paper[Decision]):
    """With Workloads and the pods of their jobs."""

    namespace: ClassVar[str] = "team-a"
    policy: GangPolicy = POLICY
    stock: dict[str, int] = field(default_factory=lambda: {"l4": 1, "h100": 1})
    flavors: dict[str, ResourceFlavor] = field(default_factory=lambda: FLAVORS)
    delay: dict[str, timedelta] = field(default_factory=dict)
    quota: int = 100
    runtime: timedelta = timedelta(minutes=20)
    pieces: dict[str, dict[str, tuple[str, int]]] = field(default_factory=dict)
    workloads: dict[str, Workload] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    placeholders: dict[str, Placeholder] = field(default_factory=dict)
    queue_flavors: tuple[tuple[str, ...], ...] = ()
    order: Callable[[list[str]], list[str]] = lambda names: names
    """Which requests the cloud looks at, and in which order: oldest first, unless it says otherwise."""
    idle: dict[str, datetime] = field(default_factory=dict)
    started: dict[str, datetime] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)

    def submit(self, name: str, pieces: dict[str, tuple[str, int]]) -> None:
        self.pieces[name] = pieces
        self.workloads[name] = workload(name, pieces)

    def begin(self, name: str, pieces: dict[str, tuple[str, int]]) -> None:
        """It gets quota at once, and the controller asks for its nodes."""
        self.submit(name, pieces)
        self.kueue()
        self.settle()

    # The controller

    def snapshot(self, name: str) -> WorkloadSnapshot:
        mine = self._plain(name)
        others = (self._plain(other) for other in self.workloads if other != name)
        line = Line(place for other in others if (place := _place(other)))
        nodes, pods = tuple(self.nodes.values()), tuple(self.pods.values())
        if not mine.is_admitted or self.signs.evicts(nodes):
            nodes = tuple(map(self.signs.judged, nodes))
        place, held = _place(mine), {item.key for item in mine.placeholders}
        seen = mine.with_surroundings(
            Surroundings(
                is_surveyed=True,
                nodes=nodes,
                own_pods=pods,
                used=less(used_by(pods), (pod for pod in pods if pod.key in held)),
                in_outage=silent_together(nodes),
                must_wait=place is not None and line.must_wait(place),
                must_give_way=line.must_give_way(place) if place else frozenset(),
            )
        )
        stands = seen.runs or (seen.is_scale_up and seen.is_provisioning)
        snapshot: WorkloadSnapshot = among(seen, lacks_pods=stands and not self._is_settled(seen))
        return snapshot

    def _is_settled(self, seen: WorkloadSnapshot) -> bool:
        around = seen.surroundings
        return is_settled(
            seen.expected_gang, seen.carried, nodes=around.nodes, pods=around.own_pods, ended=seen.ended
        )

    def _plain(self, name: str) -> WorkloadSnapshot:
        uid = self.workloads[name].metadata.uid
        return WorkloadSnapshot(
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

    def names(self) -> Iterable[str]:
        return self.workloads

    def decided(self, name: str, *, alone: bool = False) -> Decision:
        seen = self.snapshot(name)
        return decide(among(seen, must_wait=False, must_give_way=frozenset()) if alone else seen)

    def write(self, name: str, action: object) -> None:
        held = self.workloads[name]
        match action:
            case SetCheckState(state=state, message=message, updates=updates):
                entry = CheckState(name=CHECK, state=state, message=message, pod_set_updates=updates)
                self._status(name, admission_checks=(entry,))
            case (
                Deactivate(history=history) | Reactivate(history=history) | PatchAnnotations(history=history)
            ):
                notes = {**held.metadata.annotations}
                for key, value in to_annotations(history).items():
                    notes.pop(key, None)
                    if value is not None:
                        notes[key] = value
                active = {Deactivate: False, Reactivate: True}.get(type(action), held.spec.active)
                self.workloads[name] = replace(
                    held,
                    metadata=replace(held.metadata, annotations=notes),
                    spec=replace(held.spec, active=active),
                )
            case SetFlavorAffinity(pools=pools, policy=policy):
                assert not held.status.holds("QuotaReserved"), "Kueue's webhook refuses it"
                applied = steered_pod_sets(held, pools, policy)
                wanted = {each["name"]: each["template"]["spec"] for each in applied}
                self.workloads[name] = replace(held, spec=replace(held.spec, pod_sets=_steered(held, wanted)))
            case CreatePlaceholders(capacity_claims=promised, labels=labels, request=request, spec=spec):
                for key, index in named(request, spec):
                    claim = promised[index].pod_claim
                    assert claim is not None
                    self._bind(key, lease_of(claim), claim.annotations)  # or it waits for a node
                    if key not in self.placeholders:
                        self.placeholders[key] = Placeholder(metadata=self.meta(key, labels))
            case Delete(kind="Pod", name=key):
                self.placeholders.pop(key, None)
                self.pods.pop(key, None)
            case _:
                super().write(name, action)

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
        if held.spec.active and status.condition("Requeued") and not status.holds("Requeued"):
            self.set_condition(name, "Requeued", "True", "Reactivated")
        entry = held.check_state(CHECK) or CheckState(name=CHECK)
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
        return next(name for name in group if name not in avoided_pools(held, self.policy))

    def _used(self) -> int:
        return sum(
            held.status.holds("QuotaReserved") and not held.status.holds("Finished")
            for held in self.workloads.values()
        )

    def evict(self, name: str, reason: str) -> None:
        """At once: reset our entry as Kueue does, leaving out what it does not own; the quota is free."""
        held = self.workloads[name]
        entry = held.check_state(CHECK)
        assert entry is not None
        counted = held.status.scheduling_stats or SchedulingStats()
        count = sum(item.count for item in counted.evictions) + 1
        self._status(
            name,
            admission=None,
            admission_checks=(replace(entry, state="Pending", message=f"Reset. Previously: {entry.state}"),),
            scheduling_stats=SchedulingStats(evictions=(EvictionCount(count=count),)),
        )
        for kind, value in (("Evicted", "True"), ("QuotaReserved", "False")):
            self.set_condition(name, kind, value, reason)
        if held.status.holds("Admitted"):
            self.set_condition(name, "Admitted", "False", reason)
        if not held.spec.active:
            self.set_condition(name, "Requeued", "False", reason)
        self.started.pop(name, None)
        self._stop_pods(name)

    def check_ready(self, name: str) -> None:
        """The oracle: whatever is admitted stands whole."""
        mine = self._plain(name)
        assert not mine.placeholders, f"{name} is Ready and placeholders stand where its pods will"
        for spec in mine.gang.request_specs:
            request = mine.current.get(spec.shape)
            assert request is not None, f"{name} is Ready without a request for {spec.shape}"
            assert request.status.holds("Provisioned"), f"{name} is Ready before {spec.shape} is provisioned"
            lease = request.status.provisioning_class_details.get(GKE_LEASE_DETAIL)
            standing = [
                item
                for item in self.nodes.values()
                if item.metadata.labels.get(GKE_LEASE_LABEL) == lease and item.status.holds("Ready")
            ]
            standing = [item for item in standing if self.signs.of(item) is None]
            assert len(standing) >= spec.count, f"{name} is Ready with {len(standing)} of {spec.count} nodes"

    # The cloud

    def cloud(self) -> None:
        self._scale_down()
        super().cloud()

    def patience(self, pool: str) -> timedelta:
        return self.delay.get(pool, timedelta(0))

    def is_used(self, name: str) -> bool:
        return _owner(self.requests[name]) in self.started

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
            elif self.now - self.idle.setdefault(name, self.now) >= BOOKING:
                del self.nodes[name]

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
        entry = self.workloads[name].check_state(CHECK)
        stands = True
        for update in entry.pod_set_updates if entry else ():
            lease = update.node_selector.get(GKE_LEASE_LABEL, "")
            count = next(
                item.count for item in self.workloads[name].spec.pod_sets if item.name == update.name
            )
            for number in range(count):
                key = f"{name}/{update.name}-{number}"
                labels = {POD_SET_LABEL: update.name}
                stands = self._bind(key, lease, update.annotations, labels) and stands
        return stands

    def _bind(
        self, key: str, lease: str, annotations: Mapping[str, str], labels: Mapping[str, str] = NOTHING
    ) -> bool:
        bound = self.pods.get(key)
        if bound is not None and bound.spec.node_name in self.nodes:
            return True
        self.pods.pop(key, None)
        taken = {pod.spec.node_name for pod in self.pods.values()}
        for item in self.nodes.values():
            free = item.metadata.name not in taken and item.status.holds("Ready")
            if free and item.metadata.labels.get(GKE_LEASE_LABEL) == lease:
                spec = replace(pod_spec(1), node_name=item.metadata.name)
                meta = ObjectMeta(
                    name=key, namespace="team-a", annotations=dict(annotations), labels=dict(labels)
                )
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

    def ticks(self, count: int) -> None:
        for _ in range(count):
            self.tick()

    def set_condition(self, name: str, kind: str, status: str, reason: str = "") -> None:
        conditions = self.workloads[name].status.conditions
        self._status(name, conditions=with_condition(conditions, kind, status, self.now, reason))

    def _status(self, name: str, **changes: object) -> None:
        held = self.workloads[name]
        self.workloads[name] = replace(held, status=replace(held.status, **changes))

    def _spec(self, name: str, **changes: object) -> None:
        held = self.workloads[name]
        self.workloads[name] = replace(held, spec=replace(held.spec, **changes))

    def _metadata(self, name: str, **changes: object) -> None:
        held = self.workloads[name]
        self.workloads[name] = replace(held, metadata=replace(held.metadata, **changes))

    def _pods(self, name: str, spec: PodSpec, *, pod_set: str = "main") -> None:
        """What each pod of one of its PodSets is."""
        self._spec(
            name,
            pod_sets=tuple(
                replace(each, template=replace(each.template, spec=spec)) if each.name == pod_set else each
                for each in self.workloads[name].spec.pod_sets
            ),
        )

    def served(self, names: list[str]) -> list[str]:
        return self.order(names)

    def circles(self) -> list[str]:
        """Gangs that hold a part of their nodes and wait, be it through others, for what they keep from
        others.
        """
        halves = self.holds_half()
        pools = {name: self._pools(name) for name in halves}
        after = {
            name: {other for other in halves if other != name and pools[name][1] & pools[other][0]}
            for name in halves
        }
        return [name for name in halves if name in _reached(name, after)]

    def _pools(self, name: str) -> tuple[set[str], set[str]]:
        """Where it has nodes, and where the cloud has accepted that it wants some and has given none."""
        found: tuple[set[str], set[str]] = set(), set()
        for request in self._plain(name).current.values():
            if request.status.holds("Provisioned"):
                found[0].add(request.metadata.annotations["pool"])
            elif request.status.holds("Accepted"):
                found[1].add(request.metadata.annotations["pool"])
        return found

    def holds_half(self) -> list[str]:
        """Split gangs that hold some of their nodes, lack others, and do not run."""
        found = []
        for name in self.workloads:
            mine = self._plain(name)
            if not mine.is_provisioning or not mine.gang.is_split:
                continue
            got = [request.status.holds("Provisioned") for request in mine.current.values()]
            if any(got) and not (all(got) and len(got) == len(mine.gang.request_specs)):
                found.append(name)
        return found


def assert_invariants(world: World) -> None:
    live = Counter((item.metadata.labels[ATTEMPT], key) for key, item in world.requests.items())
    assert max(live.values(), default=0) <= 1
    for name in world.workloads:
        mine = world._plain(name)
        assert_nobody_pays_for_nothing(world, mine)
        attempts = {item.metadata.labels[ATTEMPT] for item in mine.requests}
        assert len(attempts) <= 1, f"{name} holds requests of two attempts"
        if not (mine.may_act or mine.runs) or not mine.workload.spec.active:
            assert not mine.requests, f"{name} holds requests without quota"
            assert not mine.templates
            assert not mine.placeholders
        assert not (mine.placeholders and name in world.started), "placeholders stand in the way"


def assert_nobody_pays_for_nothing(world: World, mine: WorkloadSnapshot) -> None:
    """What is provisioned and does not run is given back before the end of its booking. Placeholders have
    none.
    """
    name = mine.workload.metadata.name
    idle = () if name in world.started or world.policy.holds else mine.requests
    for request in idle:
        if isinstance(request, PlaceholderSet):
            continue
        since, usable = (
            request.status.since("Provisioned"),
            world.policy.booking_window - world.policy.booking_margin,
        )
        assert since is None or world.now - since < usable, f"{name} pays for nothing until its booking ends"


def _reached(name: str, after: Mapping[str, set[str]]) -> set[str]:
    found, left = set[str](), list(after[name])
    while left:
        if (each := left.pop()) not in found:
            found.add(each)
            left += after[each]
    return found


def _steered(held: Workload, wanted: Mapping[str, object]) -> tuple[PodSet, ...]:
    """As server-side apply does it: our affinity where we name one, none where we name none any more."""
    found = []
    for each in held.spec.pod_sets:
        said = msgspec.convert(wanted.get(each.name, {}), PodSpec)
        spec = replace(each.template.spec, affinity=said.affinity)
        found.append(replace(each, template=replace(each.template, spec=spec)))
    return tuple(found)


def lease_of(claim: PodClaim) -> str:
    return claim.node_selector.get(GKE_LEASE_LABEL, "")


def _place(seen: WorkloadSnapshot) -> TurnPosition | None:
    is_whole = seen.check_state is not None and seen.check_state.state == "Ready"
    return seen.turn_position() if seen.is_provisioning and not is_whole else None


def _uid(item: Belonging) -> str:
    return item.metadata.labels["muster.dev/workload-uid"]


def _owner(request: ProvisioningRequest) -> str:
    return _uid(request).removeprefix("uid-")


def entry_of(world: World, name: str = "a") -> CheckState:
    entry = world.workloads[name].check_state(CHECK)
    assert entry is not None
    return entry


def entry_state(world: World, name: str) -> State:
    return State(entry_of(world, name).state)


def ready(world: World) -> World:
    """With a gang that Kueue has not admitted yet."""
    world.submit("a", PLAIN)
    world.kueue()
    for _ in range(3):
        world.settle()
        world.cloud()
    world.settle()
    assert entry_state(world, "a") is State.READY
    return world
