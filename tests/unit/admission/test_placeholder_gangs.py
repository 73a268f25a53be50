"""Gangs that ask by placeholders, and by both ways at once, on paper."""

import dataclasses
from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.controller.gangs.actions import CreateSet, EmitEvent
from muster.controller.gangs.autoscaler_words import BOOTING, NO_MACHINE, OUT_OF_STOCK
from muster.controller.gangs.demand import pod_amounts, pod_needs
from muster.controller.gangs.objects import Node, PlaceholderStatus, PodSpec
from muster.controller.gangs.placeholder_sets import held_for
from muster.controller.gangs.placeholders import waiting_spec
from muster.controller.gangs.retry import LAST_FAILURE, parse_history
from muster.controller.gangs.verify import PodDemand
from muster.controller.kube.resource import OwnerReference
from muster.controller.kueue.actions import SetCheckState, State
from muster.controller.kueue.objects import CheckState
from muster.model.gangpolicy import GangPolicy, RetryPolicy
from muster.model.names import ELASTIC_JOB, PLACED_ANNOTATION, PLACEHOLDER_CLASS, POOL_LABEL
from tests.length import examples
from tests.unit.admission.gang_world import POLICY, entry_of, entry_state, pod_spec, replace
from tests.unit.admission.placed_world import PLACED, PlacedWorld
from tests.unit.admission.test_gang_machine import MINUTE
from tests.unit.admission.views import OneCheck, view_over
from tests.unit.gangs.paper import flavor_policy, with_condition
from tests.unit.gangs.placed_paper import HARMS, Harm

RARELY = dataclasses.replace(
    PLACED, retry=RetryPolicy(base=timedelta(hours=2), max=timedelta(hours=2), deadline=timedelta(days=3))
)


def world_of(policy: GangPolicy = PLACED, **stock: int) -> PlacedWorld:
    return PlacedWorld(stock={"l4": 0, "h100": 0, **stock}, quota=9, policy=policy)


def prioritized(world: PlacedWorld, name: str, count: int, *, priority: int) -> None:
    world.submit(name, {"main": ("l4", count)})
    world._spec(name, priority=priority)


def tick(world: PlacedWorld, *, times: int = 1) -> None:
    for _ in range(times):
        world.tick()
        world.sweep()
        assert world.circles() == []
        for held in world.nodes.values():
            assert not (held_for(held) and not world.is_held(held_for(held)))


def test_a_gang_waits_for_the_last_node_and_then_runs_on_what_was_kept_for_it() -> None:
    world = world_of(l4=2)
    world.submit("a", {"main": ("l4", 3)})
    tick(world, times=3)
    world.still()
    assert "2 of 3 l4 nodes for main (limit 30m)" in entry_of(world).message
    assert not world.pods
    world.stock["l4"] = 3
    tick(world, times=30)
    assert world.ended == ["a"]
    assert not world.placeholders
    assert not world.templates


def test_a_node_that_is_lost_in_between_is_asked_for_again_within_the_deadline() -> None:
    world = world_of(RARELY, l4=2)
    world.submit("a", {"main": ("l4", 3)})
    tick(world, times=3)
    world.take_away(sorted(world.nodes)[0])
    tick(world)
    assert len(world.placeholders) == 3
    tick(world, times=3)
    assert not world.workloads["a"].spec.active, "the deadline has not moved"


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
def test_a_node_that_no_pod_of_the_gang_can_enter_any_more_does_not_count(harm: Harm) -> None:
    """The scheduler looked at it when it bound the placeholder, minutes ago."""
    world = world_of(l4=2)
    world.submit("a", {"main": ("l4", 3)})
    tick(world, times=3)
    sick = sorted(world.nodes)[0]
    harm(world, sick)
    world.stock["l4"] = 3
    world.cloud()
    world.settle()
    assert entry_state(world, "a") is State.PENDING
    assert sick not in {pod.spec.node_name for pod in world.placeholders.values()}, "it is asked for again"
    world.stock["l4"] = 4
    tick(world, times=30)
    assert world.ended == ["a"]


def test_a_node_whose_kubelet_is_silent_for_a_moment_is_waited_for() -> None:
    world = world_of(l4=2)
    world.submit("a", {"main": ("l4", 2)})
    for part in (world.kueue, world.settle, world.cloud):
        part()
    silent = sorted(world.nodes)[0]
    world.taint(silent, "node.kubernetes.io/not-ready")
    world.settle()
    assert entry_state(world, "a") is State.PENDING
    assert silent in {pod.spec.node_name for pod in world.placeholders.values()}


@pytest.mark.parametrize(
    ("stock", "words", "minutes", "rejects"),
    [
        (2, "", 6, False),
        (2, OUT_OF_STOCK, 6, False),
        (0, OUT_OF_STOCK, 6, False),
        (0, NO_MACHINE, 6, False),
        (2, BOOTING, 31, False),
        (2, BOOTING, 31, True),
        (2, OUT_OF_STOCK, 6, True),
        (0, "", 31, False),
    ],
)
def test_what_a_gang_cannot_use_is_not_paid_for_until_the_deadline(
    stock: int, words: str, minutes: int, rejects: bool
) -> None:
    """Unless more of it is on the way, or it costs nothing. `rejects`: one of its nodes takes no pod."""
    world = world_of(RARELY, l4=stock)
    world.words = words
    world.submit("a", {"main": ("l4", 3)})
    ended = 0
    while world.workloads["a"].spec.active and ended < 60:
        tick(world)
        for key, pod in sorted(world.placeholders.items())[: int(rejects)]:
            status = PlaceholderStatus(phase="Failed", reason="UnexpectedAdmissionError")
            world.placeholders[key] = replace(pod, status=status)
        ended += 1
    assert ended == minutes
    assert not world.placeholders
    assert not world.templates
    assert not world.pods
    failure = world.workloads["a"].metadata.annotations[LAST_FAILURE]
    assert failure.startswith(OUT_OF_STOCK) is (words == OUT_OF_STOCK)
    assert f"{stock - rejects} of 3 l4 nodes" in failure


BOTH = dataclasses.replace(
    RARELY,
    flavors=tuple(
        dataclasses.replace(each, provisioning_class_name=PLACEHOLDER_CLASS, node_selector_from_details=())
        for each in PLACED.flavors
    ),
)
"""Each pool gets its nodes by placeholders."""


def test_what_is_lost_late_has_the_whole_time_to_come_again() -> None:
    """It had come long before, and nodes of the other pool were still coming."""
    world = world_of(BOTH, l4=2)
    world.submit("a", {"big": ("h100", 4), "small": ("l4", 2)})
    for world.stock["h100"] in (1, 2, 3):
        for _ in range(4):
            tick(world)
            bind(world)
    world.stock |= {"h100": 4, "l4": 1}
    world.take_away(next(key for key in world.nodes if key.startswith("l4")))
    ended = 0
    while world.workloads["a"].spec.active and ended < 60:
        tick(world)
        bind(world)
        ended += 1
    assert ended == 6


@pytest.mark.parametrize("count", [4, 1])
def test_a_place_that_a_kubelet_rejects_is_tried_less_and_less_often(count: int) -> None:
    world = world_of(l4=4)
    world.begin("a", {"main": ("l4", count)})
    made = set[str]()
    for _ in range(280):
        world.now += timedelta(seconds=1)
        world.cloud()
        for key, pod in world.placeholders.items():
            made.add(pod.metadata.uid)
            if key.endswith("-0") and not pod.status.has_ended:
                status = PlaceholderStatus(phase="Failed", reason="TopologyAffinityError")
                world.placeholders[key] = replace(pod, status=status)
        world.settle()
    assert "TopologyAffinityError" in entry_of(world).message
    assert 6 <= len(made) - count <= 12
    for _ in range(30):
        world.now += timedelta(seconds=1)
        world.settle()
    assert "TopologyAffinityError" in world.workloads["a"].metadata.annotations[LAST_FAILURE]


def test_a_node_that_is_given_again_and_takes_no_pod_is_tried_less_and_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its pods tolerate the cordon, so that the scheduler binds them there."""
    world = world_of(l4=3)
    monkeypatch.setattr(world, "goes", lambda _: False)
    world.submit("a", {"main": ("l4", 4)})
    for part in (world.kueue, world.settle, world.cloud):
        part()
    cordoned = min(world.nodes)
    held = world.nodes[cordoned]
    world.nodes[cordoned] = replace(held, spec=replace(held.spec, unschedulable=True))
    made = set[str]()
    for _ in range(280):
        world.now += timedelta(seconds=1)
        world.settle()
        world.cloud()
        made |= {pod.metadata.uid for pod in world.placeholders.values()}
    assert 6 <= len(made) - 4 <= 12


def test_placeholders_are_made_when_the_cloud_has_provisioned_what_it_queued() -> None:
    world = world_of(l4=2, h100=1)
    world.delay = {"h100": timedelta(minutes=20)}
    world.submit("a", {"big": ("h100", 1), "small": ("l4", 2)})
    tick(world, times=15)
    assert not world.placeholders
    tick(world, times=40)
    assert world.ended == ["a"]


def test_placeholders_are_given_back_when_a_cloud_is_asked_again_for_its_part() -> None:
    """One of its nodes turned out to be broken while others were waited for."""
    world = world_of(l4=2, h100=2)
    world.submit("a", {"big": ("h100", 1), "small": ("l4", 3)})
    tick(world, times=4)
    assert len(world.placeholders) == 3
    world.stock["l4"], world.delay = 3, {"h100": timedelta(minutes=20)}
    (broken,) = (key for key, held in world.nodes.items() if held.metadata.labels[POOL_LABEL] == "h100")
    world.condition(broken, "AcceleratedHardwareReady", "False")
    seen: dict[str, datetime] = {}
    for _ in range(3):
        world.close_broken(seen)
        tick(world)
    assert world.requests
    assert not world.placeholders
    tick(world, times=60)
    assert world.ended == ["a"]


@pytest.mark.parametrize("splits", [["a"], ["a", "b"]], ids=["in the queue", "and behind it"])
def test_a_gang_that_waits_in_a_clouds_queue_stops_nobody_who_needs_none_of_it(splits: list[str]) -> None:
    world = world_of(l4=4)
    world.order = lambda names: []  # The cloud answers no request.
    for name in splits:
        world.submit(name, {"big": ("h100", 1), "small": ("l4", 1)})
        tick(world)
    world.submit("tiny", {"main": ("l4", 1)})
    prioritized(world, "high", 2, priority=1000)
    tick(world, times=3)
    assert {"tiny", "high"} <= world.started.keys()


def test_a_gang_whose_head_has_no_place_stops_nobody() -> None:
    no_nodes = flavor_policy("cpu", 0, provisioning_class_name="", node_selector_from_details=())
    world = world_of(dataclasses.replace(PLACED, flavors=(*PLACED.flavors, no_nodes)), l4=2)
    world.submit("a", {"head": ("cpu", 1), "main": ("l4", 1)})
    tick(world)
    world.submit("b", {"main": ("l4", 1)})
    tick(world, times=3)
    assert "b" in world.started
    assert entry_state(world, "a") is State.PENDING


@pytest.mark.parametrize("stock", [3, 4])
def test_a_gang_of_low_priority_keeps_no_nodes_that_a_higher_one_needs(stock: int) -> None:
    """Nor does it get those that are freed for that one."""
    world = world_of(l4=stock)
    world.submit("low", {"main": ("l4", 5)})
    tick(world, times=2)
    prioritized(world, "high", 2, priority=1000)
    tick(world, times=3)
    assert "high" in world.started
    world.stock["l4"] = 7
    tick(world, times=40)
    assert world.ended == ["high", "low"]


@pytest.mark.parametrize(
    ("count", "nodes", "words"),
    [(881, 8, "needs 9 nodes"), (5001, 0, "5000 at most"), (880, 8, ""), (5000, 0, "")],
)
def test_a_gang_of_more_pods_than_can_ever_stand_is_refused(count: int, nodes: int, words: str) -> None:
    """Pods that ask for next to nothing: by size the pool has room for all of them."""
    l4 = dataclasses.replace(PLACED.flavors[0], max_nodes=nodes, per_node={"cpu": "64"})
    world = world_of(dataclasses.replace(PLACED, flavors=(l4,)), l4=9)
    world.submit("a", {"main": ("l4", count)})
    world._pods("a", PodSpec())
    world.kueue()
    decision = world.decided("a")
    makes = any(isinstance(each, CreateSet) for each in decision.actions)
    refusals = [each.message for each in decision.actions if isinstance(each, EmitEvent)]
    assert makes is not bool(words)
    assert not words or words in refusals[0]


def test_two_gangs_with_capacity_for_one_run_one_after_the_other() -> None:
    world = world_of(l4=0)
    world.submit("a", {"main": ("l4", 3)})
    world.submit("b", {"main": ("l4", 3)})
    tick(world)
    assert len(world.placeholders) == 6, "both ask"
    world.stock["l4"] = 4
    tick(world, times=60)
    assert world.ended == ["a", "b"]


def test_a_head_without_a_gpu_in_such_a_pool_has_a_placeholder_too() -> None:
    """Kueue puts it there when its own pool has no quota left. The taint of its gang would keep it out."""
    world = world_of(l4=3)
    world.submit("a", {"main": ("l4", 2), "head": ("l4", 1)})
    world._pods("a", pod_spec(0), pod_set="head")
    tick(world)
    assert len(world.placeholders) == 3
    tick(world, times=30)
    assert world.ended == ["a"]


def test_a_pool_that_leaves_placeholders_keeps_neither_them_nor_a_taint() -> None:
    """A gang has lost one of its nodes and waits, and the others have its taint."""
    world = world_of(l4=3)
    world.submit("a", {"main": ("l4", 3)})
    for part in (world.kueue, world.settle, world.cloud, world.settle):
        part()
    world.stock["l4"] = 2
    world.take_away(sorted(world.nodes)[0])
    world.settle()
    assert sum(bool(held_for(node)) for node in world.nodes.values()) == 2
    assert len(world.placeholders) == 3
    world.policy = dataclasses.replace(PLACED, flavors=(flavor_policy("l4", 10, provisioning_class_name=""),))
    world.settle()
    world.sweep()
    assert not world.placeholders
    assert not any(map(held_for, world.nodes.values()))


def test_a_gang_whose_pool_leaves_placeholders_has_no_place_in_line_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would keep gangs of lower priority from nodes that it does not wait for."""
    listeners = list[Callable[[], None]]()
    monkeypatch.setattr(OneCheck, "listen", lambda _, changed: listeners.append(changed))
    world = world_of(l4=0)
    prioritized(world, "high", 2, priority=1000)
    tick(world)
    view = view_over(world)
    high = world.workloads["high"]
    view.split_gangs.reconciling(high.key, now=world.now)
    assert [each.priority for each in view.split_gangs.line] == [1000]
    monkeypatch.setattr(view.checks, "_policy", POLICY)
    for changed in listeners:
        changed()
    view.split_gangs.reconciling(high.key, now=world.now)
    assert not [*view.split_gangs.line]


gangs = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d"]),
    st.dictionaries(
        st.sampled_from(["x", "y", "z"]),
        st.tuples(st.sampled_from(["l4", "l4", "h100"]), st.integers(min_value=1, max_value=2)),
        min_size=1,
        max_size=3,
    ),
    min_size=1,
    max_size=4,
)
clouds = st.lists(
    st.tuples(
        st.sampled_from(
            ["tick", "tick", "tick", "lose", "sick", "well", "preempt", "evict", "rival", "stock", "leap"]
        ),
        st.integers(min_value=0, max_value=7),
    ),
    max_size=25,
)


def disturb(world: PlacedWorld, kind: str, number: int) -> None:
    nodes, running = sorted(world.nodes), sorted(world.started)
    kept = sorted(world.placeholders)
    match kind:
        case "lose" if nodes:
            world.take_away(nodes[number % len(nodes)])
        case "sick" | "well" if nodes:
            held = world.nodes[nodes[number % len(nodes)]]
            status = "True" if kind == "well" else "False"
            conditions = with_condition(held.status.conditions, "Ready", status, world.now)
            world.nodes[held.metadata.name] = replace(
                held, status=replace(held.status, conditions=conditions)
            )
        case "preempt" if running:
            world.evict(running[number % len(running)], "Preempted")
        case "evict" if kept:
            del world.placeholders[kept[number % len(kept)]]
        case "rival":
            world.rival()
        case "stock":
            world.stock["l4"] = number
        case "leap":
            world.now += number * 5 * MINUTE
    world.settle()
    tick(world)


def calm(world: PlacedWorld) -> None:
    world.stock = {"l4": 99, "h100": 99}
    for key in list(world.nodes):  # Sick ones are repaired by replacing them.
        if not world.nodes[key].status.holds("Ready"):
            world.take_away(key)
    for _ in range(600):
        world.tick(2 * MINUTE)
        world.sweep()
        if len(world.ended) == len(world.workloads):
            break
    else:
        raise AssertionError(f"only {sorted(world.ended)} of {sorted(world.workloads)} ended")
    assert not world.requests
    assert not world.templates
    assert not world.placeholders
    assert not any(map(held_for, world.nodes.values()))


@settings(max_examples=examples(40), deadline=None)
@given(gangs, clouds)
def test_whatever_the_cloud_does_nothing_starts_in_part_and_everything_is_given_back(
    wanted: dict[str, dict[str, tuple[str, int]]], disturbances: list[tuple[str, int]]
) -> None:
    world = world_of(l4=2, h100=2)
    for name, pieces in wanted.items():
        world.submit(name, pieces)
    for kind, number in disturbances:
        disturb(world, kind, number)
    calm(world)


@settings(max_examples=examples(40), deadline=None)
@given(gangs, clouds, st.lists(st.integers(min_value=0, max_value=12), min_size=1, max_size=12))
def test_a_crash_after_any_write_changes_none_of_that(
    wanted: dict[str, dict[str, tuple[str, int]]], disturbances: list[tuple[str, int]], crashes: list[int]
) -> None:
    world = world_of(l4=2, h100=2)
    for name, pieces in wanted.items():
        world.submit(name, pieces)
    for count, (kind, number) in enumerate(disturbances):
        world.crash_after = world.writes + crashes[count % len(crashes)]
        disturb(world, kind, number)
        world.crash_after = None
        world.settle()
    calm(world)


# What placeholders cannot do

HOST = {"topologyKey": "kubernetes.io/hostname"}
ZONE = {"topologyKey": "topology.kubernetes.io/zone"}
HARD = "requiredDuringSchedulingIgnoredDuringExecution"
SOFT = "preferredDuringSchedulingIgnoredDuringExecution"
SPREAD = "topologySpreadConstraints"
PORTS = "hostNetwork with ports"
PINNED = ({"containerPort": 80, "hostPort": 80},)
OPEN = ({"containerPort": 80},)


def answer_to(
    spec: dict[str, object],
    *,
    ports: tuple[dict[str, int], ...] = (),
    gpus_per_node: int = 2,
    max_nodes: int = 8,
    placed: bool = True,
) -> str:
    """Why a gang of two pods, each with a GPU, is refused; empty where it waits for nodes."""
    l4, h100 = PLACED.flavors
    way = l4.provisioning_class_name if placed else h100.provisioning_class_name
    flavor = dataclasses.replace(
        l4, gpus_per_node=gpus_per_node, max_nodes=max_nodes, provisioning_class_name=way
    )
    world = world_of(dataclasses.replace(PLACED, flavors=(flavor, h100)))
    world.submit("a", {"main": ("l4", 2)})
    plain = msgspec.to_builtins(pod_spec(1))
    plain["containers"][0]["ports"] = ports
    world._pods("a", msgspec.convert({**plain, **spec}, PodSpec))
    return refusal(world)


def refusal(world: PlacedWorld) -> str:
    world.tick()
    held = world.workloads["a"]
    if held.spec.active:
        return ""
    assert not world.placeholders
    return parse_history(held).refused


def affinity(kind: str, way: str, term: object) -> dict[str, object]:
    return {"affinity": {kind: {way: [term]}}}


def spread(where: dict[str, str], way: str) -> dict[str, object]:
    return {SPREAD: [{**where, "maxSkew": 1, "whenUnsatisfiable": way}]}


@pytest.mark.parametrize(
    ("spec", "ports", "field"),
    [
        (affinity("podAntiAffinity", HARD, HOST), (), "affinity.podAntiAffinity"),
        (affinity("podAntiAffinity", HARD, ZONE), (), "affinity.podAntiAffinity"),
        (affinity("podAffinity", HARD, ZONE), (), "affinity.podAffinity"),
        (spread(ZONE, "DoNotSchedule"), (), f"{SPREAD} with whenUnsatisfiable: DoNotSchedule"),
        ({}, PINNED, "hostPort"),
        ({"initContainers": [{"restartPolicy": "Always", "ports": PINNED}]}, (), "hostPort"),
        ({"hostNetwork": True}, OPEN, PORTS),
        ({"resourceClaims": [{"name": "nic", "resourceClaimName": "one"}]}, (), "resourceClaims"),
        ({"volumes": [{"name": "own", "ephemeral": {}}]}, (), "ephemeral volumes"),
    ],
)
def test_a_gang_whose_pods_may_not_fit_where_placeholders_do_is_refused_at_once(
    spec: dict[str, object], ports: tuple[dict[str, int], ...], field: str
) -> None:
    reason = answer_to(spec, ports=ports)
    assert f"main has {field}" in reason
    assert "pool l4 gets gangs by placeholders" in reason
    assert "`capacity: queued`" in reason
    assert answer_to(spec, ports=ports, placed=False) == "", "a ProvisioningRequest sends the whole template"


@pytest.mark.parametrize(
    ("spec", "ports"),
    [
        (affinity("podAntiAffinity", SOFT, {"weight": 1, "podAffinityTerm": HOST}), ()),
        (spread(ZONE, "ScheduleAnyway"), ()),
        ({"volumes": [{"name": "common", "persistentVolumeClaim": {"claimName": "data"}}]}, ()),
        ({"hostNetwork": True}, ()),
        ({"initContainers": [{"ports": PINNED}]}, ()),
        ({}, OPEN),
    ],
)
def test_preferences_and_ports_of_the_pod_alone_are_no_reason(
    spec: dict[str, object], ports: tuple[dict[str, int], ...]
) -> None:
    assert answer_to(spec, ports=ports) == ""


@pytest.mark.parametrize(
    ("spec", "ports", "field"),
    [
        ({}, PINNED, "hostPort"),
        ({"initContainers": [{"restartPolicy": "Always", "ports": PINNED}]}, (), "hostPort"),
        ({"hostNetwork": True}, OPEN, "hostNetwork"),
    ],
)
def test_pods_that_take_a_port_of_their_node_need_one_each(
    spec: dict[str, object], ports: tuple[dict[str, int], ...], field: str
) -> None:
    reason = answer_to(spec, ports=ports, max_nodes=1, placed=False)
    assert f"main (one for each pod, by its {field}) needs 2 nodes" in reason
    assert answer_to(spec, ports=ports, max_nodes=2, placed=False) == ""
    assert answer_to({}, ports=OPEN, max_nodes=1, placed=False) == ""


def test_pods_that_have_a_node_each_may_keep_off_a_shared_one() -> None:
    for spec in (affinity("podAntiAffinity", HARD, HOST), spread(HOST, "DoNotSchedule")):
        assert answer_to(spec, gpus_per_node=1) == ""
    assert answer_to({"hostNetwork": True}, ports=PINNED, gpus_per_node=1) == ""
    assert answer_to({"volumes": [{"name": "own", "ephemeral": {}}]}, gpus_per_node=1) == ""
    assert answer_to(affinity("podAntiAffinity", HARD, ZONE), gpus_per_node=1)


def test_a_placeholder_has_the_runtime_class_of_its_pod_and_no_overhead_twice() -> None:
    """The API server adds the class's node selector, tolerations and overhead to each pod that names it."""
    spec = replace(pod_spec(1), runtime_class_name="kata", overhead={"cpu": "250m", "memory": "120Mi"})
    needs = pod_needs(spec, pod_amounts(spec), node_selector={})
    demand = PodDemand(name="main", pool="l4", count=1, needs=needs)
    made = waiting_spec(demand, "pause", max_lifetime=MINUTE)
    assert made["runtimeClassName"] == "kata"
    (container,) = made["containers"]
    assert container["resources"]["requests"] == {"cpu": "1000m", "memory": str(2**30), "nvidia.com/gpu": "1"}
    plain = pod_needs(pod_spec(1), pod_amounts(pod_spec(1)), node_selector={})
    assert "runtimeClassName" not in waiting_spec(
        dataclasses.replace(demand, needs=plain), "pause", max_lifetime=MINUTE
    )


def test_placeholders_end_without_us_and_not_before_the_last_pool_of_their_gang_has_had_its_time() -> None:
    world = world_of(h100=1)
    world.submit("a", {"big": ("h100", 1), "small": ("l4", 1)})
    for part in (world.kueue, world.settle, world.cloud, world.cloud):
        part()
    lifetimes = {each.max_lifetime for each in world.decided("a").actions if isinstance(each, CreateSet)}
    assert lifetimes == {PLACED.queue_timeout + 2 * PLACED.provision_timeout}


def test_a_gang_has_so_many_placeholders_in_all_its_pools() -> None:
    """Each of its pools alone is within the bound."""
    flavors = tuple(dataclasses.replace(each, max_nodes=5_000) for each in BOTH.flavors)
    world = world_of(dataclasses.replace(BOTH, flavors=flavors))
    world.submit("a", {"big": ("h100", 3_000), "small": ("l4", 3_000)})
    world.quota = 10_000
    assert "the gang has 6000 pods" in refusal(world)


def test_nodes_that_come_one_after_another_are_one_write() -> None:
    world = world_of(l4=1)
    world.submit("a", {"main": ("l4", 8)})
    tick(world)
    said = set[str]()
    for count in range(1, 8):
        world.now += timedelta(seconds=2)
        world.stock["l4"] = count
        bind(world)
        world.settle()
        said.add(entry_of(world).message)
    assert len(said) == 1, said
    world.now += timedelta(seconds=10)
    world.settle()
    assert entry_of(world).message.startswith("7 of 8 l4 nodes")


def bind(world: PlacedWorld) -> None:
    """As the scheduler does, which says when."""
    world.cloud()
    for name, pod in world.placeholders.items():
        if pod.spec.node_name and not pod.status.conditions:
            bound = with_condition((), "PodScheduled", "True", world.now)
            world.placeholders[name] = replace(pod, status=PlaceholderStatus(conditions=bound))


def test_nodes_that_come_far_apart_are_few_writes() -> None:
    world = world_of(l4=1)
    world.submit("a", {"main": ("l4", 100)})
    world.policy = dataclasses.replace(PLACED, flavors=(dataclasses.replace(PLACED.flavors[0], max_nodes=0),))
    tick(world)
    said = list[str]()
    for world.stock["l4"] in range(1, 93):
        world.now += timedelta(seconds=5)
        bind(world)
        world.settle()
        world.still()
        said.append(entry_of(world).message)
    assert len(set(said)) <= 12
    world.now += timedelta(minutes=3)
    world.settle()
    assert entry_of(world).message.startswith("92 of 100 l4 nodes")


@dataclasses.dataclass
class Stamped(PlacedWorld):
    """An answer has the time at which it was written, as the executor does it."""

    said: list[str] = dataclasses.field(default_factory=list)

    def write(self, name: str, action: object) -> None:
        super().write(name, action)
        if isinstance(action, SetCheckState):
            (entry,) = self.workloads[name].status.admission_checks
            self._status(name, admission_checks=(replace(entry, last_transition_time=self.now),))
            self.said.append(action.message)


def test_an_autoscaler_that_alternates_between_two_answers_is_few_writes() -> None:
    """Karpenter makes a node for each try, and then reads that none is to be had."""
    world = Stamped(stock={"l4": 1, "h100": 0}, quota=9, policy=RARELY)
    world.submit("a", {"main": ("l4", 3)})
    world.tick()
    while world.workloads["a"].spec.active:
        world.now += timedelta(seconds=5)
        world.words = {BOOTING: OUT_OF_STOCK}.get(world.words, BOOTING)
        world.settle()
    assert {BOOTING in said for said in world.said} == {True, False}
    assert len(world.said) <= 11
    assert parse_history(world.workloads["a"]).last_failure.startswith(OUT_OF_STOCK)


def test_an_elastic_job_that_is_no_ray_cluster_is_refused_before_it_starts() -> None:
    """Pods of its growth would wait behind Kueue's gate for ever."""
    world = world_of(l4=3)
    world.submit("a", {"main": ("l4", 2)})
    made = world.workloads["a"]
    owner = OwnerReference(kind="Job", name="a", uid="uid-job", controller=True)
    notes = {**made.metadata.annotations, ELASTIC_JOB: "true"}
    world._metadata("a", annotations=notes, owner_references=(owner,))
    reason = refusal(world)
    assert "pool l4 gets gangs by placeholders" in reason
    assert f"remove the annotation {ELASTIC_JOB}" in reason


@dataclasses.dataclass
class KeepsIdleNodes(PlacedWorld):
    """As cluster-autoscaler does, for ten minutes."""

    empty_since: dict[str, datetime] = dataclasses.field(default_factory=dict)

    def goes(self, empty: Node) -> bool:
        since = self.empty_since.setdefault(empty.metadata.name, self.now)
        return self.now - since >= timedelta(minutes=10)


def test_a_gang_that_preempts_gets_the_idle_nodes_and_buys_none() -> None:
    world = KeepsIdleNodes(stock={"l4": 4, "h100": 0}, quota=1, policy=PLACED)
    world.submit("dev", {"main": ("l4", 2)})
    tick(world, times=3)
    assert "dev" in world.started
    bought = set(world.nodes)
    world.evict("dev", "Preempted")
    world.submit("a-prod", {"main": ("l4", 2)})
    began = world.now
    while "a-prod" not in world.started:
        world.tick(timedelta(seconds=5))
        assert world.now - began < MINUTE
    assert set(world.nodes) == bought


@pytest.mark.parametrize(("waited", "is_left"), [(2, False), (10, False), (2, True)])
def test_nodes_are_not_paid_for_while_no_policy_says_what_for(waited: int, is_left: bool) -> None:
    """`waited`: minutes, while the rest of its nodes boots. `is_left`: everything is deleted side by side,
    and the deletions of placeholders alone fail.
    """
    world = Stamped(stock={"l4": 2, "h100": 0}, quota=9, policy=PLACED, words=BOOTING)
    world.submit("a", {"main": ("l4", 4)})
    for _ in range(waited):
        tick(world)
    assert len(world.nodes) == 2
    world.policy = None  # type: ignore[assignment]  # a policy that is deleted, or refused
    for _ in range(3):
        tick(world)
    assert len(world.nodes) == 2, "it may be mended"
    if is_left:
        world.templates.clear()
    for _ in range(3):
        tick(world)
    assert not world.nodes
    assert not world.placeholders
    assert not world.templates
    world.policy, world.stock["l4"] = PLACED, 4
    for _ in range(3):
        tick(world)
    assert "a" in world.started


def test_a_policy_that_loses_its_image_refuses_no_gang_that_lacks_a_placeholder() -> None:
    """The API server refuses a pod without an image, and no try would follow before a person looks."""
    world = world_of(l4=3)
    world.begin("a", {"main": ("l4", 3)})
    world.cloud()
    world.take_away(sorted(world.nodes)[0])
    world.policy = dataclasses.replace(PLACED, placeholder_image="")
    assert not [each for each in world.decided("a").actions if isinstance(each, CreateSet)]
    world.still()
    assert "the GangPolicy has no placeholderImage" in entry_of(world).message


@pytest.mark.parametrize("writes", range(6))
def test_whoever_waits_reads_why_a_try_has_failed_whatever_becomes_of_the_deletions(writes: int) -> None:
    world = world_of(l4=2)
    world.submit("a", {"main": ("l4", 4)})
    before = 0
    while LAST_FAILURE not in world.workloads["a"].metadata.annotations:
        world.crash_after = None
        world.now += MINUTE
        world.cloud()
        world.kueue()
        world.crash_after = world.writes + writes
        world.settle()
        before += 1
        assert before < 60
    assert [each.reason for each in world.told].count("GangReleased") == 1


def test_a_gang_that_runs_as_its_check_comes_back_still_has_its_nodes() -> None:
    """Its queue lost the check for a while, and what our answer gave to its pods with it."""
    world = world_of(l4=2)
    world.submit("a", {"main": ("l4", 2)})
    tick(world, times=3)
    assert "a" in world.started
    first = world.workloads["a"].check_state("gang")
    world._status("a", admission_checks=(CheckState(name="gang"),))
    tick(world)
    again = world.workloads["a"].check_state("gang")
    assert first is not None
    assert again is not None
    assert again.pod_set_updates[0].annotations == {
        key: value for key, value in first.pod_set_updates[0].annotations.items() if key == PLACED_ANNOTATION
    }
    world.stock["l4"] = 0
    world.take_away(sorted(world.nodes)[0])
    world.stock["l4"] = 1
    tick(world, times=3)
    assert "NodesMissing" in {each.reason for each in world.told}, "half of it runs"
