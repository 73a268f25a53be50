"""Ray clusters and Jobs of KAI gangs as our webhook leaves them. Pure."""

from typing import Any, Final

from muster.model.names import GANG_GATE, GPU_RESOURCE, KAI_QUEUE_LABEL, POOL_LABEL

Json = dict[str, Any]

# Ray's own kind, cut to what is told apart here; KubeRay's definition has a million bytes.
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
RAY_CLUSTERS: Final = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "rayclusters.ray.io"},
    "spec": {
        "group": "ray.io",
        "scope": "Namespaced",
        "names": {"kind": "RayCluster", "plural": "rayclusters", "singular": "raycluster"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": _ANYTHING}}},
            }
        ],
    },
}


def ray_cluster(name: str, queue: str, *, workers: int, fraction: str = "") -> Json:
    """All of its workers are KAI's minimum. The parts of GPUs are those of workers."""
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name, "labels": {KAI_QUEUE_LABEL: queue}},
        "spec": {
            "headGroupSpec": {"template": _template()},
            "workerGroupSpecs": [worker_group(workers, least=workers, fraction=fraction)],
        },
    }


def job(name: str, queue: str, *, pods: int) -> Json:
    template = _template()
    template["spec"]["restartPolicy"] = "Never"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {KAI_QUEUE_LABEL: queue}},
        "spec": {"parallelism": pods, "completions": pods, "template": template},
    }


def worker_group(count: int, *, least: int, fraction: str = "") -> Json:
    template = _template(fraction)
    return {"groupName": "workers", "replicas": count, "minReplicas": least, "template": template}


def _template(fraction: str = "") -> Json:
    """A pod of one GPU, or of a part of one, as the webhook leaves it: behind the gate."""
    requests = {"cpu": "1", "memory": "1Gi"} | ({} if fraction else {GPU_RESOURCE: "1"})
    limits = {} if fraction else {GPU_RESOURCE: "1"}
    container = {"name": "ray", "image": "none", "resources": {"requests": requests, "limits": limits}}
    return {
        "metadata": {"annotations": {"gpu-fraction": fraction} if fraction else {}},
        "spec": {
            "schedulingGates": [{"name": GANG_GATE}],
            "nodeSelector": {POOL_LABEL: "l4"},
            "containers": [container],
        },
    }
