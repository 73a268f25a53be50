"""The RayCluster of team-b that grows: the Ray autoscaler is the test, which writes `replicas` as it does."""

from collections.abc import Iterable
from typing import Any, Final

from tests.integration.kueue_api.works import queued
from tests.integration.kueue_api.world import CLUSTERS, TEAM, World, pod

Object = dict[str, Any]

NAME: Final = "elastic"
GATE: Final = "kueue.x-k8s.io/elastic-job"


def elastic() -> Object:
    small = {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"cpu": "50m", "memory": "64Mi"}}
    head = pod("cpu") | {"tolerations": []}
    head["containers"][0]["resources"] = small
    workers = {"groupName": "l4", "replicas": 1, "minReplicas": 0, "maxReplicas": 4}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {**queued(NAME), "annotations": {GATE: "true"}},
        "spec": {
            "suspend": True,
            "rayVersion": "2.54.0",
            "enableInTreeAutoscaling": True,
            "autoscalerOptions": {"resources": small},
            "headGroupSpec": {"rayStartParams": {}, "template": {"spec": head}},
            "workerGroupSpecs": [workers | {"rayStartParams": {}, "template": {"spec": pod("l4")}}],
        },
    }


def pods(world: World) -> list[Object]:
    """Those that do not end."""
    found = world.items(f"/api/v1/namespaces/{TEAM}/pods")
    return [each for each in found if "deletionTimestamp" not in each["metadata"]]


def uids(world: World) -> set[str]:
    return {uid(each) for each in pods(world)}


def uid(item: Object) -> str:
    return str(item["metadata"]["uid"])


def spec_of(world: World) -> Object:
    found: Object = world.plane.call("GET", f"{CLUSTERS}/{NAME}")["spec"]
    return found


def is_up(world: World) -> bool:
    """Kueue has started it."""
    return spec_of(world)["suspend"] is False


def scale(world: World, replicas: int, *, without: Iterable[str] = ()) -> None:
    """Ray's autoscaler names the pods that go."""
    first = "/spec/workerGroupSpecs/0"
    change = [
        {"op": "replace", "path": f"{first}/replicas", "value": replicas},
        {"op": "add", "path": f"{first}/scaleStrategy", "value": {"workersToDelete": [*without]}},
    ]
    world.plane.call("PATCH", f"{CLUSTERS}/{NAME}", change, content_type="application/json-patch+json")
