"""Deployments with the real Kueue: each pod is counted by itself, behind its gate."""

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
from tests.integration.kueue_api.world import PODS, STACK, TEAM, WORKLOADS, World, is_outside
from tests.waiting import eventually

Object = dict[str, Any]

DEPLOYMENTS: Final = f"/apis/apps/v1/namespaces/{TEAM}/deployments"


@pytest.fixture(scope="module")
def deployments(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A plane whose stack serves Deployments."""
    stack = replace(load(STACK), work=(*SERVED, Work.DEPLOYMENT))
    with world_of(stack, tmp_path_factory.mktemp("deployments")) as world:
        world.begin()
        made = ("deployment-controller", "replicaset-controller", "garbage-collector-controller")
        with envtest.controllers(world.plane, world.programs, made):
            yield world


@pytest.fixture
def world(deployments: World) -> Iterator[World]:
    yield deployments
    for item in deployments.items(DEPLOYMENTS):
        deployments.delete(f"{DEPLOYMENTS}/{item['metadata']['name']}")
    eventually("no pod is left", lambda: not deployments.items(PODS))
    deployments.clear()


def _deployment(name: str, *, replicas: int = 2) -> Object:
    labels = {"app": name}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": with_gpu("l4")},
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": queued(name), "spec": spec}


def _pods(world: World, *, gated: bool) -> set[str]:
    return {pod["metadata"]["name"] for pod in world.pods(gated=gated)}


def _two_waiting(world: World) -> tuple[str, str]:
    apply(world.plane, _deployment("serve"))
    first, second = eventually(
        "two pods wait", lambda: found if len(found := sorted(_pods(world, gated=True))) == 2 else []
    )
    return first, second


def _asked(world: World, pod: str) -> Object:
    request: Object = eventually(f"{pod} asks for its node", partial(world.asked, pod))[0]
    assert [each["count"] for each in request["spec"]["podSets"]] == [1]
    return request


def test_a_pod_starts_with_its_node_and_another_one_waits_without(world: World) -> None:
    with world.manager():
        first, second = _two_waiting(world)
        world.provision(_asked(world, first))
        world.answer(_asked(world, second), "Failed")
        eventually("one starts", lambda: _pods(world, gated=False) == {first})
        eventually("the other is outside of the quota", lambda: is_outside(world.workload(second)))
        assert _pods(world, gated=True) == {second}


def test_a_pod_more_is_counted_and_one_less_gives_its_quota_back(world: World) -> None:
    """By the subresource too, which no webhook of Kueue's sees."""
    with world.manager():
        first, second = _two_waiting(world)
        for pod in (first, second):
            world.provision(_asked(world, pod))
        eventually("both start", lambda: _pods(world, gated=False) == {first, second})
        _scale(world, 3)
        (third,) = eventually("a third waits", lambda: _pods(world, gated=True))
        assert world.workload(third) is not None or _asked(world, third)
        assert _pods(world, gated=False) == {first, second}
        _scale(world, 0)
        eventually("no pod is left", lambda: not world.items(PODS))
        eventually("no Workload is left", lambda: not world.items(WORKLOADS))


def _scale(world: World, replicas: int) -> None:
    world.patch(f"{DEPLOYMENTS}/serve/scale", {"spec": {"replicas": replicas}})
