"""Every class of ProvisioningRequest: what is asked, what is believed, what the pods are told."""

from datetime import timedelta

import pytest

from muster.controller.gangs.capacity_claims import capacity_claims_of
from muster.controller.kueue.actions import SetCheckState, State
from muster.controller.kueue.decide import decide
from muster.model.gangpolicy import GangPolicy
from muster.model.names import (
    BEST_EFFORT_ATOMIC_CLASS,
    CHECK_CAPACITY_CLASS,
    CLASS_ANNOTATION,
    CONSUME_ANNOTATION,
    LEASE_ENDS_ANNOTATION,
)
from tests.unit.admission.gang_world import POLICY, World
from tests.unit.gangs.paper import among, flavor_policy, node

SHARED = (CHECK_CAPACITY_CLASS, BEST_EFFORT_ATOMIC_CLASS)
PIECES = {"x": ("l4", 1), "y": ("l4", 1)}


def asked(provisioning_class: str, *, provisioned: bool = True) -> World:
    """A gang of two PodSets whose only request is provisioned, if the cloud is to be believed."""
    flavor = flavor_policy(
        "l4",
        10,
        provisioning_class_name=provisioning_class,
        node_selector_from_details=(),
        one_pod_set_per_request=False,
    )
    world = World(policy=GangPolicy(flavors=(flavor,), queue_timeout=POLICY.queue_timeout))
    world.begin("a", PIECES)
    (request,) = world.requests.values()
    assert request.spec.provisioning_class_name == provisioning_class
    assert len(request.spec.pod_sets) == 2, "one request a pool: these classes take several PodSets"
    world.answer(request.metadata.name, "Accepted")
    if provisioned:
        world.answer(request.metadata.name, "Provisioned")
    world.now += timedelta(seconds=10)
    return world


def answer(world: World, **known: object) -> SetCheckState:
    snapshot = among(world.snapshot("a"), **known)
    (found,) = [action for action in decide(snapshot).actions if isinstance(action, SetCheckState)]
    return found


@pytest.mark.parametrize("provisioning_class", SHARED)
def test_a_class_without_nodes_of_its_own_is_believed_when_free_nodes_stand(provisioning_class: str) -> None:
    world = asked(provisioning_class)
    nodes = (node("n0", "l4"), node("n1", "l4"))
    early = answer(world, nodes=nodes[:1])
    assert (early.state, early.message[:20]) == (State.PENDING, "0 of 1 l4 nodes for ")
    ready = answer(world, nodes=nodes)
    assert ready.state is State.READY
    (request,) = world.requests
    for update in ready.updates:
        assert update.annotations == {CONSUME_ANNOTATION: request, CLASS_ANNOTATION: provisioning_class}
        assert update.node_selector == {}, "shared nodes carry no lease"
    assert LEASE_ENDS_ANNOTATION not in ready.updates[0].annotations, "and have no end"


@pytest.mark.parametrize("provisioning_class", SHARED)
def test_free_nodes_are_nobodys_before_the_cloud_has_promised_them(provisioning_class: str) -> None:
    world = asked(provisioning_class, provisioned=False)
    nodes = tuple(node(f"n{number}", "l4") for number in range(4))
    waits = answer(world, nodes=nodes)
    assert (waits.state, waits.message[:20]) == (State.PENDING, "0 of 2 l4 nodes for ")


@pytest.mark.parametrize("provisioning_class", SHARED)
def test_what_others_were_promised_of_shared_nodes_is_left_to_them(provisioning_class: str) -> None:
    world = asked(provisioning_class)
    mine = world.snapshot("a")
    theirs = tuple(promise.demand for promise in capacity_claims_of(mine.gang, mine.current))[:1]
    nodes = tuple(node(f"n{number}", "l4") for number in range(3))
    assert answer(world, nodes=nodes[:2], claims=theirs).state is State.PENDING
    assert answer(world, nodes=nodes, claims=theirs).state is State.READY
