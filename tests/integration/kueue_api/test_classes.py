"""The classes of cluster-autoscaler, whose nodes are nobody's own: what the real Kueue tells the pods, and
who may count on a node that was promised to somebody.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from muster.model import names
from tests.integration.kueue_api.world import JOBS, POLICY, Object, World
from tests.waiting import eventually


@pytest.mark.parametrize(
    "provisioning_class",
    [names.BEST_EFFORT_ATOMIC_CLASS, names.CHECK_CAPACITY_CLASS],
    ids=["atomic", "check"],
)
def test_each_of_two_gangs_starts_when_there_is_a_node_that_the_other_was_not_promised(
    world: World, provisioning_class: str
) -> None:
    with _pool_of(world, "l4", provisioning_class), world.manager():
        first = _promised(world, "first", provisioning_class)
        _is_told_to_wait(world, "first")
        with world.shared_node("shared-0", "l4"):
            world.wait_until_runs("first")
            template = eventually("its pods are told", lambda: _consumes(world, "first"))
            assert template["annotations"][names.CONSUME_ANNOTATION] == first["metadata"]["name"]
            assert template["annotations"][names.CLASS_ANNOTATION] == provisioning_class
            assert template["labels"][names.POD_SET_LABEL] == "main", "tells PodSets of one request apart"

            _promised(world, "second", provisioning_class)
            _is_told_to_wait(world, "second")
            with world.shared_node("shared-1", "l4"):
                world.wait_until_runs("second")


@contextmanager
def _pool_of(world: World, pool: str, provisioning_class: str) -> Iterator[None]:
    """The policy with this class for the pool, until the block ends."""
    flavors = world.plane.call("GET", POLICY)["spec"]["flavors"]
    other = {"provisioningClassName": provisioning_class, "nodeSelectorFromDetails": []}
    changed = [{**flavor, **(other if flavor["name"] == pool else {})} for flavor in flavors]
    with world.policy(flavors=changed):
        yield


def _promised(world: World, name: str, provisioning_class: str) -> Object:
    """Its request, which the cloud has said yes to. There is no node yet."""
    world.submit(name, "l4")
    (request,) = eventually(f"{name} has asked", partial(world.asked, name))
    assert request["spec"]["provisioningClassName"] == provisioning_class
    world.answer(request, "Provisioned")
    return dict(request)


def _is_told_to_wait(world: World, name: str) -> None:
    def told() -> bool:
        entry = world.entry(name)
        return entry.get("state") == "Pending" and entry["message"].startswith("0 of 1 l4 nodes")

    eventually(f"{name} is told to wait", told)
    assert not world.holds(name, "Admitted")


def _consumes(world: World, name: str) -> dict[str, Any] | None:
    """What its pods are told, once they may start."""
    template: dict[str, Any] = world.plane.call("GET", f"{JOBS}/{name}")["spec"]["template"]["metadata"]
    return template if names.CONSUME_ANNOTATION in (template.get("annotations") or {}) else None
