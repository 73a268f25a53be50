"""JobSets with their real controller and Kueue: a gang of a driver and two shapes, whole or not at all."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest

from muster.config import load
from muster.model import names
from muster.model.work import SERVED, Work
from tests import built
from tests.integration.kueue_api.brought import controller
from tests.integration.kueue_api.conftest import world_of
from tests.integration.kueue_api.objects import apply
from tests.integration.kueue_api.works import plain, with_gpu
from tests.integration.kueue_api.world import JOBS, PODS, REQUESTS, STACK, TEAM, World, is_outside
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
        world.plane.define(programs.kinds("jobset-config", below="crd/bases"))
        world.begin()
        # `_gang` sets what its webhooks would fill in.
        with controller(world.plane, "jobset", programs):
            yield world


def _gang(name: str) -> Object:
    """A driver without a GPU, and two and three workers of two shapes."""
    shapes = ((_DRIVER, plain(), 1), (_L4, with_gpu("l4"), 2), (_H100, with_gpu("h100"), 3))
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {
            "name": name,
            "namespace": TEAM,
            "labels": {names.QUEUE_LABEL: "default", names.PRIORITY_LABEL: "prod"},
        },
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
    for item in sets.items(SETS):
        sets.delete(f"{SETS}/{item['metadata']['name']}")
    eventually("no JobSet is left", lambda: not sets.items(SETS))
    sets.clear()


def _is_suspended(world: World, name: str) -> bool:
    return bool(world.plane.call("GET", f"{SETS}/{name}")["spec"].get("suspend"))


def test_a_gang_of_two_shapes_asks_for_both_and_starts_when_both_are_there(world: World) -> None:
    with world.manager():
        apply(world.plane, _gang("train"))
        (first,) = eventually("the scarcer shape is asked for", partial(world.asked, "train"))
        world.provision(first)
        (second,) = eventually("the other one is asked for", partial(world.asked, "train", first))
        assert [_count(first), _count(second)] == [3, 2]
        assert _is_suspended(world, "train")
        world.provision(second)
        world.wait_until_runs("train")
        eventually("its Jobs run", lambda: _at_work(world) == [1, 2, 3])


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


def _at_work(world: World) -> list[int]:
    jobs = (each["spec"] for each in world.items(JOBS))
    return sorted(job["parallelism"] for job in jobs if not job.get("suspend"))


def _names(*items: Object) -> list[str]:
    return [each["metadata"]["name"] for each in items]


def _left(world: World) -> list[str]:
    return _names(*world.items(REQUESTS))


def _count(request: Object) -> int:
    return sum(each["count"] for each in request["spec"]["podSets"])
