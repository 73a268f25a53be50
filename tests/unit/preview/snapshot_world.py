"""Objects as a cluster serves them, and snapshots of them."""

from typing import Any

SECRET = "hunter2"


def workload(name: str = "train", *, state: str = "pending", **more: Any) -> dict[str, Any]:
    """A Workload of one PodSet with everything in it that a snapshot must not hold."""
    conditions = {
        "pending": [("QuotaReserved", "False")],
        "reserved": [("QuotaReserved", "True")],
        "admitted": [("QuotaReserved", "True"), ("Admitted", "True")],
        "finished": [("Finished", "True")],
    }[state]
    container = {
        "name": "main",
        "image": SECRET,
        "command": [SECRET],
        "args": [SECRET],
        "env": [{"name": "PASSWORD", "value": SECRET}],
        "envFrom": [{"secretRef": {"name": SECRET}}],
        "volumeMounts": [{"name": SECRET, "mountPath": SECRET}],
        "resources": {"requests": {"cpu": "1500m", "memory": "2Gi", "nvidia.com/gpu": 1}},
    }
    template = {
        "metadata": {"annotations": {SECRET: SECRET}, "labels": {SECRET: SECRET}},
        "spec": {
            "containers": [container],
            "nodeSelector": {"muster.dev/pool": "l4"},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "volumes": [{"secret": {"secretName": SECRET}}],
        },
    }
    assignment = {
        "name": "main",
        "count": 2,
        "flavors": {"cpu": "l4", "nvidia.com/gpu": "l4"},
        "resourceUsage": {"cpu": "3", "nvidia.com/gpu": "2"},
    }
    status: dict[str, Any] = {
        "conditions": [
            {
                "type": kind,
                "status": status,
                "reason": "Said",
                "message": SECRET,
                "lastTransitionTime": "2026-11-21T10:00:00Z",
            }
            for kind, status in conditions
        ]
    }
    if state in ("reserved", "admitted"):
        status["admission"] = {"clusterQueue": "team-a", "podSetAssignments": [assignment]}
    return {
        "metadata": {
            "namespace": "team-a",
            "name": name,
            "creationTimestamp": "2026-11-21T09:00:00Z",
            "annotations": {SECRET: SECRET},
            "ownerReferences": [{"kind": "RayJob", "name": "train", "controller": True}],
        },
        "spec": {
            "queueName": "default",
            "priority": 100,
            "priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "dev"},
            "podSets": [{"name": "main", "count": 2, "template": template}],
            **more,
        },
        "status": status,
    }


def cluster_queue(name: str = "team-a", *, gpus: int = 2) -> dict[str, Any]:
    resources = [{"name": "cpu", "total": "3"}, {"name": "nvidia.com/gpu", "total": str(gpus)}]
    return {
        "metadata": {"name": name},
        "spec": {"cohortName": "research"},
        "status": {"flavorsReservation": [{"name": "l4", "resources": resources}]},
    }


def local_queue(namespace: str = "team-a") -> dict[str, Any]:
    return {"metadata": {"namespace": namespace, "name": "default"}, "spec": {"clusterQueue": namespace}}


def kai_lists() -> dict[str, list[dict[str, Any]]]:
    """What a cluster with KAI serves: a group with a pod that runs, one that is about to and one behind the
    gate.
    """
    group = {
        "metadata": {
            "namespace": "team-a",
            "name": "pg-train",
            "annotations": {"kai.scheduler/last-start-timestamp": "2026-11-21T09:00:00Z", SECRET: SECRET},
        },
        "spec": {"queue": "q", "minMember": 3, "priorityClassName": "train"},
    }
    bound = _pod("bound", group="pg-train", node="n1")
    gated = _pod("gated", group="pg-train", gates=["muster.dev/gang"])
    other = _pod("system", gpus=0, cpu="500m", node="n1")
    over = _pod("over", group="pg-train", node="n1") | {"status": {"phase": "Succeeded"}}
    amounts = {"cpu": "8", "nvidia.com/gpu": "8", "pods": "110"}
    return {
        "/apis/scheduling.run.ai/v2/queues": [
            {"metadata": {"name": "q"}, "status": {"allocated": {"nvidia.com/gpu": "3"}}}
        ],
        "/apis/scheduling.run.ai/v2alpha2/podgroups": [group],
        "/apis/scheduling.run.ai/v1alpha2/bindrequests": [
            {"metadata": {"namespace": "team-a"}, "spec": {"podName": "picked", "selectedNode": "n1"}}
        ],
        "/api/v1/pods": [bound, gated, _pod("picked", group="pg-train"), other, over],
        "/api/v1/nodes": [{"metadata": {"name": "n1"}, "status": {"allocatable": amounts}}],
    }


def _pod(
    name: str,
    *,
    group: str = "",
    node: str = "",
    gates: list[str] | None = None,
    gpus: int = 1,
    cpu: str = "1500m",
) -> dict[str, Any]:
    requests = {"cpu": cpu, **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    container = {"name": "main", "image": SECRET, "command": [SECRET], "resources": {"requests": requests}}
    spec: dict[str, Any] = {
        "containers": [container],
        "schedulingGates": [{"name": each} for each in gates or ()],
    }
    notes = {SECRET: SECRET} | ({"pod-group-name": group} if group else {})
    return {
        "metadata": {"namespace": "team-a", "name": name, "annotations": notes},
        "spec": spec | ({"nodeName": node} if node else {}),
        "status": {"phase": "Running" if node else "Pending"},
    }
