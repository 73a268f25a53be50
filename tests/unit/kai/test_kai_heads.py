"""Heads on nodes that stand already, of KAI gangs whose workers get nodes of their own."""

from dataclasses import replace as changed
from datetime import timedelta

import pytest

from muster.controller.gangs.actions import HoldNode
from muster.controller.gangs.identity import request_of_placeholder
from muster.controller.kai.actions import Decision, Ungate
from muster.controller.kai.decide import decide
from muster.controller.kai.labels import CLUSTER_UID
from muster.controller.kai.objects import GatedPod
from muster.controller.kai.view import View
from muster.model.gangpolicy import FlavorPolicy, GangPolicy
from tests.unit.gangs.paper import node
from tests.unit.kai.kai_world import POLICY, Group, queue, replace
from tests.unit.kai.placed_kai_world import PLACED, PlacedWorld, view_of


def _with_heads(policy: GangPolicy) -> GangPolicy:
    return changed(policy, flavors=(*policy.flavors[:-1], FlavorPolicy(name="cpu")))


@pytest.fixture(params=[PLACED, POLICY], ids=["placeholders", "requests"])
def world(request: pytest.FixtureRequest) -> PlacedWorld:
    """Two gangs in two pools, whose workers' nodes are there, and one node with room for one head."""
    made = PlacedWorld(policy=_with_heads(request.param))
    made.queues = {"team-a": queue("team-a", quota=9)}
    _add_room(made, "cpu-0")
    for name, pool in (("a", "l4"), ("b", "h100")):
        made.submit(name, {"headgroup": Group("cpu"), "workers": Group(pool)})
    made.kuberay()
    made.settle()
    made.cloud()
    for key, pod in made.placeholders.items():
        made.write("", HoldNode(node=pod.spec.node_name, held_as=request_of_placeholder(key)))
    for key in sorted(made.requests, key=lambda key: made.requests[key].metadata.labels[CLUSTER_UID]):
        made.now += timedelta(minutes=1)
        made.answer(key, "Accepted")
        made.provision(key)
    return made


def _add_room(world: PlacedWorld, name: str) -> None:
    world.nodes[name] = node(name, "cpu", cpus=1, taints=())


def _passing(world: PlacedWorld, view: View | None = None) -> list[str]:
    """Who would pass, were everybody asked before anybody writes."""
    view = view or view_of(world)
    decided = {name: decide(view.snapshot(each, now=world.now)) for name, each in world.clusters.items()}
    return [name for name, each in decided.items() if any(isinstance(do, Ungate) for do in each.actions)]


def test_room_for_one_head_is_claimed_once(world: PlacedWorld) -> None:
    assert _passing(world) == ["a"]
    _add_room(world, "cpu-1")
    assert _passing(world) == ["a", "b"]


def test_the_room_is_kept_from_the_decision_to_pass_until_the_head_has_it(world: PlacedWorld) -> None:
    view = view_of(world)
    snapshot = view.snapshot(world.clusters["a"], now=world.now)
    decision = decide(snapshot)
    with view.gathering.applying(snapshot, decision):
        for each in snapshot.placeholders:
            world.placeholders.pop(each.metadata.name)
            view.placeholders.store.remove(each)
        assert "b" not in _passing(world, view), "its placeholders go before its gates"
        for pod in world.of("a"):
            view.pods.store.put(_without_gate(world, pod.metadata.name, decision))
            assert "b" not in _passing(world, view), f"{pod.metadata.name} has passed"
    assert "b" not in _passing(world, view), "all have passed"
    for pod in world.of("a"):
        where = "cpu-0" if "headgroup" in pod.metadata.name else "elsewhere"
        world.pods[pod.metadata.name] = replace(pod, spec=replace(pod.spec, node_name=where))
    assert "b" not in _passing(world), "it runs there"
    _add_room(world, "cpu-1")
    assert "b" in _passing(world)


def _without_gate(world: PlacedWorld, name: str, decision: Decision) -> GatedPod:
    """As the decision to pass leaves it."""
    for action in decision.actions:
        if isinstance(action, Ungate) and action.pod.metadata.name == name:
            world.write("a", action)
    pod = world.pods[name]
    return replace(pod, metadata=replace(pod.metadata, resource_version="2"))
