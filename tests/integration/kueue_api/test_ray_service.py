"""How a RayService that is queued is upgraded: through its queue, in its one cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from muster.model import names
from muster.model.ray import Upgrade
from tests.integration.kueue_api.objects import apply
from tests.integration.kueue_api.works import queued
from tests.integration.kueue_api.world import CLUSTERS, TEAM, World, pod, size_of
from tests.waiting import eventually

_NAME: Final = "llm"
_SERVICES: Final = f"/apis/ray.io/v1/namespaces/{TEAM}/rayservices"


def test_an_upgrade_is_queued_as_a_gang_and_runs_in_the_same_cluster(world: World) -> None:
    with _service(world, Upgrade.NONE):
        first = _started(world)
        (cluster,) = _clusters(world)
        assert _workers(world) == [(first, "none")]

        # Neither is seen by Kueue: the one is Ray Serve's, and KubeRay keeps the other until the next start.
        _change(world, serveConfigV2="applications: [ ]")
        _change_cluster(world, headGroupSpec={"rayStartParams": {"num-cpus": "0"}})
        # Both are: the service stops, and queues as the gang that it will be.
        (group,) = _spec(world)["workerGroupSpecs"]
        group["template"]["spec"]["containers"][0]["image"] = "newer"
        _change_cluster(world, workerGroupSpecs=[group | {"replicas": 2, "maxReplicas": 2}])
        request = _asked(world)
        assert size_of(request) == 2
        eventually("the old pods are gone", lambda: not world.items(f"/api/v1/namespaces/{TEAM}/pods"))
        assert not world.holds(_NAME, "Admitted")
        world.provision(request)
        eventually("it is started anew", lambda: len(_workers(world)) == 2)

        second = request["metadata"]["name"]
        assert _workers(world) == [(second, "newer")] * 2
        (same,) = _clusters(world)
        assert same["metadata"]["uid"] == cluster["metadata"]["uid"]
        assert same["spec"]["headGroupSpec"]["rayStartParams"] == {"num-cpus": "0"}


def test_an_evicted_service_stops_and_comes_back_through_the_gate(world: World) -> None:
    with _service(world, Upgrade.NONE):
        first = _started(world)
        world.stop_queue("HoldAndDrain")
        eventually("its pods are gone", lambda: not world.items(f"/api/v1/namespaces/{TEAM}/pods"))
        eventually("its quota is free", lambda: not world.holds(_NAME, "QuotaReserved"))
        eventually("its request is given back", lambda: not world.asked(_NAME))
        world.remove_nodes()
        world.stop_queue("None")
        again = _started(world)
        assert again != first
        assert len(_clusters(world)) == 1


def test_the_strategy_that_is_refused_runs_gpus_that_no_queue_has_counted(world: World) -> None:
    """Why muster/model/ray.py asks for None: what KubeRay does with its own default."""
    with _service(world, Upgrade.NEW_CLUSTER):
        request = _started(world)
        _change_cluster(world, headGroupSpec={"rayStartParams": {"num-cpus": "0"}})
        eventually("a second cluster has a worker of its own", lambda: len(_workers(world)) == 2)
        assert len(_clusters(world)) == 2
        counted = (world.workload(_NAME) or {})["spec"]["podSets"]
        assert {each["name"]: each["count"] for each in counted} == {"head": 1, "l4": 1}
        assert [each["metadata"]["name"] for each in world.asked(_NAME)] == [request]


@contextmanager
def _service(world: World, strategy: Upgrade) -> Iterator[None]:
    """It stands until the block ends: KubeRay has to be there to let go of it."""
    with world.kuberay(), world.manager():
        apply(world.plane, _manifest(strategy))
        yield
        world.delete(f"{_SERVICES}/{_NAME}")
        world.wait_until_empty(_SERVICES)


def _manifest(strategy: Upgrade) -> dict[str, Any]:
    head = pod("cpu") | {"tolerations": []}
    head["containers"][0]["resources"] = {"requests": {"cpu": "50m", "memory": "64Mi"}}
    workers = {"groupName": "l4", "replicas": 1, "minReplicas": 0, "maxReplicas": 1, "rayStartParams": {}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": queued(_NAME),
        "spec": {
            "serveConfigV2": "applications: []",
            "upgradeStrategy": {"type": strategy},
            "rayClusterConfig": {
                "rayVersion": "2.54.0",
                "headGroupSpec": {"rayStartParams": {}, "template": {"spec": head}},
                "workerGroupSpecs": [workers | {"template": {"spec": pod("l4")}}],
            },
        },
    }


def _started(world: World) -> str:
    """Gives it the nodes that it asks for; returns the name of its request."""
    request = _asked(world)
    assert not _workers(world), "no pod is there before its nodes are"
    world.provision(request)
    world.wait_until_runs(_NAME)
    eventually("its worker is made", lambda: _workers(world))
    return str(request["metadata"]["name"])


def _asked(world: World) -> dict[str, Any]:
    """The request of its newest Workload that has no answer yet."""

    def new() -> list[dict[str, Any]]:
        return [one for one in world.asked(_NAME) if not (one.get("status") or {}).get("conditions")]

    (found,) = eventually("it has asked", new)
    return dict(found)


def _change(world: World, **spec: Any) -> None:
    world.patch(f"{_SERVICES}/{_NAME}", {"spec": spec})


def _change_cluster(world: World, **spec: Any) -> None:
    _change(world, rayClusterConfig=spec)


def _spec(world: World) -> dict[str, Any]:
    found: dict[str, Any] = world.plane.call("GET", f"{_SERVICES}/{_NAME}")["spec"]["rayClusterConfig"]
    return found


def _clusters(world: World) -> list[dict[str, Any]]:
    return world.items(CLUSTERS)


def _workers(world: World) -> list[tuple[str, str]]:
    """The lease that each worker is pinned to, and its image."""
    found = world.items(f"/api/v1/namespaces/{TEAM}/pods")
    return [
        (each["spec"]["nodeSelector"].get(names.GKE_LEASE_LABEL, ""), each["spec"]["containers"][0]["image"])
        for each in found
        if each["metadata"]["labels"].get("ray.io/node-type") == "worker"
    ]
