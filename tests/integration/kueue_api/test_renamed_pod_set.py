"""A gang is evicted and its job gets a PodSet of another name: what we said of the old one is no bar to the
new.

Kueue leaves podSetUpdates where they are when it evicts, and its webhook refuses a Workload whose updates
name no PodSet of it.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from muster.model import names
from tests.integration.kueue_api.objects import apply
from tests.integration.kueue_api.works import work
from tests.integration.kueue_api.world import CLUSTERS, World, pod
from tests.waiting import eventually


@pytest.fixture
def open_queue(world: World) -> Iterator[World]:
    yield world
    world.stop_queue("None")


def test_a_pod_set_that_is_renamed_after_an_eviction_takes_the_nodes_that_it_left(open_queue: World) -> None:
    _is_renamed_and_admitted(open_queue)


def test_it_does_too_when_nobody_of_ours_was_there_at_the_eviction(open_queue: World) -> None:
    _is_renamed_and_admitted(open_queue, away=True)


def _is_renamed_and_admitted(world: World, *, away: bool = False) -> None:
    with world.manager() as manager:
        apply(world.plane, _cluster("before"))
        (first,) = eventually("it has asked", partial(world.asked, "training"))
        world.provision(first)
        world.wait_until_runs("training")
        eventually("its pods are told their request", lambda: _claimed(world, "before"))
        if away:
            manager.kill()
        world.stop_queue("HoldAndDrain")
        eventually("it has lost its quota", lambda: not world.holds("training", "QuotaReserved"))
        eventually("it is suspended", lambda: _spec(world)["suspend"])
        _rename(world, "after")
        if away:
            world.stop_queue("None")
            manager.start()
        eventually("its Workload has the new PodSet", lambda: "after" in _pod_sets(world))
        world.stop_queue("None")
        if away:
            # A manager that was away takes the first back in its own time, and does not know what it left.
            (request,) = eventually("it has asked anew", partial(world.asked, "training", first))
            world.provision(request)
        world.wait_until_runs("training")
        updates = world.entry("training")["podSetUpdates"]
        assert {each["name"] for each in updates} == {"after"}
        if away:
            claimed = eventually("its pods are told their request", lambda: _claimed(world, "after"))
            assert claimed == request["metadata"]["name"]


def _cluster(group: str) -> dict[str, Any]:
    cluster = work("RayCluster", pod("l4"))
    cluster["metadata"]["name"] = "training"
    cluster["spec"]["workerGroupSpecs"][0]["groupName"] = group
    return cluster


def _spec(world: World) -> dict[str, Any]:
    found: dict[str, Any] = world.plane.call("GET", f"{CLUSTERS}/training")["spec"]
    return found


def _rename(world: World, group: str) -> None:
    """With another image: of names alone Kueue 0.19.2 takes no notice (pkg/util/equality/podset.go)."""
    at, first = f"{CLUSTERS}/training", "/spec/workerGroupSpecs/0"
    changes = [
        {"op": "replace", "path": f"{first}/groupName", "value": group},
        {"op": "replace", "path": f"{first}/template/spec/containers/0/image", "value": group},
    ]
    world.plane.call("PATCH", at, changes, content_type="application/json-patch+json")


def _claimed(world: World, group: str) -> str | None:
    """The request that the pods of the started group say they consume."""
    spec = _spec(world)
    found = {each["groupName"]: each["template"] for each in spec["workerGroupSpecs"]}
    notes = (found[group].get("metadata") or {}).get("annotations") or {}
    return None if spec["suspend"] else notes.get(names.CONSUME_ANNOTATION)


def _pod_sets(world: World) -> list[str]:
    return [
        each["name"] for each in (world.workload("training") or {"spec": {"podSets": []}})["spec"]["podSets"]
    ]
