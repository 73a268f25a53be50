"""By which signs a node is broken, and when it is set aside."""

import asyncio
import itertools
import random
from dataclasses import dataclass, field
from dataclasses import replace as changed
from datetime import timedelta
from typing import Any, cast

import msgspec
import pytest

from muster.controller.gangs.broken_nodes import (
    FAILED_POD,
    BrokenNodeReconciler,
    FailedPod,
    NodeSigns,
    ResourceSlice,
    Sign,
    black_hole,
    device_taint,
    node_that_rejected,
    nodes_with_tainted_devices,
    sign,
)
from muster.controller.gangs.indexes import BY_CLOSED, BY_NODE, BY_POOL, closed_in, pool_of
from muster.controller.gangs.objects import NODE, Condition, Node, Taint
from muster.controller.gangs.taints import NodeTaints, closed_for
from muster.controller.kube.client import Client
from muster.controller.kube.errors import TransportError
from muster.controller.kube.resource import Key
from muster.controller.runtime.controller import RequeueAfter
from muster.model.gangpolicy import BrokenNodes, GangPolicy
from muster.model.names import BROKEN_TAINT_KEY, GPU_RESOURCE
from tests.length import examples
from tests.unit.gangs.cached import cached
from tests.unit.gangs.paper import START, flavor_policy, node

replace = msgspec.structs.replace
L4 = flavor_policy("l4", 10)
WORDS = BrokenNodes()
POLICY = GangPolicy(flavors=(L4,))
AGENT = "AcceleratedHardwareReady"


def with_status(held: Node, kind: str, status: str, since: Any = START) -> Node:
    others = tuple(each for each in held.status.conditions if each.type != kind)
    new = Condition(type=kind, status=status, last_transition_time=since)
    return replace(held, status=replace(held.status, conditions=(*others, new)))


def with_gpus(held: Node, there: int, left: int) -> Node:
    size = {**held.status.allocatable, GPU_RESOURCE: str(left)}
    return replace(held, status=replace(held.status, allocatable=size, capacity={GPU_RESOURCE: str(there)}))


def with_taint(held: Node, key: str, value: str = "", effect: str = "NoSchedule") -> Node:
    others = tuple(each for each in held.spec.taints if each.key != key)
    new = (Taint(key=key, effect=effect, value=value),) if value else ()
    return replace(held, spec=replace(held.spec, taints=(*others, *new)))


def with_label(held: Node, key: str, value: str) -> Node:
    return replace(held, metadata=replace(held.metadata, labels={**held.metadata.labels, key: value}))


def rejection(number: int, *, team: str, job: str, minute: float, on: str = "n") -> FailedPod:
    return msgspec.convert(
        {
            "metadata": {
                "name": f"pod-{number}",
                "namespace": team,
                "uid": f"uid-pod-{number}",
                "ownerReferences": [{"uid": job}],
                "creationTimestamp": (START + timedelta(minutes=minute)).isoformat(),
            },
            "spec": {"nodeName": on},
            "status": {"reason": "UnexpectedAdmissionError"},
        },
        FailedPod,
    )


@pytest.mark.parametrize(
    ("held", "text"),
    [
        (with_status(node("n", "l4"), AGENT, "False"), "condition AcceleratedHardwareReady=False"),
        (with_status(node("n", "l4"), "SysLogsXIDError", "True"), "condition SysLogsXIDError=True"),
        (with_taint(node("n", "l4"), "nvidia.com/gpu-xid-error", "true"), "taint nvidia.com/gpu-xid-error"),
        (
            with_label(node("n", "l4"), "nvsentinel.dgxc.nvidia.com/nvcre-cert-failure", "true"),
            "label nvsentinel.dgxc.nvidia.com/nvcre-cert-failure=true",
        ),
        (with_gpus(node("n", "l4"), 8, 7), "7 of 8 GPUs left"),
    ],
)
def test_a_broken_node_is_known_by_each_sign(held: Node, text: str) -> None:
    found = sign(held, WORDS, L4)
    assert found is not None
    assert found.text == text
    assert 0 < len(found.label) <= 63


def test_a_taint_has_as_much_of_a_sign_as_its_value_may_have() -> None:
    assert Sign("x" * 64).label == "x" * 63


@pytest.mark.parametrize(
    "held",
    [
        node("n", "l4"),
        with_status(node("n", "l4"), AGENT, "True"),
        with_status(node("n", "l4"), AGENT, "Unknown"),
        with_status(node("n", "l4"), "GpuDriverWatch", "True"),
        with_gpus(node("n", "l4"), 8, 8),
        with_gpus(node("n", "l4"), 8, 0),
        with_gpus(node("n", "l4"), 0, 0),
    ],
    ids=["plain", "healthy", "silent agent", "driver", "all GPUs", "plugin restarts", "booting"],
)
def test_without_a_sign_decisions_see_the_same_object(held: Node) -> None:
    assert NodeSigns(policy=lambda: POLICY).judged(held) is held


def test_each_sign_has_a_word_that_turns_it_off() -> None:
    words = BrokenNodes(conditions=(), taints=(), labels=(), lost_devices=False)
    broken = with_gpus(with_status(node("n", "l4"), AGENT, "False"), 8, 7)
    assert sign(with_taint(broken, "nvidia.com/gpu-error", "true"), words, L4) is None


def test_a_black_hole_rejects_pods_of_several_jobs_and_teams_within_minutes() -> None:
    three = [rejection(n, team=f"team-{n % 2}", job=f"job-{n}", minute=n) for n in range(3)]
    now = START + timedelta(minutes=3)
    assert black_hole(three, 3, now=now) is not None
    assert black_hole(three[:2], 3, now=now) is None, "too few"
    assert black_hole(three, 0, now=now) is None, "turned off"
    same_job = [rejection(n, team="team-a", job="job", minute=n) for n in range(9)]
    assert black_hole(same_job, 3, now=now) is None, "a job that fails again and again"
    one_team = [rejection(n, team="team-a", job=f"job-{n}", minute=n) for n in range(9)]
    assert black_hole(one_team, 3, now=now) is None, "what one team asks for may be the reason"
    slow = [rejection(n, team=f"team-{n}", job=f"job-{n}", minute=10 * n) for n in range(3)]
    assert black_hole(slow, 3, now=START + timedelta(minutes=20)) is None, "not within minutes"
    assert black_hole(three, 3, now=START + timedelta(hours=1)) is None, "it is tried again"


def test_the_clock_of_a_node_makes_and_hides_no_black_hole() -> None:
    for skew in (timedelta(hours=-5), timedelta(hours=5)):
        pods = [rejection(n, team=f"team-{n}", job=f"job-{n}", minute=n) for n in range(3)]
        skewed = [
            replace(pod, status=replace(pod.status, start_time=pod.metadata.creation_timestamp + skew))  # type: ignore[operator]  # it has one
            for pod in pods
        ]
        assert black_hole(skewed, 3, now=START + timedelta(minutes=3)) is not None


DRIVER = "gpu.nvidia.com"


def devices(*taints: dict[str, str], node: str = "n") -> ResourceSlice:
    """As the API server has them: a healthy device, and one with these taints."""
    spec = {"driver": DRIVER, "nodeName": node, "devices": [{"name": "gpu-0"}, {"taints": list(taints)}]}
    body = {"metadata": {"name": f"{node}-slice", "uid": f"uid-{node}"}, "spec": spec}
    return msgspec.convert(body, ResourceSlice)


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_a_device_that_its_driver_has_tainted_is_a_sign_with_the_time_of_the_taint(effect: str) -> None:
    taint = {"key": f"{DRIVER}/xid", "value": "79", "effect": effect, "timeAdded": START.isoformat()}
    held = devices({"key": "example.com/any", "effect": effect}, taint)
    assert nodes_with_tainted_devices(held) == ["n"]
    found = device_taint("n", [held], WORDS.device_taints)
    assert found == Sign(f"device taint {DRIVER}/xid", START)
    assert found.label == "device-taint-gpu-nvidia-com-xid"
    assert device_taint("m", [held], WORDS.device_taints) is None
    assert device_taint("n", [held], ()) is None


@pytest.mark.parametrize(
    "taint",
    [
        {"key": f"{DRIVER}/xid", "value": "31", "effect": "None"},
        {"key": f"{DRIVER}/xid", "effect": "OfTheNextRelease"},
        {"key": f"{DRIVER}/unmonitored", "effect": "NoSchedule"},
        {"key": "example.com/maintenance", "effect": "NoExecute"},
    ],
    ids=["information", "unknown effect", "nobody watches it", "another key"],
)
def test_a_taint_that_says_nothing_of_the_device_is_no_sign(taint: dict[str, str]) -> None:
    assert device_taint("n", [devices(taint)], WORDS.device_taints) is None


def test_devices_that_no_single_node_has_are_of_those_that_name_one() -> None:
    taint = {"key": f"{DRIVER}/xid", "effect": "NoSchedule"}
    of_several = {"devices": [{"nodeName": "n", "taints": [taint]}, {"taints": [taint]}]}
    assert nodes_with_tainted_devices(msgspec.convert({"spec": of_several}, ResourceSlice)) == ["n"]


# The reconciler, on virtual time


@dataclass
class Nodes:
    """The API's nodes, a cache that follows them unless the API is away, and the controller."""

    policy: GangPolicy = POLICY
    size: int = 10
    now: float = 0.0
    is_away: bool = False
    live: dict[str, Node] = field(default_factory=dict)
    closed_ever: set[str] = field(default_factory=set)
    _versions: Any = field(default_factory=lambda: itertools.count(2))

    def __post_init__(self) -> None:
        self.live = {f"n{n}": node(f"n{n}", "l4") for n in range(self.size)}
        indexes: Any = {BY_POOL: pool_of, BY_CLOSED: closed_in}
        self.nodes = cached(NODE, self.live.values(), **indexes)
        self.failed = cached(FAILED_POD, (), **{BY_NODE: node_that_rejected})
        self.due: dict[str, float] = dict.fromkeys(self.live, 0.0)
        self.restart()

    def restart(self) -> None:
        """A new process: nothing is left of the old one's memory."""
        signs = NodeSigns(
            policy=lambda: self.policy,
            failed=self.failed,
            clock=lambda: START + timedelta(seconds=self.now),
        )
        self.reconciler = BrokenNodeReconciler(
            cast(Client, self), self.nodes, signs, cast(NodeTaints, self), monotonic=lambda: self.now
        )
        self.due = dict.fromkeys(self.live, self.now)

    # The API server, as the reconciler calls it

    async def get(self, _resource: object, key: Key) -> Node:
        self._answer()
        return self.live[key.name]

    async def hold(self, name: str, *, held_as: str, effect: str) -> None:
        self._answer()
        self.closed_ever.add(name)
        self.put(with_taint(self.live[name], BROKEN_TAINT_KEY, held_as, effect))

    async def release(self, name: str, *, held_as: str) -> None:
        self._answer()
        assert closed_for(self.live[name]) == held_as
        self.put(with_taint(self.live[name], BROKEN_TAINT_KEY))

    def _answer(self) -> None:
        if self.is_away:
            raise TransportError("the API server is away")

    # The cluster

    def put(self, held: Node) -> None:
        version = str(next(self._versions))
        held = replace(held, metadata=replace(held.metadata, resource_version=version))
        self.live[held.metadata.name] = held
        if not self.is_away:
            self._follow(held)

    def _follow(self, held: Node) -> None:
        self.nodes.store.put(held)
        self.due[held.metadata.name] = self.now

    def come_back(self) -> None:
        self.is_away = False
        for held in self.live.values():
            if self.nodes.get(held.key) != held:
                self._follow(held)

    def break_(self, name: str, kind: str = AGENT, status: str = "False") -> None:
        since = START + timedelta(seconds=self.now)
        self.put(with_status(self.live[name], kind, status, since))

    def mend(self, name: str) -> None:
        self.break_(name, status="True")

    def step(self, seconds: float = 5.0) -> None:
        self.now += seconds
        for name in sorted(key for key, at in self.due.items() if at <= self.now):
            self.due[name] = float("inf")
            try:
                result = asyncio.run(self.reconciler.reconcile(Key("", name)))
            except TransportError:
                self.due[name] = self.now + 5
                continue
            if isinstance(result, RequeueAfter):
                self.due[name] = min(self.due[name], self.now + result.seconds)

    def wait(self, seconds: float) -> None:
        for _ in range(int(seconds / 5)):
            self.step()

    @property
    def closed(self) -> list[str]:
        return sorted(name for name, held in self.live.items() if closed_for(held))


def test_a_node_is_set_aside_after_a_minute_and_opened_a_minute_after_the_sign_goes() -> None:
    world = Nodes()
    world.break_("n3")
    world.wait(55)
    assert world.closed == []
    world.wait(15)
    assert world.closed == ["n3"]
    assert closed_for(world.live["n3"]) == "condition-AcceleratedHardwareReady-False"
    world.mend("n3")
    world.wait(55)
    assert world.closed == ["n3"]
    world.wait(15)
    assert world.closed == []


@pytest.mark.parametrize(("size", "most", "closed"), [(5, 8, 1), (30, 8, 3), (200, 8, 8), (200, 0, 0)])
def test_a_tenth_of_a_pool_or_one_node_and_never_more_than_the_policy_says(
    size: int, most: int, closed: int
) -> None:
    world = Nodes(policy=changed(POLICY, broken_nodes=BrokenNodes(most=most)), size=size)
    for name in world.live:
        world.break_(name)
    world.wait(300)
    assert len(world.closed) == closed
    assert len(world.reconciler.beyond_bound) == size - closed
    for name in world.closed:
        world.mend(name)
    world.wait(300)
    assert len(world.closed) == closed, "the next ones follow"
    for name in world.live:
        world.mend(name)
    world.wait(300)
    assert not world.closed
    assert not world.reconciler.beyond_bound


def test_a_node_that_a_person_cordoned_is_left_to_them() -> None:
    world = Nodes()
    world.break_("n1")
    world.put(replace(world.live["n1"], spec=replace(world.live["n1"].spec, unschedulable=True)))
    world.wait(300)
    assert world.closed == []


def test_a_node_that_another_taint_closes_is_only_marked() -> None:
    """A new acceptance test tolerates that one, and has to get in."""
    world = Nodes()
    world.put(with_taint(world.live["n1"], "nvsentinel.dgxc.nvidia.com/nvcre-cert-failed", "true"))
    world.wait(70)
    effects = {each.key: each.effect for each in world.live["n1"].spec.taints}
    assert effects[BROKEN_TAINT_KEY] == "PreferNoSchedule"


def test_a_black_hole_is_set_aside() -> None:
    world = Nodes()
    for number in range(3):
        world.failed.store.put(rejection(number, team=f"team-{number}", job=f"j-{number}", minute=0, on="n2"))
    world.due["n2"] = 0
    world.wait(70)
    assert world.closed == ["n2"]
    assert closed_for(world.live["n2"]) == "rejected-pods-of-3-jobs"
    world.restart()
    world.wait(60 * 35)
    assert world.closed == [], "it is tried again"


def test_a_cache_that_an_outage_has_kept_from_following_sets_nothing_aside() -> None:
    world = Nodes()
    world.break_("n1")
    world.wait(10)
    world.is_away = True
    world.mend("n1")
    world.wait(600)
    world.come_back()
    world.wait(600)
    assert world.closed_ever == set()


@pytest.mark.parametrize("seed", range(examples(200)))
def test_flaps_outages_skew_kills_and_a_rolling_driver_set_no_healthy_node_aside(seed: int) -> None:
    """No sign lasts for a minute here; nodes' clocks are hours off."""
    chance, world = random.Random(seed), Nodes()
    mends: dict[str, float] = {}
    for _ in range(360):
        world.step()
        for name in [name for name, at in mends.items() if at <= world.now]:
            del mends[name]
            skew = timedelta(hours=chance.choice([-5, 0, 5]))
            healthy = with_status(world.live[name], AGENT, "True", START + skew)
            world.put(with_gpus(healthy, 1, 1))
        if chance.random() < 0.3 and (name := chance.choice(sorted(world.live))) not in mends:
            mends[name] = world.now + chance.choice([5, 20, 45])
            skew = timedelta(hours=chance.choice([-5, 0, 5]), seconds=world.now)
            if chance.random() < 0.5:
                world.put(with_status(world.live[name], AGENT, "False", START + skew))
            else:
                world.put(with_gpus(world.live[name], 1, 0))
        if chance.random() < 0.05:
            world.is_away = True
        elif world.is_away and chance.random() < 0.3:
            world.come_back()
        if chance.random() < 0.02:
            world.restart()
    assert world.closed_ever == set()
