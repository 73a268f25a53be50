"""TrainJobs with Trainer's and JobSet's real controllers and Kueue: a gang of nodes, whole or not at all."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest

from muster.config import load
from muster.model.work import SERVED, Work
from tests import built
from tests.integration.kueue_api.brought import controller
from tests.integration.kueue_api.conftest import world_of
from tests.integration.kueue_api.objects import apply
from tests.integration.kueue_api.works import queued, with_gpu
from tests.integration.kueue_api.world import PODS, STACK, TEAM, World, is_outside, size_of
from tests.waiting import eventually

Object = dict[str, Any]

GROUP: Final = "trainer.kubeflow.org/v1alpha1"
TRAINS: Final = f"/apis/{GROUP}/namespaces/{TEAM}/trainjobs"
SETS: Final = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{TEAM}/jobsets"
RUNTIME: Final = "torch-h100"


@pytest.fixture(scope="module")
def trains(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A plane whose stack serves TrainJobs, with a runtime of one node with a GPU."""
    programs = built.programs(("jobset", "trainer"), ("jobset-config", "trainer-config"))
    stack = replace(load(STACK), work=(*SERVED, Work.TRAINJOB))
    with world_of(stack, tmp_path_factory.mktemp("trains")) as world:
        plane = world.plane
        plane.define(programs.kinds("jobset-config", below="crd/bases"))
        plane.define(programs.kinds("trainer-config", below="crds"))
        world.begin()
        plane.apply(_runtime(), f"/apis/{GROUP}/clustertrainingruntimes/{RUNTIME}")
        with controller(plane, "jobset", programs), controller(plane, "trainer", programs):
            yield world


def _runtime() -> Object:
    """What the platform team writes: a node, and that it may run beside GPUs."""
    pod = with_gpu("h100")
    pod["containers"][0]["name"] = "node"
    template = {"spec": {**pod, "restartPolicy": "Never"}}
    job = {
        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": {"backoffLimit": 0, "template": template},
    }
    return {
        "apiVersion": GROUP,
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": RUNTIME},
        "spec": {
            "mlPolicy": {"numNodes": 1, "torch": {}},
            "template": {"spec": {"replicatedJobs": [{"name": "node", "replicas": 1, "template": job}]}},
        },
    }


def _gang(name: str, nodes: int) -> Object:
    return {
        "apiVersion": GROUP,
        "kind": "TrainJob",
        "metadata": queued(name),
        "spec": {
            "runtimeRef": {
                "name": RUNTIME,
                "kind": "ClusterTrainingRuntime",
                "apiGroup": "trainer.kubeflow.org",
            },
            "trainer": {"numNodes": nodes},
        },
    }


@pytest.fixture
def world(trains: World) -> Iterator[World]:
    yield trains
    trains.clear(TRAINS, SETS)  # No garbage collector runs here.


def _parallelism(world: World) -> list[int]:
    return [
        job["template"]["spec"]["parallelism"]
        for each in world.items(SETS)
        if not each["spec"].get("suspend")
        for job in each["spec"]["replicatedJobs"]
    ]


def test_its_nodes_are_asked_for_and_it_starts_when_they_are_there(world: World) -> None:
    with world.manager():
        apply(world.plane, _gang("train", 3))
        (request,) = eventually("its nodes are asked for", partial(world.asked, "train"))
        assert size_of(request) == 3
        assert _parallelism(world) == []
        world.provision(request)
        world.wait_until_runs("train")
        eventually("its JobSet runs", lambda: _parallelism(world) == [3])


def test_without_its_nodes_it_starts_no_pod_and_waits_outside_of_the_quota(world: World) -> None:
    with world.manager():
        apply(world.plane, _gang("none", 2))
        (request,) = eventually("its nodes are asked for", partial(world.asked, "none"))
        world.answer(request, "Failed")
        eventually("it waits outside of the quota", lambda: is_outside(world.workload("none")))
        assert _parallelism(world) == []
        assert world.items(PODS) == []
