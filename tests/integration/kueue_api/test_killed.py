"""Under a manager that is killed at its writes, a gang asks for each of its shapes once and starts whole."""

from functools import partial
from typing import Any, Final

import pytest

from muster.model import names
from tests.faults.breaks import Calm
from tests.faults.kills import Kill
from tests.faults.seeds import seeds
from tests.integration.kueue_api.objects import apply
from tests.integration.kueue_api.works import PATHS, with_gpu, work
from tests.integration.kueue_api.world import REQUESTS, TEMPLATES, World, holds, size_of
from tests.waiting import eventually

Object = dict[str, Any]
_LEASED: Final = f"/api/v1/nodes?labelSelector={names.GKE_LEASE_LABEL}"


def _ray_job() -> Object:
    """A head, four workers of one shape and two of another."""
    job = work("RayJob", with_gpu("l4"), count=4)
    groups = job["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    (other,) = work("RayJob", with_gpu("h100"), count=2)["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    groups.append({**other, "groupName": "h100"})
    return job


@pytest.mark.parametrize("seed", seeds())
def test_a_ray_job_of_two_shapes(world: World, seed: int) -> None:
    try:
        starts_once_under_kills(world, _ray_job(), [2, 4], seed)
    finally:
        world.remove(PATHS["RayJob"])


@pytest.mark.parametrize("seed", seeds())
def test_a_job(world: World, seed: int) -> None:
    starts_once_under_kills(world, work("Job", with_gpu("l4"), count=4), [4], seed)


def starts_once_under_kills(world: World, body: Object, shapes: list[int], seed: int) -> None:
    """The gang asks for so many pods of each shape, gets a node for each, and is admitted without leaving its
    quota.
    """
    asked = set[str]()

    def step() -> None:
        for request in world.items(REQUESTS):
            asked.add(request["metadata"]["uid"])
            if not holds(request, "Provisioned") and "deletionTimestamp" not in request["metadata"]:
                world.provision(request)

    name = body["metadata"]["name"]
    with world.killed_manager(seed, every=(1, 2, 3)) as proxy:
        plan = proxy.plan
        assert isinstance(plan, Kill)
        apply(world.plane, body)
        eventually("it is admitted", partial(world.holds, name, "Admitted"), step=step)
        proxy.plan = Calm()
    assert plan.kills, plan
    assert not world.holds(name, "Evicted")
    live = world.items(REQUESTS)
    assert sorted(map(size_of, live)) == shapes
    assert len(asked) == len(world.items(TEMPLATES)) == len(shapes)
    assert len(world.items(_LEASED)) == sum(shapes), "nodes were bought twice"
