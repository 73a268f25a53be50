"""Why our webhooks refuse it: without them the real Kueue and KubeRay take what never starts."""

from functools import partial

from tests.integration.kueue_api.objects import apply
from tests.integration.kueue_api.works import PATHS, Object, plain, selecting, with_gpu, work
from tests.integration.kueue_api.world import World, condition
from tests.waiting import eventually


def test_kuberay_fails_a_job_in_an_existing_cluster_that_kueue_has_suspended(world: World) -> None:
    """Why it is refused. Without our webhooks, Kueue's suspend it."""
    job = selecting()
    path = f"{PATHS['RayJob']}/job"
    apply(world.plane, job)
    try:
        assert world.plane.call("GET", path)["spec"]["suspend"] is True
        with world.kuberay():
            status = eventually("KubeRay has looked at it", lambda: _deployed(world.plane.call("GET", path)))
        assert status["jobDeploymentStatus"] == "ValidationFailed"
        assert "doesn't support the suspend operation" in status["reason"] + status.get("message", "")
    finally:
        world.delete(path)


def _deployed(job: Object) -> Object | None:
    status: Object = job.get("status") or {}
    return status if status.get("jobDeploymentStatus") else None


_WAITING = {
    "device": (plain(**{"example.com/fpga": "1"}), "resource example.com/fpga unavailable in ClusterQueue"),
    "intolerant": ({**with_gpu("l4"), "tolerations": []}, "untolerated taint"),
    "large": (plain(cpu="3"), "insufficient quota for cpu"),
}


def test_kueue_lets_it_wait_for_ever(world: World) -> None:
    """Its Workload alone says so."""
    with world.manager():
        for name, (spec, _) in _WAITING.items():
            job = work("Job", spec)
            job["metadata"]["name"] = name
            apply(world.plane, job)
        for name, (_, why) in _WAITING.items():
            said = eventually(f"Kueue has looked at {name}", partial(_reason, world, name))
            assert why in said


def _reason(world: World, name: str) -> str:
    found = condition(world.workload(name) or {}, "QuotaReserved")
    return str(found.get("message", "")) if found["status"] == "False" else ""
