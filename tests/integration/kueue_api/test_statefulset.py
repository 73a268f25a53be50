"""StatefulSets with the real Kueue: one gang of pods behind its gate."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest

from muster.config import load
from muster.model.work import SERVED, Work
from tests import envtest
from tests.integration.kueue_api.conftest import world_of
from tests.integration.kueue_api.objects import apply
from tests.integration.kueue_api.works import queued, with_gpu
from tests.integration.kueue_api.world import PODS, REQUESTS, STACK, TEAM, WORKLOADS, World, is_outside
from tests.waiting import eventually

Object = dict[str, Any]

SETS: Final = f"/apis/apps/v1/namespaces/{TEAM}/statefulsets"


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A plane whose stack serves StatefulSets."""
    stack = replace(load(STACK), work=(*SERVED, Work.STATEFULSET))
    with world_of(stack, tmp_path_factory.mktemp("sets")) as world:
        world.begin()
        with envtest.controllers(world.plane, world.programs, ("statefulset-controller",)):
            yield world


@pytest.fixture
def world(sets: World) -> Iterator[World]:
    yield sets
    sets.clear(SETS)


def _set(name: str, *, replicas: int = 3) -> Object:
    labels = {"app": name}
    spec = {
        "replicas": replicas,
        "serviceName": name,
        "selector": {"matchLabels": labels},
        "podManagementPolicy": "Parallel",
        "template": {"metadata": {"labels": labels}, "spec": with_gpu("l4")},
    }
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": queued(name), "spec": spec}


def _pods(world: World, *, gated: bool) -> set[str]:
    return {pod["metadata"]["name"] for pod in world.pods(gated=gated)}


ALL: Final = {"serve-0", "serve-1", "serve-2"}


def _asked(world: World) -> Object:
    """The one request for the nodes of the set."""
    request: Object = eventually("it asks for its nodes", partial(world.asked, "serve"))[0]
    return request


def test_its_pods_start_together_with_their_nodes(world: World) -> None:
    with world.manager():
        apply(world.plane, _set("serve"))
        eventually("its pods wait", lambda: _pods(world, gated=True) == ALL)
        request = _asked(world)
        assert [each["count"] for each in request["spec"]["podSets"]] == [3]
        assert _pods(world, gated=False) == set()
        world.provision(request)
        world.wait_until_runs("serve")
        eventually("all start", lambda: _pods(world, gated=False) == ALL)


def test_a_pod_that_is_lost_comes_back_into_its_quota(world: World) -> None:
    with world.manager():
        apply(world.plane, _set("serve"))
        world.provision(_asked(world))
        eventually("all start", lambda: _pods(world, gated=False) == ALL)
        (before,) = world.items(WORKLOADS)
        lost = world.plane.call("GET", f"{PODS}/serve-1")["metadata"]["uid"]
        world.delete(f"{PODS}/serve-1")
        eventually("another one starts", lambda: _pods(world, gated=False) == ALL)
        assert world.plane.call("GET", f"{PODS}/serve-1")["metadata"]["uid"] != lost
        (after,) = world.items(WORKLOADS)
        assert after["metadata"]["uid"] == before["metadata"]["uid"]


def test_a_set_that_is_evicted_waits_whole(world: World) -> None:
    with world.manager():
        apply(world.plane, _set("serve"))
        world.provision(_asked(world))
        eventually("all start", lambda: _pods(world, gated=False) == ALL)
        (workload,) = world.items(WORKLOADS)
        world.patch(f"{WORKLOADS}/{workload['metadata']['name']}", {"spec": {"active": False}})
        eventually("all wait again", lambda: _pods(world, gated=True) == ALL)
        assert _pods(world, gated=False) == set()


def test_without_all_of_its_nodes_no_pod_starts(world: World) -> None:
    with world.manager():
        apply(world.plane, _set("serve"))
        request = _asked(world)
        world.answer(request, "Failed")
        eventually("it waits outside of the quota", lambda: is_outside(world.workload("serve")))
        world.wait_until_empty(REQUESTS)
        assert _pods(world, gated=True) == ALL
