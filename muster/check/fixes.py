"""What `--fix` writes beside what admission fills in: the answers that are the only ones.

A choice, such as a smaller request or another pool, stays its author's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from muster.controller.kueue.default_queue import mapping
from muster.model import names
from muster.model.stack import Scheduler, Stack

Json = dict[str, Any]
_CLUSTERS: Final = {"RayJob": ("rayClusterSpec",), "RayCluster": (), "RayService": ("rayClusterConfig",)}


def fix(body: Json, stack: Stack) -> None:
    """Change the object in place. What is malformed stays."""
    spec = body.get("spec")
    if not isinstance(spec, dict):
        return
    is_kai = stack.scheduler is Scheduler.KAI
    if is_kai and body["kind"] == "RayJob" and spec.get("submissionMode") in (None, "", "K8sJobMode"):
        # KAI leaves KubeRay's submitter out of the group of the job's pods.
        spec["submissionMode"] = "HTTPMode"
    for cluster in _clusters(body):
        service = mapping(cluster, "headGroupSpec", "headService", "metadata")
        if body["kind"] == "RayService" and isinstance(service, dict):
            service.pop("name", None)
    for pod in _pods(spec):
        _pod(pod, names.KAI_SCHEDULER if is_kai else "default-scheduler")


def _clusters(body: Json) -> Iterator[Json]:
    found = mapping(body, "spec", *_CLUSTERS.get(body["kind"], ("",)))
    if isinstance(found, dict) and found:
        yield found


def _pods(value: object) -> Iterator[Json]:
    """The specs of every pod template in a value."""
    if isinstance(value, list):
        for each in value:
            yield from _pods(each)
    elif isinstance(value, dict):
        if isinstance(value.get("containers"), list):
            yield value
            return
        for each in value.values():
            yield from _pods(each)


def _pod(pod: Json, scheduler: str) -> None:
    if pod.get("schedulerName") not in (None, "", "default-scheduler", scheduler):
        pod["schedulerName"] = scheduler
    for volume in pod.get("volumes") or ():
        if isinstance(volume, dict) and str(mapping(volume, "hostPath").get("path", "")).endswith("/shm"):
            del volume["hostPath"]
            volume["emptyDir"] = {"medium": "Memory"}
    for container in (*(pod.get("initContainers") or ()), *pod["containers"]):
        resources = container.get("resources") if isinstance(container, dict) else None
        requests = mapping(resources, "requests") if isinstance(resources, dict) else {}
        for name, amount in requests.items():
            # Of devices Kubernetes takes no other limit than the request.
            if name in names.DEVICE_RESOURCES and isinstance(resources, dict):
                limits = resources.get("limits") or {}
                if isinstance(limits, dict) and name not in limits:
                    resources["limits"] = {**limits, name: amount}
