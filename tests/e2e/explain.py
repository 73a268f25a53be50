"""What a failed test prints: the objects that explain it, and what the programs said.

Short, with the failure itself at both ends: a reader of CI may be shown only a part of it.
"""

import json
import subprocess
from collections.abc import Iterator

from muster.kubernetes.errors import ApiError, UnreachableError
from muster.local.demo.cluster import Object
from muster.local.demo.events import name_of
from tests.e2e.local_cluster import TEAMS, Muster

_LOG_LINES = 6
_EVENTS = 20
# What every program says again and again while the API server is away.
_EXPECTED = ("watch interrupted", "Watch failed", "Failed to watch", "connection refused")


def explain(muster: Muster, failure: str) -> str:
    """Works as far as the API server answers."""
    parts: list[str] = [failure]
    for section in (_objects, _events, _logs):
        try:
            parts += section(muster)
        except (ApiError, UnreachableError, subprocess.TimeoutExpired) as error:
            parts.append(f"{section.__name__}: {error}")
    parts.append(failure)
    return "\n".join(parts)


def _objects(muster: Muster) -> Iterator[str]:
    now = muster.recorder.now()
    for node in now.of("Node"):
        yield f"Node {name_of(node)}: {_conditions(node)}"
    for kind in ("RayJob", "RayCluster", "Job"):
        for found in now.of(kind):
            status = found.get("status") or {}
            told = {
                key: status[key]
                for key in ("jobDeploymentStatus", "jobStatus", "state", "message", "reason")
                if key in status
            }
            yield f"{kind} {_path(found)}: suspend={found['spec'].get('suspend')} {told} {_conditions(found)}"
    for workload in now.of("Workload"):
        checks = [
            f"{check['name']}={check['state']}: {check.get('message')}"
            for check in (workload.get("status") or {}).get("admissionChecks") or ()
        ]
        notes = {k: v for k, v in (workload["metadata"].get("annotations") or {}).items() if "muster" in k}
        active = workload["spec"].get("active")
        yield f"Workload {_path(workload)}: active={active} {checks} {notes} {_conditions(workload)}"
    for request in now.of("ProvisioningRequest"):
        details = (request.get("status") or {}).get("provisioningClassDetails")
        yield f"ProvisioningRequest {_path(request)}: {_conditions(request)} {details}"
    for pod in now.of("Pod"):
        status = pod.get("status") or {}
        states = [json.dumps(one.get("state")) for one in status.get("containerStatuses") or ()]
        where = pod["spec"].get("nodeName")
        yield f"Pod {_path(pod)} on {where}: {status.get('phase')} {states} {_unscheduled(pod)}"


def _events(muster: Muster) -> Iterator[str]:
    found = muster.cluster.all("Event")
    found.sort(key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))
    for event in found[-_EVENTS:]:
        about = event.get("involvedObject") or {}
        yield (
            f"Event {event.get('lastTimestamp') or event.get('eventTime')} {about.get('kind')} "
            f"{about.get('namespace')}/{about.get('name')} {event.get('reason')}: {event.get('message')}"
        )


def _logs(muster: Muster) -> Iterator[str]:
    for namespace in ("muster-system", "kueue-system", "ray-system", *TEAMS):
        for pod in muster.cluster.all("Pod", namespace=namespace):
            yield f"-- logs of {namespace}/{name_of(pod)}, the last {_LOG_LINES} lines"
            yield from _said(muster, pod, "--all-containers", "--prefix")
            for container in _died(pod):
                yield f"-- and of its {container} before that"
                yield from _said(muster, pod, "--container", container, "--previous")


def _said(muster: Muster, pod: Object, *which: str) -> list[str]:
    meta = pod["metadata"]
    where = ["kubectl", "logs", "--namespace", meta["namespace"], meta["name"], "--tail=200"]
    done = subprocess.run(
        [*where, *which], env=muster.environment, capture_output=True, text=True, timeout=30, check=False
    )
    said = (done.stdout + done.stderr).splitlines()
    return [line[:200] for line in said if not any(word in line for word in _EXPECTED)][-_LOG_LINES:]


def _died(pod: Object) -> list[str]:
    """Its containers that were started again."""
    states = (pod.get("status") or {}).get("containerStatuses") or ()
    return [one["name"] for one in states if one.get("restartCount")]


def _conditions(found: Object) -> str:
    conditions = (found.get("status") or {}).get("conditions") or ()
    return "; ".join(
        f"{one['type']}={one['status']}({one.get('reason')}) "
        f"{one.get('lastTransitionTime')} {one.get('message', '')[:200]}"
        for one in conditions
    )


def _unscheduled(pod: Object) -> str:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next(
        (
            one.get("message", "")
            for one in conditions
            if one["type"] == "PodScheduled" and one["status"] != "True"
        ),
        "",
    )


def _path(found: Object) -> str:
    return f"{found['metadata'].get('namespace')}/{name_of(found)}"
