"""What a look at nodes that many pods share reads, and whose pods it takes for whose."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from muster.controller.gangs import usage
from muster.controller.gangs.demand import amounts_once
from muster.controller.gangs.identity import placeholder_name
from muster.controller.gangs.objects import Condition, Node, Placeholder, Pod, PodSpec, PodStatus
from muster.controller.gangs.templates import POOL
from muster.controller.gangs.usage import NodeUsage, used_by
from muster.controller.kube.resource import ObjectMeta
from muster.controller.kueue.actions import SetCheckState
from muster.controller.kueue.decide import decide
from muster.controller.kueue.view import View
from muster.controller.runtime.store import Store
from muster.model.names import CONSUME_ANNOTATION
from muster.model.pods import Amounts
from tests.unit.admission.gang_world import CHECK, POLICY, World, pod_spec
from tests.unit.admission.views import view_of, view_over
from tests.unit.gangs.paper import flavor_policy, node

SHARED = dataclasses.replace(POLICY, flavors=(flavor_policy("l4", 1, node_selector_from_details=()),))


def pod(name: str, on: str, *, namespace: str = "team-b", gpus: int = 1, version: int = 1) -> Pod:
    meta = ObjectMeta(
        name=name, namespace=namespace, uid=f"{namespace}/{name}", resource_version=str(version)
    )
    return Pod(metadata=meta, spec=replace(pod_spec(gpus), node_name=on))


def provisioned(nodes: list[Node], pods: list[Pod]) -> tuple[World, View]:
    """A gang of two pods whose nodes are promised in a pool that others use."""
    world = World(policy=SHARED)
    world.begin("a", {"main": ("l4", 2)})
    ((name, request),) = world.requests.items()
    meta = replace(request.metadata, annotations={POOL: "l4"})
    world.requests[name] = replace(request, metadata=meta)
    for kind in ("Accepted", "Provisioned"):
        world.answer(name, kind)
    return world, view_over(world, nodes=nodes, pods=pods)


def is_ready(world: World, view: View) -> bool:
    actions = decide(view.snapshot(world.workloads["a"], CHECK, now=world.now)).actions
    return any(isinstance(each, SetCheckState) and each.state == "Ready" for each in actions)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The specs whose quantities were added up."""
    seen = list[Any]()

    def recorded(spec: PodSpec) -> Amounts:
        seen.append(spec)
        return amounts_once(spec)

    monkeypatch.setattr(usage, "amounts_once", recorded)
    return seen


def test_a_second_look_reads_the_pods_that_have_changed_and_no_others(reads: list[Any]) -> None:
    nodes = [node(f"n{number}", "l4") for number in range(500)]
    pods = [pod(f"p{number}", f"n{number % 500}") for number in range(5000)]
    world, view = provisioned(nodes, pods)
    assert not is_ready(world, view)
    assert len(reads) == 5000
    reads.clear()
    assert not is_ready(world, view)
    assert not reads
    for gone in pods[:10]:
        view.pods.store.remove(gone)
    for number in range(2):
        for each in pods[number::500]:
            view.pods.store.remove(each)
    assert len(reads) <= 2 * 30
    reads.clear()
    assert is_ready(world, view), "two nodes are free now"
    assert not reads


def test_what_is_kept_of_nodes_is_what_their_pods_add_up_to() -> None:
    ready = PodStatus(phase="Running")
    view = view_of(POLICY)
    used: NodeUsage[Pod] = NodeUsage(view.pods)
    steps = [
        pod("x", "n0"),
        pod("y", "n0", gpus=0),
        replace(pod("x", "n0", version=2), status=ready),
        pod("x", "n0", gpus=4, version=3),
        replace(pod("y", "n0", gpus=0, version=4), status=PodStatus(phase="Succeeded")),
        pod("z", "n1"),
    ]
    for each in steps:
        view.pods.store.put(each)
        assert used.of(["n0", "n1"]) == used_by(view.pods.store)
    for each in list(view.pods.store):
        view.pods.store.remove(each)
        assert used.of(["n0", "n1"]) == used_by(view.pods.store)
    assert not used._used, "nodes come and go, and nothing of them stays"


def test_a_pod_of_another_namespace_with_the_name_of_a_placeholder_makes_no_room() -> None:
    nodes = [node("n0", "l4"), node("n1", "l4")]
    world, view = provisioned(nodes, [])
    assert is_ready(world, view)
    (name,) = world.requests
    held = placeholder_name(name, 0, 0)
    kept = Placeholder(metadata=world.meta(held, world.requests[name].metadata.labels))
    view.placeholders.store.put(kept)
    view.pods.store.put(pod(held, "n0", namespace="team-b"))
    assert not is_ready(world, view)
    view.pods.store.remove(pod(held, "n0", namespace="team-b"))
    view.pods.store.put(pod(held, "n0", namespace="team-a"))
    assert is_ready(world, view), "its own makes room"


def running(silent: int, heard: int) -> tuple[World, View]:
    """A gang of two nodes in a fleet, one of them silent with others."""
    world = World(stock={"l4": 2})
    world.submit("a", {"main": ("l4", 2)})
    world.ticks(4)
    assert "a" in world.started
    first, *_ = world.nodes
    fleet = [node(f"f{number}", "other") for number in range(silent - 1 + heard)]
    unheard = (Condition(type="Ready", status="Unknown", last_transition_time=world.now),)
    listed = [*world.nodes.values(), *fleet]
    nodes = [
        replace(each, status=replace(each.status, conditions=unheard))
        if each.metadata.name == first or each.metadata.name in {f"f{number}" for number in range(silent - 1)}
        else each
        for each in listed
    ]
    return world, view_over(world, nodes=nodes)


@pytest.mark.parametrize(("silent", "heard", "is_outage"), [(60, 30, True), (30, 60, False)])
def test_an_outage_is_seen_without_a_look_at_each_node_of_the_fleet(
    silent: int, heard: int, is_outage: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, view = running(silent, heard)
    real = Store.__iter__

    def iterated(store: Store[Any]) -> Iterator[Any]:
        assert store is not view.nodes.store, "a thousand gangs would each read fifteen thousand nodes"
        return real(store)

    monkeypatch.setattr(Store, "__iter__", iterated)
    seen = view.snapshot(world.workloads["a"], CHECK, now=world.now)
    assert seen.surroundings.lacks_pods
    assert bool(seen.surroundings.in_outage) is is_outage


def test_a_check_that_is_put_back_knows_what_the_pods_of_a_gang_stand_on() -> None:
    """Kueue took our answer and its claims away with the check, and the requests went then, too."""
    world, view = running(1, 60)
    held = world.workloads["a"]
    (answer,) = held.status.admission_checks
    (given,) = answer.pod_set_updates
    for each in world.pods.values():
        spec = replace(each.spec, node_selector=given.node_selector)
        view.pods.store.put(replace(each, spec=spec, metadata=replace(each.metadata, resource_version="2")))
    view.requests.store.replace([], unreadable={}, version="", new_history=False)
    fresh = replace(answer, state="Pending", message="", pod_set_updates=())
    put_back = replace(held, status=replace(held.status, admission_checks=(fresh,)))
    decision = decide(view.snapshot(put_back, CHECK, now=world.now))
    (said,) = (each for each in decision.actions if isinstance(each, SetCheckState))
    assert (said.state, said.updates) == ("Ready", (given,)), "with it, a lost node is seen"


def test_a_pod_of_another_namespace_hides_no_lost_node() -> None:
    world, view = running(1, 60)
    lost = next(iter(world.nodes))
    view.nodes.store.remove(world.nodes[lost])
    (request,) = world.requests
    (other,) = (each for name, each in world.nodes.items() if name != lost)
    forged = pod("forged", other.metadata.name)
    meta = replace(forged.metadata, annotations={CONSUME_ANNOTATION: request})
    view.pods.store.put(replace(forged, metadata=meta))
    reasons = [
        getattr(each, "reason", "")
        for each in decide(view.snapshot(world.workloads["a"], CHECK, now=world.now)).actions
    ]
    assert "NodesMissing" in reasons
