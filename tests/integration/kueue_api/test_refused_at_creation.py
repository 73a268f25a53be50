"""Our webhooks, called by a real API server through their Service: what could never be stopped is refused."""

from __future__ import annotations

import json
import urllib.error
from typing import Any, Final

from muster.model import names
from tests.integration.kueue_api.world import TEAM, World, pod

_JOBS: Final = f"/apis/ray.io/v1/namespaces/{TEAM}/rayjobs"


def test_an_interactive_ray_job_is_refused_with_the_way_out(world: World) -> None:
    with world.webhooks():
        said = _refusal(world, _ray_job("InteractiveMode"))
        assert "InteractiveMode cannot be suspended" in said
        assert "use HTTPMode, or K8sJobMode" in said
        for mode in ("HTTPMode", "K8sJobMode", ""):
            assert _refusal(world, _ray_job(mode)) == ""


def _ray_job(mode: str) -> dict[str, Any]:
    labels = {names.QUEUE_LABEL: "default", names.PRIORITY_LABEL: "prod"}
    head = {"rayStartParams": {}, "template": {"spec": pod("l4")}}
    spec: dict[str, Any] = {
        "suspend": True,
        "shutdownAfterJobFinishes": True,
        "rayClusterSpec": {"headGroupSpec": head},
    }
    if mode:
        spec["submissionMode"] = mode
    if mode != "InteractiveMode":
        spec["entrypoint"] = "true"
    meta = {"name": "job", "namespace": TEAM, "labels": labels}
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": meta, "spec": spec}


def _refusal(world: World, body: dict[str, Any]) -> str:
    """What is said against it; empty when it would be taken."""
    try:
        world.plane.call("POST", f"{_JOBS}?dryRun=All", body)
    except urllib.error.HTTPError as refused:
        return str(json.loads(refused.read())["message"])
    return ""
