"""PyTorchJobs and MPIJobs with Kubeflow's real operators and Kueue: gangs of two shapes start whole."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest

from muster.config import load
from muster.model.work import SERVED, WORK, Work
from tests import built
from tests.integration.kueue_api.brought import OPERATORS
from tests.integration.kueue_api.conftest import world_of
from tests.integration.kueue_api.objects import apply
from tests.integration.kueue_api.works import plain, queued, with_gpu
from tests.integration.kueue_api.world import PODS, STACK, TEAM, World, is_outside, size_of
from tests.waiting import eventually

Object = dict[str, Any]

_JOBS: Final = {
    "PyTorchJob": ("v1", "pytorchjobs", "pytorchReplicaSpecs", "Master"),
    "MPIJob": ("v2beta1", "mpijobs", "mpiReplicaSpecs", "Launcher"),
}


def _path(kind: str) -> str:
    version, resource, _, _ = _JOBS[kind]
    return f"/apis/kubeflow.org/{version}/namespaces/{TEAM}/{resource}"


def _gang(kind: str, workers: int) -> Object:
    """A first pod without a GPU, and workers with one."""
    version, _, groups, first = _JOBS[kind]
    replicas = {}
    for group, count, spec in ((first, 1, plain()), ("Worker", workers, with_gpu("h100"))):
        spec["containers"][0]["name"] = "pytorch"
        replicas[group] = {"replicas": count, "restartPolicy": "Never", "template": {"spec": spec}}
    return {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": kind,
        "metadata": queued("gang"),
        "spec": {groups: replicas},
    }


@pytest.fixture(scope="module", params=_JOBS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def jobs(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A plane whose stack serves the kind, with its operator."""
    operator = OPERATORS[kind]
    programs = built.programs((operator.name,), (f"{operator.name}-config",))
    stack = replace(load(STACK), work=(*SERVED, Work(kind.lower())))
    with world_of(stack, tmp_path_factory.mktemp("jobs")) as world:
        world.define(operator.kinds(programs), kind)
        world.begin()
        with operator.running(world.plane, programs):
            yield world


@pytest.fixture
def world(kind: str, jobs: World) -> Iterator[World]:
    yield jobs
    jobs.clear(_path(kind))


def test_its_nodes_are_asked_for_and_it_starts_when_they_are_there(kind: str, world: World) -> None:
    with world.manager():
        apply(world.plane, _gang(kind, 3))
        (request,) = eventually("its nodes are asked for", partial(world.asked, "gang"))
        assert size_of(request) == 3
        assert world.items(PODS) == []
        world.provision(request)
        world.wait_until_runs("gang")
        eventually("its workers are made", lambda: len(_workers(kind, world)) == 3)


def test_without_its_nodes_it_starts_no_pod_and_waits_outside_of_the_quota(kind: str, world: World) -> None:
    with world.manager():
        apply(world.plane, _gang(kind, 2))
        (request,) = eventually("its nodes are asked for", partial(world.asked, "gang"))
        world.answer(request, "Failed")
        eventually("it waits outside of the quota", lambda: is_outside(world.workload("gang")))
        assert world.items(PODS) == []


def _workers(kind: str, world: World) -> list[Object]:
    (row,) = (each for each in WORK if each.kind == kind)
    assert row.labels
    label = row.labels.group
    return [each for each in world.items(PODS) if each["metadata"]["labels"].get(label) == "worker"]
