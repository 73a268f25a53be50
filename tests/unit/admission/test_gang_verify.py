"""Verification never finds more room than there is."""

from collections.abc import Sequence
from dataclasses import replace as changed
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.controller.gangs.demand import PodNeeds, pod_amounts
from muster.controller.gangs.objects import (
    Container,
    Node,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    PodStatus,
    Requirement,
    ResourceNeeds,
    Taint,
)
from muster.controller.gangs.progress import format_missing, format_nodes
from muster.controller.gangs.usage import used_by
from muster.controller.gangs.verify import PodDemand, verify
from muster.controller.kube.resource import ObjectMeta
from muster.controller.kueue.podsets import flavored
from muster.model.names import GPU_RESOURCE
from tests.length import examples
from tests.unit.admission.gang_world import FLAVORS, pod_spec
from tests.unit.gangs.paper import node

replace = msgspec.structs.replace


def needs(gpus: int = 1) -> PodNeeds:
    spec = pod_spec(gpus)
    return flavored(spec, pod_amounts(spec), ("l4",), FLAVORS)


def wanted(count: int, *, name: str = "main") -> PodDemand:
    return PodDemand(name=name, pool="l4", count=count, needs=needs())


def pod(node_name: str, *, gpus: int = 1, phase: str = "Running") -> Pod:
    spec = replace(pod_spec(gpus), node_name=node_name)
    return Pod(metadata=ObjectMeta(name=f"p-{node_name}"), spec=spec, status=PodStatus(phase=phase))


def placed(
    count: int, nodes: Sequence[Node], *, pods: Sequence[Pod] = (), claims: Sequence[PodDemand] = ()
) -> int:
    (room,) = verify([wanted(count)], nodes=nodes, used=used_by(pods), claims=claims)
    return room.placed


def test_of_two_pod_sets_that_are_short_the_first_is_named_and_the_other_counted() -> None:
    rooms = verify([wanted(3), wanted(1, name="other")], nodes=[node("n0", "l4")], used={}, claims=())
    assert format_nodes(rooms[:1]) == "1 of 3 l4 nodes for main"
    assert format_nodes(rooms) == "1 of 3 l4 nodes for main, 1 more PodSet short"
    assert format_missing(rooms) == "lacks 2 l4 nodes for main, 1 l4 node for other"


def test_a_node_that_runs_a_gpu_pod_has_no_room_and_one_whose_pod_has_ended_has() -> None:
    nodes = [node("n0", "l4"), node("n1", "l4")]
    assert placed(2, nodes, pods=[pod("n0")]) == 1
    assert placed(2, nodes, pods=[pod("n0", phase="Succeeded")]) == 2


@pytest.mark.parametrize(("running", "fits"), [(9, 1), (10, 0)])
def test_a_node_takes_no_more_pods_than_it_allows(running: int, fits: int) -> None:
    held = node("n0", "l4", cpus=99)
    held = replace(held, status=replace(held.status, allocatable={**held.status.allocatable, "pods": "10"}))
    assert placed(1, [held], pods=[pod("n0", gpus=0)] * running) == fits


def test_what_other_gangs_were_promised_is_not_promised_twice() -> None:
    nodes = [node(f"n{number}", "l4") for number in range(3)]
    assert placed(2, nodes, claims=[wanted(2, name="theirs")]) == 1


def test_claims_that_are_alike_take_as_much_together_as_one_by_one() -> None:
    nodes = [node(f"n{number}", "l4") for number in range(5)]
    claims = [wanted(1, name=f"theirs-{number}") for number in range(3)]
    assert placed(5, nodes, claims=claims) == placed(5, nodes, claims=[wanted(3)]) == 2


@pytest.mark.parametrize(
    "unfit",
    [
        node("n0", "l4", ready=False),
        replace(node("n0", "l4"), spec=replace(node("n0", "l4").spec, unschedulable=True)),
        node("n0", "h100"),
        replace(
            node("n0", "l4"),
            spec=replace(node("n0", "l4").spec, taints=(Taint(key="other", effect="NoExecute"),)),
        ),
    ],
    ids=["not ready", "cordoned", "another pool", "tainted"],
)
def test_a_node_that_does_not_fit_is_no_room(unfit: Node) -> None:
    assert placed(1, [unfit]) == 0
    assert placed(1, [unfit, node("n1", "l4")]) == 1


@pytest.mark.parametrize(
    ("operator", "values", "fits"),
    [
        ("In", ("a", "b"), True),
        ("In", ("b",), False),
        ("NotIn", ("b",), True),
        ("Exists", (), True),
        ("DoesNotExist", (), False),
        ("Gt", ("1",), False),
        ("Unheard", ("a",), False),
    ],
)
def test_a_pods_own_node_affinity_counts(operator: str, values: tuple[str, ...], fits: bool) -> None:
    standing = node("n0", "l4")
    labels = {**standing.metadata.labels, "zone": "a"}
    standing = replace(standing, metadata=replace(standing.metadata, labels=labels))
    rule = Requirement(key="zone", operator=operator, values=values)
    picky = changed(wanted(1), needs=changed(needs(), terms=(NodeSelectorTerm(match_expressions=(rule,)),)))
    (room,) = verify([picky], nodes=[standing], used={})
    assert room.is_complete is fits
    there = NodeSelectorTerm(match_expressions=(Requirement(key="zone", operator="Exists"),))
    for other, is_complete in ((there, True), (NodeSelectorTerm(), fits)):
        either = changed(picky, needs=changed(picky.needs, terms=(*picky.needs.terms, other)))
        (room,) = verify([either], nodes=[standing], used={})
        assert room.is_complete is is_complete, "one term that fits is enough, and an empty one fits nowhere"


def test_pods_are_pinned_to_their_own_lease() -> None:
    pinned = wanted(2)
    selector = {**pinned.needs.node_selector, "autoscaling.gke.io/provisioning-request": "mine"}
    pinned = changed(pinned, needs=changed(pinned.needs, node_selector=selector))
    (room,) = verify([pinned], nodes=[node("n0", "l4", "theirs"), node("n1", "l4", "mine")], used={})
    assert room.placed == 1


def test_sidecars_count_beside_the_containers_and_init_steps_only_at_their_peak() -> None:
    def container(cpu: str, restart: str = "") -> Container:
        return Container(resources=ResourceNeeds(limits={"cpu": cpu}), restart_policy=restart)

    spec = PodSpec(
        init_containers=(container("1", "Always"), container("4")),
        containers=(container("2"),),
        overhead={"cpu": "500m"},
    )
    assert pod_amounts(spec) == {"cpu": Fraction("5.5")}


def test_what_is_asked_for_the_pod_as_a_whole_counts_in_place_of_its_containers() -> None:
    container = Container(resources=ResourceNeeds(requests={"cpu": "1", GPU_RESOURCE: "1"}))
    whole = ResourceNeeds(requests={"cpu": "4"}, limits={"cpu": "8", "memory": "2Ki"})
    spec = PodSpec(containers=(container, container), resources=whole, overhead={"cpu": "500m"})
    assert pod_amounts(spec) == {"cpu": Fraction("4.5"), "memory": 2048, GPU_RESOURCE: 2}
    limited = PodSpec(containers=(container, container), resources=ResourceNeeds(limits={"cpu": "8"}))
    assert pod_amounts(limited)["cpu"] == 2


@settings(deadline=None, max_examples=examples(50))
@given(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))
def test_never_more_pods_are_placed_than_free_nodes_stand(
    standing: int, occupied: int, claimed: int, asked: int
) -> None:
    nodes = [node(f"n{number}", "l4") for number in range(standing)]
    pods = [pod(f"n{number}") for number in range(min(occupied, standing))]
    free = standing - len(pods)
    assert placed(asked, nodes, pods=pods, claims=[wanted(claimed, name="theirs")]) == max(
        0, min(asked, free - claimed)
    )
