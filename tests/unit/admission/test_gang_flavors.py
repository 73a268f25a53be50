"""A pool that is out of stock: the next flavor of the queue, where the policy says so and there is one."""

import dataclasses
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from muster.controller.gangs.objects import (
    Affinity,
    Container,
    ContainerPort,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PodResourceClaim,
    PodSpec,
    Requirement,
    ResourceNeeds,
)
from muster.controller.gangs.retry import REFUSED, TRIES
from muster.controller.kueue.decide import decide
from muster.controller.kueue.flavor_fallback import avoided_pools
from muster.model.gangpolicy import FlavorPolicy, GangPolicy, OnStockOut
from muster.model.names import AVOID_ANNOTATION, PLACEHOLDER_CLASS, POOL_LABEL
from tests.unit.admission.gang_world import PLAIN, POLICY, World, pod_spec

replace = msgspec.structs.replace
MOVING = dataclasses.replace(POLICY, on_stock_out=OnStockOut.NEXT_FLAVOR)


def stocked_out(world: World, *, times: int = 1) -> None:
    """The first request is answered with the cloud's word for it, and everybody acts on that."""
    for _ in range(times):
        world.kueue()
        world.settle()
        (request,) = world.requests
        world.answer(request, "Failed", "CapacityIsNotFound")
        world.settle()
        world.kueue()  # takes the quota back
        world.settle()
        world.kueue()  # and the entries off


def pool_of(world: World) -> list[str]:
    return [request.metadata.annotations["pool"] for request in world.requests.values()]


def a_world(policy: GangPolicy = MOVING) -> World:
    world = World(policy=policy, queue_flavors=(("cpu",), ("l4", "h100")))
    world.submit("a", PLAIN)
    return world


def test_a_gang_moves_to_the_next_flavor_at_once_and_counts_no_try() -> None:
    world = a_world()
    stocked_out(world)
    assert [event.reason for event in world.told][-1] == "GangMoves"
    assert "next it tries h100" in world.told[-1].message
    world.kueue()
    world.settle()
    assert pool_of(world) == ["h100"]
    assert avoided_pools(world.workloads["a"], world.policy) == ("l4",)
    assert TRIES not in world.workloads["a"].metadata.annotations
    world.ticks(4)
    assert "a" in world.started


@pytest.mark.parametrize("said", ["nothing", "accepted", "promised", "nodes"])
def test_a_pool_whose_nodes_do_not_come_in_time_is_empty_too_whatever_was_promised(said: str) -> None:
    """cluster-autoscaler says Provisioned before a node exists: where there are none, they never come."""
    world = a_world()
    world.kueue()
    world.settle()
    (request,) = world.requests
    if said != "nothing":
        world.answer(request, "Accepted")
    if said == "promised":
        world.answer(request, "Provisioned")
    if said == "nodes":
        world.provision(request, ready=False)
    world.settle()
    world.now += MOVING.queue_timeout
    world.settle()
    assert [event.reason for event in world.told][-1] == "GangMoves"
    assert not world.requests
    world.kueue()
    world.settle()
    assert avoided_pools(world.workloads["a"], world.policy) == ("l4",)


@pytest.mark.parametrize("reasons", [("CapacityIsNotFound", "Expired"), ("Expired", "CapacityIsNotFound")])
def test_a_gang_moves_whatever_else_has_failed_beside_the_empty_pool(reasons: tuple[str, str]) -> None:
    world = World(policy=MOVING, queue_flavors=(("cpu",), ("l4", "h100")))
    world.begin("a", {"main": ("l4", 1), "rest": ("l4", 1)})
    (first,) = world.requests
    world.answer(first, "Accepted")
    world.settle()
    for request, reason in zip(list(world.requests), reasons, strict=True):
        world.answer(request, "Failed", reason)
    world.settle()
    assert [event.reason for event in world.told][-1] == "GangMoves"


def test_after_the_last_flavor_it_waits_and_begins_with_the_first_again() -> None:
    world = a_world()
    stocked_out(world, times=2)
    notes = world.workloads["a"].metadata.annotations
    assert notes[TRIES] == "1"
    assert AVOID_ANNOTATION not in notes
    assert not world.workloads["a"].spec.active
    world.now += timedelta(minutes=5)
    world.settle()
    assert avoided_pools(world.workloads["a"], world.policy) == ()
    world.kueue()
    world.settle()
    assert pool_of(world) == ["l4"]


def test_without_the_word_in_the_policy_it_waits_for_its_pool() -> None:
    world = a_world(POLICY)
    stocked_out(world)
    assert not world.workloads["a"].spec.active
    assert AVOID_ANNOTATION not in world.workloads["a"].metadata.annotations


def test_a_job_that_names_its_pool_or_its_nodes_stays_there() -> None:
    rule = Requirement(key="zone", operator="In", values=("b",))
    required = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(rule,)),))
    affinity = Affinity(
        node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=required)
    )
    for change in ({"node_selector": {POOL_LABEL: "l4"}}, {"affinity": affinity}):
        world = of_pods(a_world(), replace(pod_spec(1), **change))
        stocked_out(world)
        assert world.workloads["a"].metadata.annotations[TRIES] == "1"


def test_a_gang_moves_that_admission_keeps_off_nodes_too_small_for_it() -> None:
    """And goes on keeping off them, when it may have any other pool again."""
    tiny = FlavorPolicy(name="tiny", gpus_per_node=1, per_node={"memory": "512Mi"})
    sizes = dataclasses.replace(MOVING, flavors=(*MOVING.flavors, tiny))
    world = of_pods(a_world(sizes), replace(pod_spec(1), affinity=kept_off(("tiny",))))
    stocked_out(world)
    world.kueue()
    world.settle()
    assert pool_of(world) == ["h100"]
    assert kept_off_of(world) == kept_off(("tiny",), ("l4",))
    stocked_out(world)
    world.now += timedelta(minutes=5)
    world.settle()
    assert kept_off_of(world) == kept_off(("tiny",))


def test_a_gang_that_its_author_keeps_off_a_pool_stays_where_it_is() -> None:
    world = of_pods(a_world(), replace(pod_spec(1), affinity=kept_off(("h100",))))
    stocked_out(world)
    assert world.workloads["a"].metadata.annotations[TRIES] == "1"
    assert kept_off_of(world) == kept_off(("h100",))


@pytest.mark.parametrize(
    ("h100", "ports", "claims"),
    [
        ({"max_nodes": 1}, (), ()),
        ({"max_nodes": 1, "gpus_per_node": 2}, (ContainerPort(host_port=80),), ()),
        ({"provisioning_class_name": PLACEHOLDER_CLASS}, (), (PodResourceClaim(name="nic"),)),
    ],
    ids=["too small a pool", "a node for each port", "by placeholders, which copy no claim"],
)
def test_a_flavor_in_which_it_would_be_refused_is_no_way_out(
    h100: dict[str, object], ports: tuple[ContainerPort, ...], claims: tuple[PodResourceClaim, ...]
) -> None:
    """It would be given up there, and its own pool may have nodes again."""
    l4, other = MOVING.flavors
    changed: dict[str, Any] = {**h100, "name": other.name}
    world = a_world(dataclasses.replace(MOVING, flavors=(l4, dataclasses.replace(other, **changed))))
    world.workloads.clear()
    world.submit("a", {"main": ("l4", 2)})
    spec = pod_spec(1)
    container = replace(spec.containers[0], ports=ports)
    stocked_out(of_pods(world, replace(spec, containers=(container,), resource_claims=claims)))
    assert world.workloads["a"].metadata.annotations.get(TRIES) == "1"


def test_who_finds_no_quota_in_the_other_flavors_may_have_any_again() -> None:
    world = a_world()
    world.kueue()
    world.settle()
    world.quota = 0
    stocked_out(world)
    assert avoided_pools(world.workloads["a"], world.policy) == ("l4",)
    world.ticks(3)
    wake = decide(world.snapshot("a")).requeue_at
    assert wake is not None
    world.now = wake
    world.settle()
    assert avoided_pools(world.workloads["a"], world.policy) == ()
    assert AVOID_ANNOTATION not in world.workloads["a"].metadata.annotations


GPU: dict[str, str | int | float] = {"nvidia.com/gpu": "1"}
SIDECAR = Container(resources=ResourceNeeds(requests=GPU, limits=GPU), restart_policy="Always")


def kept_off(*pools: tuple[str, ...]) -> Affinity:
    rules = tuple(Requirement(key=POOL_LABEL, operator="NotIn", values=each) for each in pools)
    required = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=rules),))
    return Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=required))


def kept_off_of(world: World) -> Affinity | None:
    (main,) = world.workloads["a"].spec.pod_sets
    return main.template.spec.affinity


WITHOUT_STEERING = {
    "a GPU of a native sidecar": PodSpec(containers=(Container(),), init_containers=(SIDECAR,)),
    "pod-level resources": PodSpec(containers=(Container(),), resources=ResourceNeeds(GPU, GPU)),
}


def of_pods(world: World, spec: PodSpec) -> World:
    world._pods("a", spec)
    return world


def without_label(world: World, flavor: str) -> World:
    bare = replace(world.flavors[flavor], spec=replace(world.flavors[flavor].spec, node_labels={}))
    world.flavors = {**world.flavors, flavor: bare}
    return world


@pytest.mark.parametrize("where", WITHOUT_STEERING)
def test_a_gpu_is_moved_wherever_the_pod_requests_it(where: str) -> None:
    world = of_pods(a_world(), WITHOUT_STEERING[where])
    stocked_out(world)
    world.kueue()
    world.settle()
    assert pool_of(world) == ["h100"]


def test_a_flavor_without_our_label_cannot_be_avoided_and_counts_as_the_last() -> None:
    world = without_label(a_world(), "l4")
    stocked_out(world)
    assert world.workloads["a"].metadata.annotations[TRIES] == "1"


def test_flavors_of_one_pool_are_no_way_out_for_each_other() -> None:
    world = a_world()
    same = replace(world.flavors["h100"], spec=replace(world.flavors["l4"].spec))
    world.flavors = {**world.flavors, "h100": same}
    stocked_out(world)
    assert world.workloads["a"].metadata.annotations[TRIES] == "1"


@pytest.mark.parametrize("has_effect", [True, False])
def test_an_empty_queue_is_given_up_after_the_deadline_whatever_steering_does(
    has_effect: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without effect where Kueue, or a webhook of the cluster, leaves the affinity out."""
    world = a_world()
    if not has_effect:
        monkeypatch.setattr("tests.unit.admission.gang_world.steered_pod_sets", lambda *_: ())
    for _ in range(5 * 24 * 6):
        world.kueue()
        world.settle()
        for request in list(world.requests):
            world.answer(request, "Failed", "CapacityIsNotFound")
        world.settle()
        world.kueue()
        world.settle()
        world.now += timedelta(minutes=10)
    assert REFUSED in world.workloads["a"].metadata.annotations
    pauses = MOVING.retry.deadline / (MOVING.retry.max * (1 - MOVING.retry.jitter_percent / 100))
    assert len(world.everything_made) <= 2 * (pauses + 10)
