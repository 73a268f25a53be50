"""JobSets with their real controller and Kueue: a gang of a driver and eight workers of each of two shapes,
whole or not at all; also by placeholders, with the real scheduler, and under a manager that is killed.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest

from muster.config import load
from muster.model.work import SERVED, Work
from tests import built
from tests.faults.breaks import Calm
from tests.faults.kills import Kill
from tests.faults.seeds import seeds
from tests.integration.kueue_api.brought import controller
from tests.integration.kueue_api.cloud import Cloud, force
from tests.integration.kueue_api.conftest import PLACEHOLDERS as PLACED
from tests.integration.kueue_api.conftest import placed_world, world_of
from tests.integration.kueue_api.objects import apply
from tests.integration.kueue_api.test_killed import starts_once_under_kills
from tests.integration.kueue_api.works import plain, queued, with_gpu
from tests.integration.kueue_api.world import (
    JOBS,
    PODS,
    REQUESTS,
    STACK,
    TEAM,
    TEMPLATES,
    World,
    condition,
    holds,
    is_outside,
    size_of,
)
from tests.integration.pod_autoscaler import PLACEHOLDERS, taint_of
from tests.waiting import eventually

Object = dict[str, Any]

SETS: Final = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{TEAM}/jobsets"
_DRIVER, _L4, _H100 = "driver", "l4-workers", "h100-workers"


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A plane whose stack serves JobSets."""
    programs = built.programs(("jobset",), ("jobset-config",))
    stack = replace(load(STACK), work=(*SERVED, Work.JOBSET))
    with world_of(stack, tmp_path_factory.mktemp("sets")) as world:
        world.define(programs.kinds("jobset-config", below="crd/bases"), "JobSet")
        world.begin()
        # `_gang` sets what its webhooks would fill in.
        with controller(world.plane, "jobset", programs):
            yield world


def _gang(name: str) -> Object:
    """A driver without a GPU, and eight workers of each of two shapes."""
    shapes = ((_DRIVER, plain(), 1), (_L4, with_gpu("l4"), 8), (_H100, with_gpu("h100"), 8))
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": queued(name),
        "spec": {
            "suspend": True,
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
            "successPolicy": {"operator": "All"},
            "failurePolicy": {"maxRestarts": 2},
            "replicatedJobs": [_job(*shape) for shape in shapes],
        },
    }


def _job(name: str, spec: Object, count: int) -> Object:
    job = {"parallelism": count, "completions": count, "completionMode": "Indexed", "backoffLimit": 0}
    template = {"spec": {"restartPolicy": "Never", **spec}}
    return {"name": name, "replicas": 1, "template": {"spec": {**job, "template": template}}}


@pytest.fixture
def world(sets: World) -> Iterator[World]:
    yield sets
    sets.clear(SETS)


def _is_suspended(world: World, name: str) -> bool:
    return bool(world.plane.call("GET", f"{SETS}/{name}")["spec"].get("suspend"))


def test_a_gang_of_two_shapes_asks_for_both_and_starts_when_both_are_there(world: World) -> None:
    with world.manager():
        apply(world.plane, _gang("train"))
        (first,) = eventually("the scarcer shape is asked for", partial(world.asked, "train"))
        world.provision(first)
        (second,) = eventually("the other one is asked for", partial(world.asked, "train", first))
        assert [size_of(first), size_of(second)] == [8, 8]
        assert _is_suspended(world, "train")
        world.provision(second)
        world.wait_until_runs("train")
        eventually("its Jobs run", lambda: _at_work(world) == [1, 8, 8])


def test_a_gang_with_half_of_its_nodes_starts_no_pod_and_gives_them_back(world: World) -> None:
    with world.manager():
        apply(world.plane, _gang("half"))
        (first,) = eventually("the scarcer shape is asked for", partial(world.asked, "half"))
        world.provision(first)
        (second,) = eventually("the other one is asked for", partial(world.asked, "half", first))
        world.answer(second, "Failed")
        eventually("it waits outside of the quota", lambda: is_outside(world.workload("half")))
        eventually("both requests are gone", lambda: not {*_names(first, second)} & {*_left(world)})
        assert _is_suspended(world, "half")
        assert _at_work(world) == []
        assert world.items(PODS) == []


def test_by_placeholders_it_starts_whole_and_a_restart_keeps_its_quota_and_nodes(placed: Cloud) -> None:
    """The failure policy restarts it when a pod has failed: its pods are made anew on its nodes."""
    world = placed.world
    placed.stock |= {"l4": 8, "h100": 5}
    with world.manager():
        apply(world.plane, _gang("train"))
        placed.eventually("its nodes come in part", lambda: len(placed.nodes()) == 13)
        assert world.items(PODS) == []
        placed.stock["h100"] = 3
        placed.eventually("it runs whole", lambda: len(_running(world)) == 17)
        before, quota = {*_names(*_running(world))}, _reserved(world)
        nodes = {each["spec"]["nodeName"] for each in _running(world)}
        _fail(world, next(each for each in _running(world) if _L4 in each["metadata"]["name"]))

        def is_restarted() -> bool:
            _bury(world, PODS)
            names_now = {*_names(*_running(world))}
            return len(names_now) == 17 and not names_now & before

        placed.eventually("its pods run again", is_restarted)
    assert _reserved(world) == quota
    assert {each["spec"]["nodeName"] for each in _running(world)} == nodes
    assert len(placed.nodes()) == 16


@pytest.mark.parametrize("seed", seeds())
def test_under_a_manager_that_is_killed_at_its_writes_it_starts_whole_once(placed: Cloud, seed: int) -> None:
    """Before or after some of its writes: there are some forty."""
    world = placed.world

    def is_whole() -> bool:
        _bury(world, PLACEHOLDERS)  # A deletion whose caller dies in it may leave the rest to the kubelet.
        return len(_running(world)) == 17

    placed.stock |= {"l4": 8, "h100": 8}
    with world.killed_manager(seed) as proxy:
        plan = proxy.plan
        assert isinstance(plan, Kill)
        apply(world.plane, _gang("train"))
        placed.eventually("it runs whole", is_whole)
        proxy.plan = Calm()
        eventually("no placeholder is left", lambda: not world.items(PLACEHOLDERS))
        eventually("no node is held", lambda: not any(map(taint_of, placed.nodes())))
    assert plan.kills >= 3, plan
    assert len(placed.nodes()) == 16, "nodes were bought twice"
    assert len(world.items(TEMPLATES)) == 2


@pytest.mark.parametrize("seed", seeds())
def test_by_requests_a_manager_that_is_killed_starts_it_whole_once(world: World, seed: int) -> None:
    starts_once_under_kills(world, _gang("train"), [8, 8], seed)
    eventually("its Jobs run", lambda: _at_work(world) == [1, 8, 8])


@pytest.fixture(scope="module")
def _placed_sets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    programs = built.programs(("jobset",), ("jobset-config",))
    stack = replace(load(PLACED), work=(*SERVED, Work.JOBSET))
    with placed_world(stack, tmp_path_factory.mktemp("placed-sets")) as world:
        world.define(programs.kinds("jobset-config", below="crd/bases"), "JobSet")
        with controller(world.plane, "jobset", programs):
            yield world


@pytest.fixture
def placed(_placed_sets: World) -> Iterator[Cloud]:
    made = Cloud(_placed_sets.plane, world=_placed_sets)
    yield made
    _placed_sets.remove(SETS)
    made.clear()


def _running(world: World) -> list[Object]:
    """Its pods that have a node and are not at their end. No kubelet is here that would start them."""
    return [
        each
        for each in world.items(PODS)
        if each["spec"].get("nodeName")
        and "deletionTimestamp" not in each["metadata"]
        and each["status"].get("phase") != "Failed"
    ]


def _reserved(world: World) -> tuple[str, str]:
    """Which Workload has its quota, and since when."""
    workload = world.workload("train") or {}
    assert holds(workload, "Admitted")
    return workload["metadata"]["uid"], condition(workload, "QuotaReserved")["lastTransitionTime"]


def _fail(world: World, pod: Object) -> None:
    world.patch(f"{PODS}/{pod['metadata']['name']}/status", {"status": {"phase": "Failed"}})


def _bury(world: World, pods: str) -> None:
    """End the pods that are deleted, as a kubelet does."""
    for pod in world.items(pods):
        if "deletionTimestamp" in pod["metadata"]:
            force(world.plane, f"{pods}/{pod['metadata']['name']}")


def _at_work(world: World) -> list[int]:
    jobs = (each["spec"] for each in world.items(JOBS))
    return sorted(job["parallelism"] for job in jobs if not job.get("suspend"))


def _names(*items: Object) -> list[str]:
    return [each["metadata"]["name"] for each in items]


def _left(world: World) -> list[str]:
    return _names(*world.items(REQUESTS))
