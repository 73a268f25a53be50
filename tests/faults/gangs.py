"""The work of these tests: a bare Workload over two pools, so that it needs two requests, and no Ray."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from muster.model import names
from tests.faults.plane import KUEUE, MERGE, PROVISIONING, Plane, find, items

PIECES: Final = {"head": ("l4", 1), "workers": ("h100", 2)}
TEAM: Final = "team-a"


def submit(
    plane: Plane,
    name: str,
    *,
    team: str = TEAM,
    priority: str = "dev",
    pieces: Mapping[str, tuple[str, int]] = PIECES,
    queue: str = "default",
    managed: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """`pieces`: PodSet -> (pool, pods of one GPU each). `managed`: forged managedFields.

    It asks for a run duration of its own, of which no lease that another gang has left has enough. Nothing
    runs on the nodes of these tests, so the cloud would remove them under a gang that takes them over
    (decision 031, which admission/test_vacated_leases.py tests).
    """
    body = {
        "apiVersion": names.KUEUE_API_VERSION,
        "kind": "Workload",
        "metadata": {
            "name": name,
            "namespace": team,
            "annotations": {f"{names.JOB_PARAMETER_PREFIX}maxRunDurationSeconds": "86400"},
            "managedFields": list(managed),
        },
        "spec": {
            "queueName": queue,
            "active": True,
            "priority": next(each.value for each in plane.stack.priorities if each.name == priority),
            "podSets": [
                {"name": pod_set, "count": count, "template": {"spec": _pod(pool)}}
                for pod_set, (pool, count) in pieces.items()
            ],
        },
    }
    return dict(plane.server.call("POST", f"{KUEUE}/namespaces/{team}/workloads", body))


def _pod(pool: str) -> dict[str, Any]:
    gpu = {"nvidia.com/gpu": "1"}
    resources = {"requests": {"cpu": "100m", **gpu}, "limits": gpu}
    return {
        "restartPolicy": "Never",
        "nodeSelector": {names.POOL_LABEL: pool},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "containers": [{"name": "work", "image": "none", "resources": resources}],
    }


def path(name: str, team: str = TEAM) -> str:
    return f"{KUEUE}/namespaces/{team}/workloads/{name}"


def read(plane: Plane, name: str, team: str = TEAM) -> dict[str, Any] | None:
    return find(plane.server, path(name, team))


def end(plane: Plane, name: str, team: str = TEAM) -> None:
    plane.server.call("DELETE", path(name, team))


def patch(plane: Plane, name: str, body: dict[str, Any], team: str = TEAM) -> None:
    plane.server.call("PATCH", path(name, team), body, content_type=MERGE)


def holds(workload: dict[str, Any] | None, condition: str) -> bool:
    found = ((workload or {}).get("status") or {}).get("conditions") or []
    return any(each["type"] == condition and each["status"] == "True" for each in found)


def since(plane: Plane, name: str, condition: str) -> datetime:
    """When the condition came to be as it is, in whole seconds."""
    found = plane.server.call("GET", path(name))["status"]["conditions"]
    text = next(each["lastTransitionTime"] for each in found if each["type"] == condition)
    return datetime.fromisoformat(text)


def entry(workload: dict[str, Any] | None) -> dict[str, Any]:
    """Our check's answer; empty when there is none."""
    found = ((workload or {}).get("status") or {}).get("admissionChecks") or []
    return next((each for each in found if each["name"] == names.ADMISSION_CHECK), {})


def is_admitted(plane: Plane, name: str, team: str = TEAM) -> bool:
    return holds(read(plane, name, team), "Admitted")


def requests(plane: Plane, team: str = TEAM) -> list[dict[str, Any]]:
    return items(plane.server, f"{PROVISIONING}/namespaces/{team}/provisioningrequests")


def uids(plane: Plane, team: str = TEAM) -> set[str]:
    """Those of its requests."""
    return {str(each["metadata"]["uid"]) for each in requests(plane, team)}


def templates(plane: Plane, team: str = TEAM) -> list[dict[str, Any]]:
    return items(plane.server, f"/api/v1/namespaces/{team}/podtemplates")
