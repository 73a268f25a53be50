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
