"""A world in which actions come true at once, for tests of the pure core."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from muster.local.quantities import timestamp
from muster.local.simulated_cloud import names
from muster.local.simulated_cloud.actions import (
    Action,
    AdvertiseGpus,
    CreateNode,
    DeleteRequest,
    NoteNode,
    RecordHit,
    ReleaseNode,
    SetStatus,
    StartVm,
)
from muster.local.simulated_cloud.app import decide
from muster.local.simulated_cloud.faults import Fault, FaultBook
from muster.local.simulated_cloud.fit import PodShape, Toleration
from muster.local.simulated_cloud.objects import Condition, Node, Pod, PodSet, Request, VmState
from muster.local.simulated_cloud.offering import Kind, Offering, Pool, Taint, Times

START = 1_800_000_000.0
GPU_TAINT = Taint(names.GPU, "present", "NoSchedule")
TOLERATES = (Toleration(names.GPU, "Exists", "", ""),)
ONE_GPU = PodShape({names.GPU: 1000, "cpu": 500, "pods": 1000}, tolerations=TOLERATES)


SOON = Times(scale_down=10.0, scale_down_consumed=30.0)
"""Nodes go within the seconds for which a test runs its world."""


def pool(name: str = "l4", **changes: object) -> Pool:
    plain = Pool(
        name=name,
        kind=Kind.REAL,
        labels={names.POOL_LABEL: name},
        taints=(GPU_TAINT,),
        cpu="1",
        memory="2Gi",
        gpus=1,
        max_nodes=2,
        stock=1,
        provision_delay=3.0,
        jitter=0.0,
        classes=frozenset({names.QUEUED, names.BEST_EFFORT}),
        on_demand=False,
        atomic=True,
        price_per_hour=3.6,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]  # the caller names fields of Pool


def offering(*pools: Pool, expire_consumed: bool = False) -> Offering:
    return Offering({one.name: one for one in pools or (pool(),)}, SOON, expire_consumed=expire_consumed)


def request(
    name: str,
    *,
    count: int = 1,
    provisioning_class: str = names.QUEUED,
    shapes: Sequence[PodShape | None] = (ONE_GPU,),
    parameters: Mapping[str, str] | None = None,
    created: float = START,
    uid: str = "",
) -> Request:
    return Request(
        namespace="team-a",
        name=name,
        uid=uid or f"uid-{name}",
        created=created,
        provisioning_class=provisioning_class,
        pod_sets=tuple(PodSet(f"{name}-{index}", count, shape) for index, shape in enumerate(shapes)),
        parameters=parameters or {},
    )


def consumer(of: Request, node: str, name: str = "worker") -> Pod:
    return Pod(of.namespace, name, f"uid-{name}", ONE_GPU, node=node, consumes=of.name)


@dataclass
class World:
    """Requests by uid, nodes and pods by name; time moves only by `run`."""

    offering: Offering
    now: float = START
    requests: dict[str, Request] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    capacity: dict[str, int] = field(default_factory=dict)
    broken_machines: bool = False
    bought: list[CreateNode] = field(default_factory=list)
    _serial: int = 0

    def add(self, *requests: Request) -> None:
        for one in requests:
            self.requests[one.uid] = replace(one, created=self.now)

    def get(self, name: str) -> Request:
        return next(one for one in self.requests.values() if one.name == name)

    def delete(self, name: str) -> None:
        del self.requests[self.get(name).uid]

    def state(self, name: str, kind: str) -> tuple[str, str] | None:
        condition = self.get(name).condition(kind)
        return (condition.status, condition.reason) if condition else None

    def message(self, name: str, kind: str) -> str:
        condition = self.get(name).condition(kind)
        return condition.message if condition else ""

    def nodes_of(self, name: str) -> list[Node]:
        uid = self.get(name).uid
        return [node for node in self.nodes.values() if node.owner_uid == uid]

    def decide(self) -> list[Action]:
        return decide(
            self.offering,
            requests=self.requests.values(),
            nodes=self.nodes.values(),
            pods=self.pods.values(),
            faults=FaultBook(self.faults, self.capacity),
            now=self.now,
        )

    def step(self, *, upto: int | None = None) -> list[Action]:
        """One decision, carried out in full or, as after a crash, only its first actions."""
        actions = self.decide()
        for action in actions[:upto]:
            self.apply(action)
        return actions

    def settle(self) -> None:
        for _ in range(200):
            if not self.step():
                return
        raise AssertionError(f"still acting after 200 decisions at one moment: {self.decide()}")

    def run(self, seconds: float, *, tick: float = 0.5) -> None:
        """Lets the time pass, deciding at every tick until nothing more is asked for."""
        end = self.now + seconds
        self.settle()
        while self.now < end:
            self.now = min(end, self.now + tick)
            self.settle()

    def apply(self, action: Action) -> None:
        match action:
            case RecordHit(fault, uid):
                self.faults = tuple(
                    replace(one, hits=one.hits | {uid}) if one.name == fault else one for one in self.faults
                )
            case SetStatus(one, conditions, details):
                if one.uid in self.requests:
                    told = tuple(
                        replace(condition, since=float(int(condition.since))) for condition in conditions
                    )
                    self.requests[one.uid] = replace(
                        self.requests[one.uid], conditions=told, details=dict(details)
                    )
            case DeleteRequest(one):
                self.requests.pop(one.uid, None)
            case CreateNode():
                self._create(action)
            case StartVm(name):
                state = VmState.FAILED if self.broken_machines else VmState.RUNNING
                self.nodes[name] = replace(self.nodes[name], vm=state)
            case NoteNode(name, notes):
                self._note(name, notes)
            case AdvertiseGpus(name, count):
                self.nodes[name] = replace(self.nodes[name], advertised={names.GPU: count * 1000})
            case ReleaseNode(name, uid):
                if name in self.nodes and self.nodes[name].uid == uid:
                    del self.nodes[name]
                    self.pods = {key: pod for key, pod in self.pods.items() if pod.node != name}

    def boot(self) -> None:
        """Every kubelet that runs becomes Ready."""
        for name, node in self.nodes.items():
            if node.vm is VmState.RUNNING and not node.ready:
                own = self.offering.pools[node.pool or ""]
                self.nodes[name] = replace(node, ready=True, registered=True, allocatable=own.allocatable)

    def _create(self, action: CreateNode) -> None:
        if action.name in self.nodes:
            return  # the API server says AlreadyExists
        self.bought.append(action)
        self._serial += 1
        own = self.offering.pools[action.pool]
        self.nodes[action.name] = Node(
            name=action.name,
            uid=f"node-{self._serial}",
            pool=own.name,
            vm=VmState.REQUESTED if own.kind is Kind.REAL else VmState.RUNNING,
            created=action.created,
            owner=action.owner,
            owner_uid=action.owner_uid,
            lease=action.lease,
            ordinal=action.ordinal,
            expires=action.expires,
            labels={**own.labels, **({names.LEASE_LABEL: action.lease} if action.lease else {})},
            taints=own.taints,
        )

    def _note(self, name: str, notes: Mapping[str, str | None]) -> None:
        node = self.nodes[name]
        for key, text in notes.items():
            moment = timestamp(text) if text else None
            if key == names.UNNEEDED:
                node = replace(node, unneeded=moment)
            elif key == names.CONSUMED:
                node = replace(node, consumed=moment)
        self.nodes[name] = node


def delivered(offered: Offering | None = None, *, used: bool = False, **asked: Any) -> World:
    """A world in which request `gang` has its node, with a pod `worker` of it there if `used`."""
    world = World(offered or offering())
    world.add(request("gang", **asked))
    world.run(10)
    if used:
        world.pods["worker"] = consumer(world.get("gang"), "l4-0")
    return world


__all__ = ["Condition", "World"]
