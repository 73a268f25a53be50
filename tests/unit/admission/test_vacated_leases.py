"""Nodes that one gang of a queued pool leaves and another takes, with GKE's durations on virtual time: the
controller's own loop, caches and writes, before a cloud that takes idle nodes away after ten minutes.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from fractions import Fraction
from random import Random
from typing import Any

import msgspec
import pytest
import structlog

from bench.virtual_days.kueue import Gang
from bench.virtual_days.server import later
from bench.virtual_days.story import MINUTE, RULES
from bench.virtual_days.world import SIGN, World
from muster.controller.gangs.actions import CreateTemplates, Delete
from muster.controller.gangs.identity import template_name
from muster.controller.gangs.objects import (
    NODE,
    POD,
    POD_TEMPLATE,
    PROVISIONING_REQUEST,
    Node,
    NodeSpec,
    Pod,
    PodStatus,
    PodTemplate,
    Taint,
)
from muster.controller.gangs.owner import Owner
from muster.controller.gangs.requests import Requests
from muster.controller.gangs.vacated_leases import LeftLeases, VacatedLease, taken_leases
from muster.controller.gangs.verify import PodDemand
from muster.controller.kube.resource import Key, ObjectMeta
from muster.controller.kueue.actions import SetCheckState, State
from muster.controller.kueue.decide import decide
from muster.controller.kueue.objects import WORKLOAD
from muster.controller.kueue.view import View
from muster.model.gangpolicy import GangPolicy
from muster.model.names import CONSUME_ANNOTATION, GKE_LEASE_LABEL, GPU_RESOURCE, PLACED_ANNOTATION
from tests.unit.admission.fleet import SPACE, Pieces
from tests.unit.admission.gang_world import CHECK, pod_spec
from tests.unit.admission.gang_world import World as PaperWorld
from tests.unit.controller_runtime.virtual import now, on_virtual_time
from tests.unit.gangs.paper import among, node
from tests.unit.gangs.slow_api import moment

replace = msgspec.structs.replace

ONE: Pieces = {"main": ("l4", 1)}
TWO: Pieces = {"main": ("l4", 2)}
BOTH: Pieces = {"big": ("h100", 1), "small": ("l4", 2)}
DAY = 86_400.0


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.configure(**before)


class Preempted(World):
    """dev runs on all of the stock, until prod takes its quota."""

    def __init__(self, policy: GangPolicy = RULES, **stock: int) -> None:
        super().__init__(policy, random=Random(1), stock={"l4": 2, "h100": 1, **stock}, heads=0)
        self.bought: Counter[str] = Counter()
        self.grace = 0.0
        """Seconds for which pods go on after they were deleted."""

    def _bought(self, held: Node, lease: Any) -> None:
        self.bought[lease.gang.name] += 1
        super()._bought(held, lease)

    def _stop(self, gang: Gang) -> None:
        pods = [
            each for each in self.server.caches[POD].store if each.metadata.name.startswith(gang.key.name)
        ]
        super()._stop(gang)
        for pod in pods if self.grace else ():
            ends = moment() + timedelta(seconds=self.grace)
            name = f"ending-{pod.metadata.name}"
            meta = replace(pod.metadata, name=name, uid=name, deletion_timestamp=ends)
            self.server.put(POD, replace(pod, metadata=meta))
            later(self.grace, self.server.remove, POD, Key(SPACE, name))

    def submit(self, name: str, pieces: Pieces) -> Gang:
        gang = Gang(Key(SPACE, name), name, pieces, left=DAY, submitted=now())
        self.kueue.quota[name] = gang.gpus
        self.kueue.submit(gang)
        return gang

    async def dev_runs(self, pieces: Pieces = TWO) -> Gang:
        self.start_controller()
        dev = self.submit("dev", pieces)
        await self.until(lambda: self.jobs.is_whole(dev), within=60 * MINUTE)
        return dev

    async def preempt(
        self, dev: Gang, pieces: Pieces = TWO, *, name: str = "prod", after: float = 0.0
    ) -> Gang:
        """The gang that takes the quota, submitted so many seconds after dev has lost it."""
        self.kueue.quota["dev"] = {}
        self.kueue.evict(dev, "Preempted")
        await asyncio.sleep(after)
        return self.submit(name, pieces)

    async def until(self, reached: Callable[[], bool], *, within: float) -> float:
        """Seconds until it is."""
        began = now()
        while not reached():
            assert now() - began < within, "it has not come to that"
            await asyncio.sleep(0.5)
        self.check_errors()
        return now() - began

    def leases_of(self, gang: Gang) -> set[str]:
        pods = self.server.caches[POD].store
        names = (pod.spec.node_name for pod in pods if pod.metadata.name.startswith(f"{gang.key.name}-"))
        nodes = (self.server.caches[NODE].get(Key("", name)) for name in names)
        return {node.metadata.labels[GKE_LEASE_LABEL] for node in nodes if node}


@asynccontextmanager
async def played(world: Preempted) -> AsyncIterator[Preempted]:
    try:
        yield world
    finally:
        await world.kill_controller()


@on_virtual_time
async def test_a_gang_that_preempts_starts_within_a_minute_on_what_the_other_leaves() -> None:
    """The cloud would take the nodes back after ten minutes, and then sell them again."""
    async with played(Preempted()) as world:
        dev = await world.dev_runs()
        lease = world.leases_of(dev)
        prod = await world.preempt(dev)
        assert await world.until(lambda: world.jobs.is_whole(prod), within=30 * MINUTE) < MINUTE
        assert world.bought == {"dev": 2}
        assert world.leases_of(prod) == lease
        (pod, *_) = [each for each in world.server.caches[POD].store if each.metadata.name.startswith("prod")]
        assert CONSUME_ANNOTATION not in pod.metadata.annotations, "GKE would pin it to nodes of its own"
        assert PLACED_ANNOTATION in pod.metadata.annotations
        assert not len(world.server.caches[PROVISIONING_REQUEST].store), "nothing more is to come"
        # They are its own for as long as it runs, and are left to the next one.
        await asyncio.sleep(60 * MINUTE)
        assert world.jobs.is_whole(prod)
        world.kueue.quota = {"prod": {}, "dev": dev.gpus}
        world.kueue.evict(prod, "Preempted")
        world.kueue.give_quota("dev")
        assert await world.until(lambda: world.jobs.is_whole(dev), within=30 * MINUTE) < MINUTE
        assert world.bought == {"dev": 2}
        assert len(world.server.caches[POD_TEMPLATE].store) == 1, "of dev alone"


@pytest.mark.parametrize("grace", [30.0, 9 * MINUTE])
@on_virtual_time
async def test_pods_that_are_ending_are_waited_for(grace: float) -> None:
    """No cloud counts nodes as idle before."""
    async with played(Preempted()) as world:
        world.grace = grace
        prod = await world.preempt(await world.dev_runs())
        waited = await world.until(lambda: world.jobs.is_whole(prod), within=30 * MINUTE)
        assert grace <= waited < grace + MINUTE / 2
        assert world.bought == {"dev": 2}


@on_virtual_time
async def test_who_waits_for_pods_that_are_ending_loses_the_nodes_to_no_gang_of_lower_priority() -> None:
    async with played(Preempted(l4=4)) as world:
        world.grace = 150.0
        prod = await world.preempt(await world.dev_runs())
        prioritize(world, prod)
        await asyncio.sleep(130)
        world.submit("lab", TWO)
        await world.until(lambda: world.jobs.is_whole(prod), within=MINUTE)
        assert world.bought == {"dev": 2}


def prioritize(world: Preempted, gang: Gang) -> None:
    held = world.server.workload(gang.key)
    assert held is not None
    world.server.put(WORKLOAD, replace(held, spec=replace(held.spec, priority=1000)))


@on_virtual_time
async def test_pods_that_do_not_end_in_time_are_not_waited_for() -> None:
    async with played(Preempted(l4=4)) as world:
        world.grace = DAY
        prod = await world.preempt(await world.dev_runs())
        for pod in list(world.server.caches[POD].store):
            overdue = replace(pod.metadata, deletion_timestamp=moment() - timedelta(minutes=2))
            world.server.put(POD, replace(pod, metadata=overdue))
        await world.until(lambda: world.jobs.is_whole(prod), within=30 * MINUTE)
        assert world.bought == {"dev": 2, "prod": 2}


@pytest.mark.parametrize("is_away", [False, True])
@on_virtual_time
async def test_nodes_that_the_cloud_is_about_to_remove_are_left_to_it(is_away: bool) -> None:
    """Also where the controller was away as they were left."""
    async with played(Preempted(l4=4)) as world:
        dev = await world.dev_runs()
        if is_away:
            await world.kill_controller()
        world.kueue.quota["dev"] = {}
        world.kueue.evict(dev, "Preempted")
        await asyncio.sleep(9 * MINUTE)
        world.start_controller()
        await asyncio.sleep(5)
        prod = world.submit("prod", TWO)
        await world.until(lambda: world.jobs.is_whole(prod), within=30 * MINUTE)
        assert world.bought == {"dev": 2, "prod": 2}


@pytest.mark.parametrize(
    ("pieces", "gpus", "phase"),
    [(ONE, 0, "Running"), (TWO, 1, "Running"), (ONE, 1, "Succeeded")],
    ids=["without a device", "on another node", "has ended"],
)
@on_virtual_time
async def test_nodes_of_which_the_first_has_been_idle_for_long_are_left_to_the_cloud(
    pieces: Pieces, gpus: int, phase: str
) -> None:
    """A pod that goes later is on another of them, uses no device, or had ended before."""
    async with played(Preempted(l4=4)) as world:
        dev = await world.dev_runs(pieces)
        await world.preempt(dev, name="lab", pieces={"main": ("h100", 1)})
        node = next(each for each in world.server.caches[NODE].store if "l4" in each.metadata.labels.values())
        meta = ObjectMeta(name="late", namespace="other", uid="late", resource_version="1")
        spec = replace(pod_spec(gpus), node_name=node.metadata.name)
        late = Pod(metadata=meta, spec=spec, status=PodStatus(phase=phase))
        world.server.put(POD, late)
        await asyncio.sleep(7 * MINUTE)
        world.server.remove(POD, late.key)
        await asyncio.sleep(1.5 * MINUTE)
        prod = world.submit("prod", pieces)
        await world.until(lambda: world.jobs.is_whole(prod), within=30 * MINUTE)
        assert world.bought["prod"] == pieces["main"][1]


@on_virtual_time
async def test_nodes_that_the_cloud_is_about_to_remove_start_no_gang_that_another_check_holds_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with played(Preempted(l4=4)) as world:
        look = world.kueue._look

        def is_ready() -> bool:
            held = world.server.workload(Key(SPACE, "prod"))
            entry = held.check_state(CHECK) if held and held.spec.active else None
            return entry is not None and entry.state == State.READY

        def admit_nobody(key: Key) -> None:
            world.kueue._looks.discard(key) if is_ready() else look(key)

        monkeypatch.setattr(world.kueue, "_look", admit_nobody)
        dev = await world.dev_runs()
        await world.preempt(dev, after=7 * MINUTE)
        await asyncio.sleep(1.5 * MINUTE)
        assert is_ready(), "with a minute and a half left"
        await asyncio.sleep(MINUTE)
        assert not is_ready()


@on_virtual_time
async def test_nodes_whose_request_the_cloud_has_deleted_long_before_are_taken_all_the_same() -> None:
    async with played(Preempted()) as world:
        dev = await world.dev_runs()
        for request in list(world.server.caches[PROVISIONING_REQUEST].store):
            world.server.remove(PROVISIONING_REQUEST, request.key)
        await asyncio.sleep(60 * MINUTE)
        held = world.server.workload(dev.key)
        assert held is not None
        world.server.set_conditions(held, ("Evicted", "True", "Preempted"))
        await asyncio.sleep(5)  # Its pods are being stopped, and what it was given is taken back.
        prod = await world.preempt(dev)
        await world.until(lambda: world.jobs.is_whole(prod), within=MINUTE)
        assert world.bought == {"dev": 2}


@pytest.mark.parametrize("minutes", [7.0, 9.5])
@on_virtual_time
async def test_nodes_that_go_as_the_rest_comes_are_asked_for_again(minutes: float) -> None:
    """The h100 comes so long after they were left, of which the cloud takes them back after ten."""
    async with played(Preempted(l4=4, h100=0)) as world:
        world.cloud.slow["h100"] = 1.0
        dev = await world.dev_runs()
        prod = await world.preempt(dev, BOTH, after=6 * MINUTE)
        await asyncio.sleep((minutes - 6) * MINUTE)
        world.cloud.stock["h100"] = 1
        world.cloud.serve("h100")
        await world.until(lambda: world.jobs.is_whole(prod), within=60 * MINUTE)
        assert world.bought["prod"] == (1 if minutes < 8 else 3)


@on_virtual_time
async def test_nodes_that_a_gang_took_and_never_ran_on_are_idle_for_as_long_as_before() -> None:
    async with played(Preempted(l4=4, h100=0)) as world:
        dev = await world.dev_runs()
        lab = await world.preempt(dev, BOTH, name="lab", after=7 * MINUTE)
        await asyncio.sleep(0.5 * MINUTE)
        assert any("lab" in str(each) for each in world.server.caches[POD_TEMPLATE].store)
        await asyncio.sleep(MINUTE)
        world.kueue.quota["lab"] = {}
        world.kueue.evict(lab, "Preempted")
        prod = world.submit("prod", TWO)
        await world.until(lambda: world.jobs.is_whole(prod), within=30 * MINUTE)
        assert world.bought == {"dev": 2, "prod": 2}, "the cloud is about to take dev's back"


@on_virtual_time
async def test_a_gang_of_high_priority_whose_head_has_no_place_keeps_no_other_from_what_is_left() -> None:
    """It asks for nothing before its head has one."""
    async with played(Preempted(l4=4)) as world:
        dev = await world.dev_runs()
        prioritize(world, world.submit("high", {"head": ("cpu", 1), **TWO}))
        await asyncio.sleep(2 * MINUTE)
        prod = await world.preempt(dev)
        await world.until(lambda: world.jobs.is_whole(prod), within=MINUTE)
        assert world.bought == {"dev": 2}


@on_virtual_time
async def test_two_gangs_at_once_take_one_lease_each() -> None:
    """Of two leases of one node, and never the same."""
    async with played(Preempted()) as world:
        world.start_controller()
        first, second = world.submit("dev", ONE), world.submit("lab", ONE)
        gangs = [first, second]
        await world.until(lambda: all(map(world.jobs.is_whole, gangs)), within=60 * MINUTE)
        world.kueue.quota = {}
        for each in gangs:
            world.kueue.evict(each, "Preempted")
        takers = [world.submit("prod", ONE), world.submit("next", ONE)]
        await world.until(lambda: all(map(world.jobs.is_whole, takers)), within=MINUTE)
        assert world.bought == {"dev": 1, "lab": 1}
        assert len(world.leases_of(takers[0]) | world.leases_of(takers[1])) == 2


@on_virtual_time
async def test_of_two_gangs_that_take_one_lease_at_once_one_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As two leaders do that do not see each other for a moment."""
    sees, looks = View._is_booked, itertools.count()
    monkeypatch.setattr(View, "_is_booked", lambda *args: next(looks) >= 2 and sees(*args))
    monkeypatch.setattr(LeftLeases, "taking", lambda *_: contextlib.nullcontext())
    async with played(Preempted(l4=4)) as world:
        prod = await world.preempt(await world.dev_runs())
        other = world.submit("other", TWO)
        gangs = [prod, other]
        await world.until(lambda: all(map(world.jobs.is_whole, gangs)), within=30 * MINUTE)
        assert world.bought.total() == 4, "one of them asked the cloud"


@pytest.mark.parametrize("is_closed", [False, True])
@on_virtual_time
async def test_a_larger_lease_with_a_broken_node_is_taken_once_that_one_is_closed(is_closed: bool) -> None:
    """Nothing says to which of its nodes the pods of a smaller gang go."""
    async with played(Preempted(l4=5)) as world:
        dev = await world.dev_runs({"main": ("l4", 3)})
        (lease,) = world.leases_of(dev)
        broken = world.cloud.nodes(lease.removeprefix("lease-"))[0]
        world.server.set_condition(broken, SIGN, "False")
        held = world.cloud.node(broken.metadata.name)
        assert held is not None
        world.server.close(held, is_closed=is_closed)
        prod = await world.preempt(dev, TWO)
        await world.until(lambda: world.jobs.is_whole(prod), within=30 * MINUTE)
        assert (world.leases_of(prod) == {lease}) is is_closed
        assert broken.metadata.name not in world.jobs.running[prod.key].pods.values()


@on_virtual_time
async def test_nodes_that_go_before_the_gang_is_whole_are_asked_for_again() -> None:
    """The h100 comes an hour later, and idle nodes go after ten minutes."""
    async with played(Preempted(h100=0)) as world:
        prod = await world.preempt(await world.dev_runs(), BOTH)
        await asyncio.sleep(20 * MINUTE)
        assert not len(world.server.caches[NODE].store)
        world.cloud.stock["h100"] = 1
        world.cloud.serve("h100")
        await world.until(lambda: world.jobs.is_whole(prod), within=90 * MINUTE)
        assert world.bought == {"dev": 2, "prod": 3}


@on_virtual_time
async def test_a_controller_that_dies_with_the_lease_taken_goes_on_with_it() -> None:
    async with played(Preempted()) as world:
        prod = await world.preempt(await world.dev_runs())
        templates = world.server.caches[POD_TEMPLATE].store
        await world.until(lambda: any("prod" in str(each) for each in templates), within=MINUTE)
        await world.kill_controller()
        world.start_controller()
        await world.until(lambda: world.jobs.is_whole(prod), within=MINUTE)
        assert world.bought == {"dev": 2}


@on_virtual_time
async def test_a_controller_that_was_away_while_the_nodes_were_left_finds_them() -> None:
    async with played(Preempted()) as world:
        dev = await world.dev_runs()
        await world.kill_controller()
        prod = await world.preempt(dev)
        world.start_controller()
        await world.until(lambda: world.jobs.is_whole(prod), within=MINUTE)
        await asyncio.sleep(60 * MINUTE)
        await world.kill_controller()
        world.kueue.quota["prod"] = {}
        world.kueue.evict(prod, "Preempted")
        world.start_controller()
        await asyncio.sleep(5)
        lab = world.submit("lab", TWO)
        await world.until(lambda: world.jobs.is_whole(lab), within=MINUTE)
        assert world.bought == {"dev": 2}


def _tainted(world: Preempted) -> None:
    store = world.server.caches[NODE].store
    for held in list(store):
        sick = Taint(key="sick", effect="NoSchedule")
        world.server.put(NODE, replace(held, spec=NodeSpec(taints=(*held.spec.taints, sick))))


def _without_gpu(world: Preempted) -> None:
    for held in list(world.server.caches[NODE].store):
        size = {**held.status.allocatable, GPU_RESOURCE: "0"}
        world.server.put(NODE, replace(held, status=replace(held.status, allocatable=size)))


def _silent(world: Preempted) -> None:
    for held in list(world.server.caches[NODE].store):
        world.server.set_ready(held, "Unknown")


def _occupied(world: Preempted) -> None:
    for held in list(world.server.caches[NODE].store):
        name = held.metadata.name
        meta = ObjectMeta(name=f"other-{name}", namespace="other", uid=f"other-{name}")
        world.server.put(POD, Pod(metadata=meta, spec=replace(pod_spec(1), node_name=name)))


def _revoked(world: Preempted) -> None:
    for request in list(world.server.caches[PROVISIONING_REQUEST].store):
        world.server.answer(request, "CapacityRevoked", "Revoked")


HARMS = {
    "tainted": _tainted,
    "without a GPU": _without_gpu,
    "silent": _silent,
    "occupied": _occupied,
    "revoked": _revoked,
}


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
@on_virtual_time
async def test_nodes_on_which_the_gang_could_not_start_are_not_taken(
    harm: Callable[[Preempted], None],
) -> None:
    async with played(Preempted(l4=4)) as world:
        dev = await world.dev_runs()
        harm(world)
        prod = await world.preempt(dev)
        await world.until(lambda: world.jobs.is_whole(prod), within=60 * MINUTE)
        assert world.bought == {"dev": 2, "prod": 2}


@pytest.mark.parametrize(
    ("runs", "bought"),
    [
        pytest.param(0.4, {"dev": 2}, id="more than half is left"),
        pytest.param(0.6, {"dev": 2, "prod": 2}, id="less than half is left"),
    ],
)
@on_virtual_time
async def test_nodes_are_taken_while_enough_of_their_run_duration_is_left(
    runs: float, bought: dict[str, int]
) -> None:
    flavors = tuple(
        dataclasses.replace(each, parameters={"maxRunDurationSeconds": "86400"} if each.name == "l4" else {})
        for each in RULES.flavors
    )
    async with played(Preempted(dataclasses.replace(RULES, flavors=flavors), l4=4)) as world:
        dev = await world.dev_runs()
        await asyncio.sleep(runs * DAY)
        prod = await world.preempt(dev)
        await world.until(lambda: world.jobs.is_whole(prod), within=60 * MINUTE)
        assert world.bought == bought


@on_virtual_time
async def test_a_lease_is_not_taken_again_and_again_where_bookings_are_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The cloud removes idle nodes after ten minutes, whatever the policy's window and margin are."""
    async with played(Preempted(dataclasses.replace(RULES, booking_margin=timedelta(minutes=4)))) as world:
        world.cloud.slow["h100"] = 1.0
        made, create = list[str](), Requests.create_templates

        async def counted(self: Requests, owner: Owner, action: CreateTemplates, *others: Any) -> None:
            made.append(action.request)
            await create(self, owner, action, *others)

        monkeypatch.setattr(Requests, "create_templates", counted)
        dev = await world.dev_runs()
        made.clear()
        prod = await world.preempt(dev, BOTH, after=6.5 * MINUTE)
        await world.until(lambda: world.jobs.is_whole(prod), within=60 * MINUTE)
        assert world.bought == {"dev": 2, "prod": 1}
        assert len(made) == 2


def test_a_lease_that_was_taken_is_not_given_back_for_room_that_is_only_promised() -> None:
    """Another gang's head may go to any node of the pool. The next step would take the lease again, and so on
    until that pod has its node.
    """
    paper, templates, writes = PaperWorld(), tuple[PodTemplate, ...](), list[object]()
    paper.submit("a", {"main": ("l4", 1), "head": ("cpu", 1)})
    paper.kueue()
    held = paper.workloads["a"]
    admission = held.status.admission
    assert admission is not None
    main, head = admission.pod_set_assignments
    admission = replace(admission, pod_set_assignments=(main, replace(head, flavors={"cpu": "l4"})))
    paper.workloads["a"] = replace(held, status=replace(held.status, admission=admission))
    nodes, ends = (node("n1", "l4", "old"), node("n2", "l4")), paper.now + timedelta(days=7)
    left = VacatedLease(name="old", pool="l4", left=paper.now, ends=ends, nodes=nodes[:1])
    (own,) = paper.snapshot("a").gang.present
    needs = dataclasses.replace(own.needs, amounts={"cpu": Fraction(4)})
    promised = PodDemand(name="head", pool="l4", count=1, needs=needs)
    for claims in ((promised,), (promised,), (promised,), ()):
        snapshot = paper.snapshot("a")
        taken = tuple(taken_leases(templates))
        snapshot = dataclasses.replace(snapshot, templates=templates, requests=taken)
        decision = decide(among(snapshot, vacated=() if taken else (left,), claims=claims, nodes=nodes))
        for action in decision.actions:
            if isinstance(action, CreateTemplates):
                meta = paper.meta(template_name(action.request, 0), action.labels)
                templates = (PodTemplate(metadata=replace(meta, annotations=dict(action.notes))),)
            elif isinstance(action, Delete):
                templates = ()
        writes += [type(each) for each in decision.actions if isinstance(each, CreateTemplates | Delete)]
    assert writes == [CreateTemplates]
    assert any(isinstance(each, SetCheckState) and each.state == State.READY for each in decision.actions)
