"""LeaderWorkerSets with their real controller, webhooks and Kueue: each group is a gang."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest

from muster.config import load
from muster.model.work import SERVED, Work
from tests import built, envtest
from tests.integration.kueue_api.brought import controller
from tests.integration.kueue_api.conftest import world_of
from tests.integration.kueue_api.objects import apply
from tests.integration.kueue_api.works import plain, queued, with_gpu
from tests.integration.kueue_api.world import GATE, PODS, STACK, TEAM, WORKLOADS, World, is_outside, size_of
from tests.waiting import eventually

Object = dict[str, Any]

SETS: Final = f"/apis/leaderworkerset.x-k8s.io/v1/namespaces/{TEAM}/leaderworkersets"


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A plane whose stack serves LeaderWorkerSets."""
    programs = built.programs(("lws",), ("lws-config",))
    stack = replace(load(STACK), work=(*SERVED, Work.LWS))
    with world_of(stack, tmp_path_factory.mktemp("sets")) as world:
        world.define(programs.kinds("lws-config", below="crd/bases"), "LeaderWorkerSet")
        world.begin()
        made = envtest.controllers(world.plane, world.programs, ("statefulset-controller",))
        webhooks = programs.assets["lws-config"] / "webhook/manifests.yaml"
        with made, controller(world.plane, "lws", programs, webhooks=webhooks):
            yield world


def _set(name: str) -> Object:
    """Two groups of a leader without a GPU and two workers with one."""
    template = {"size": 3, "leaderTemplate": {"spec": plain()}, "workerTemplate": {"spec": with_gpu("l4")}}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": queued(name),
        "spec": {"replicas": 2, "leaderWorkerTemplate": template},
    }


@pytest.fixture
def world(sets: World) -> Iterator[World]:
    yield sets
    sets.clear(SETS)


def test_each_group_is_a_gang_of_its_own(world: World) -> None:
    """One has its nodes and starts whole; the other one gets none, and not one pod of it starts."""
    with world.manager():
        apply(world.plane, _set("serve"))
        eventually("both groups wait whole", lambda: _pods(world, gated=True) == {"0": 3, "1": 3})
        counts = [{"leader": 1, "worker": 2}] * 2
        eventually("each is queued", lambda: [_counts(each) for each in world.items(WORKLOADS)] == counts)
        (first,) = eventually("the first group asks", partial(world.asked, "serve-0"))
        (second,) = eventually("the second group asks", partial(world.asked, "serve-1"))
        assert [size_of(first), size_of(second)] == [2, 2]
        world.provision(first)
        world.wait_until_runs("serve-0")
        eventually("its pods alone may start", lambda: _pods(world, gated=False) == {"0": 3})
        world.answer(second, "Failed")
        eventually("the other waits outside of the quota", lambda: is_outside(world.workload("serve-1")))
        eventually("its request is gone", lambda: not world.asked("serve-1"))
        assert _pods(world, gated=False) == {"0": 3}
        assert world.holds("serve-0", "Admitted")


def test_kueue_holds_back_a_pod_that_no_work_makes(world: World) -> None:
    """Why `onStaggered: hold` is refused beside them: nothing lifts the gate of what keeps nodes. Known issue
    lws-strays: such a pod ends when its finalizer is taken away.
    """
    meta = {"name": "alone", "namespace": TEAM}
    apply(world.plane, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": plain()})
    pod = world.plane.call("GET", f"{PODS}/alone")
    assert GATE in {gate["name"] for gate in pod["spec"]["schedulingGates"]}
    assert pod["metadata"]["finalizers"] == ["kueue.x-k8s.io/managed"]
    world.delete(f"{PODS}/alone")
    world.patch(f"{PODS}/alone", {"metadata": {"finalizers": None}})


def _counts(workload: Object) -> dict[str, int]:
    return {each["name"]: each["count"] for each in workload["spec"]["podSets"]}


def _pods(world: World, *, gated: bool) -> Counter[str]:
    """How many pods of each group."""
    label = "leaderworkerset.sigs.k8s.io/group-index"
    return Counter(pod["metadata"]["labels"][label] for pod in world.pods(gated=gated))
