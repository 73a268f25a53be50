"""A stack without CPU pools: the head of a gang runs on a node of its workers."""

from functools import partial

from tests.integration.kueue_api.objects import apply
from tests.integration.kueue_api.works import plain, with_gpu, work
from tests.integration.kueue_api.world import World, size_of
from tests.waiting import eventually


def test_a_head_that_tolerates_gpus_gets_quota_and_a_place_with_its_workers(world: World) -> None:
    """Nothing is requested for it, and it waits for no node beforehand: it fits on the workers'."""
    cluster = work("RayCluster", with_gpu("l4"), count=2)
    placed = {key: with_gpu("l4")[key] for key in ("nodeSelector", "tolerations")}
    cluster["spec"]["headGroupSpec"]["template"]["spec"] = {**plain(), **placed}
    with world.manager():
        apply(world.plane, cluster)
        (request,) = eventually("it has asked", partial(world.asked, "job"))
        assert size_of(request) == 2
        workload = world.workload("job") or {}
        assigned = {
            each["name"]: each["flavors"] for each in workload["status"]["admission"]["podSetAssignments"]
        }
        assert assigned["head"] == {"cpu": "l4", "memory": "l4"}
        world.provision(request)
        world.wait_until_runs("job")
