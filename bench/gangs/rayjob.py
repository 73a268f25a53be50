"""A RayJob's Workload as it lies in a store: with a head and its workers, and with who wrote which field.

Decides what a usual one carries, so that a standing load has the size of a real one (some ten kilobytes). Of
the pods it is what people write and Kueue copies: environment, probes, mounts and volumes.
"""

import uuid
from collections.abc import Mapping
from typing import Any, Final

from bench.gangs.shapes import POOL, Gang
from model import names

HEAD: Final = "head"
WORKERS: Final = "workers"
HEAD_AMOUNTS: Final = {"cpu": "2", "memory": "8Gi"}
WORKER_AMOUNTS: Final = {"cpu": "8", "memory": "64Gi", names.GPU_RESOURCE: "1"}
_SPACE: Final = uuid.UUID("6f0f4c1e-7d53-4f0f-9e55-5c2f0a3f5b7d")
_RAY: Final = "ray.io/v1"
_IMAGE: Final = "registry.example.com/research/train@sha256:" + "0123456789abcdef" * 4
_HEALTH: Final = (
    "wget --tries 1 -T 2 -q -O- http://localhost:52365/api/local_raylet_healthz | grep success"
    " && wget --tries 1 -T 10 -q -O- http://localhost:8265/api/gcs_healthz | grep success"
)
_VARIABLES: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_GRAFANA_HOST": "http://grafana.monitoring.svc:3000",
    "RAY_PROMETHEUS_HOST": "http://prometheus.monitoring.svc:9090",
    "NCCL_DEBUG": "WARN",
    "NCCL_SOCKET_IFNAME": "eth0",
    "HF_HOME": "/data/cache/huggingface",
    "OMP_NUM_THREADS": "8",
    "PYTHONUNBUFFERED": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "WANDB_MODE": "offline",
}


def workload(gang: Gang) -> dict[str, Any]:
    """Kueue's Workload of a RayJob of the same name."""
    job = str(uuid.uuid5(_SPACE, f"{gang.namespace}/{gang.name}"))
    owner = {"apiVersion": _RAY, "kind": "RayJob", "name": gang.name, "uid": job}
    meta = {
        "name": gang.name,
        "namespace": gang.namespace,
        "labels": {"kueue.x-k8s.io/job-uid": job},
        "finalizers": ["kueue.x-k8s.io/resource-in-use"],
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
    }
    spec = {
        "queueName": "default",
        "active": True,
        "priority": gang.priority,
        "podSets": [
            {"name": HEAD, "count": 1, "template": _pod("ray-head", HEAD_AMOUNTS)},
            {"name": WORKERS, "count": gang.pods, "template": _worker()},
        ],
    }
    return {"apiVersion": names.KUEUE_API_VERSION, "kind": "Workload", "metadata": meta, "spec": spec}


def managed(body: Mapping[str, Any], *, since: str) -> dict[str, Any]:
    """The object with the record that the API server keeps of who wrote what: Kueue the job's, and the status
    in two parts.
    """
    made = {key: value for key, value in body["metadata"].items() if key in ("labels", "ownerReferences")}
    status = dict(body.get("status", {}))
    checks = {"admissionChecks": status.pop("admissionChecks")} if "admissionChecks" in status else {}
    entries = [_entry("kueue", "Update", {"metadata": made, "spec": body["spec"]}, since)]
    entries.append(_entry("kueue-admission", "Apply", {"status": status}, since, sub="status"))
    if checks:
        entries.append(_entry("muster-manager", "Apply", {"status": checks}, since, sub="status"))
    return {**body, "metadata": {**body["metadata"], "managedFields": entries}}


def _pod(name: str, amounts: Mapping[str, str]) -> dict[str, Any]:
    probe = {"exec": {"command": ["bash", "-c", _HEALTH]}, "failureThreshold": 120, "timeoutSeconds": 5}
    mounts = {"data": "/data", "logs": "/tmp/ray", "shared-memory": "/dev/shm", "program": "/work"}  # noqa: S108
    container = {
        "name": name,
        "image": _IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "env": [
            {
                "name": "NODE_NAME",
                "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}},
            },
            *({"name": key, "value": value} for key, value in _VARIABLES.items()),
        ],
        "livenessProbe": {**probe, "periodSeconds": 5, "initialDelaySeconds": 30},
        "readinessProbe": {**probe, "periodSeconds": 5, "initialDelaySeconds": 10},
        "resources": {"requests": dict(amounts), "limits": dict(amounts)},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "volumeMounts": [{"name": each, "mountPath": path} for each, path in mounts.items()],
    }
    spec = {
        "containers": [container],
        "dnsPolicy": "ClusterFirst",
        "restartPolicy": "Never",
        "schedulerName": "default-scheduler",
        "securityContext": {"runAsUser": 1000, "fsGroup": 100},
        "serviceAccountName": "research",
        "terminationGracePeriodSeconds": 30,
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "research-data"}},
            {"name": "logs", "emptyDir": {}},
            {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}},
            {"name": "program", "configMap": {"name": "train", "defaultMode": 420}},
        ],
    }
    return {"metadata": {"labels": {"team": "research"}}, "spec": spec}


def _worker() -> dict[str, Any]:
    pod = _pod("ray-worker", WORKER_AMOUNTS)
    toleration = {"key": names.GPU_TAINT_KEY, "operator": "Exists", "effect": "NoSchedule"}
    more = {"nodeSelector": {names.POOL_LABEL: POOL}, "tolerations": [toleration]}
    return {**pod, "spec": {**pod["spec"], **more}}


def _entry(manager: str, operation: str, wrote: Any, since: str, *, sub: str = "") -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": names.KUEUE_API_VERSION,
        "time": since,
        "fieldsType": "FieldsV1",
        "fieldsV1": _fields(wrote),
        **({"subresource": sub} if sub else {}),
    }


# What a list's items are told apart by (x-kubernetes-list-map-keys in the Workload's definition). Any
# other list belongs to its writer as a whole.
_KEYS: Final = ("uid", "mountPath", "name", "type")


def _fields(value: Any) -> dict[str, Any]:
    """The shape of what was written, as sigs.k8s.io/structured-merge-diff notes it down."""
    if isinstance(value, Mapping):
        return {f"f:{key}": _fields(each) for key, each in value.items()}
    found: dict[str, Any] = {}
    for item in value if isinstance(value, list) else ():
        key = next((each for each in _KEYS if isinstance(item, Mapping) and each in item), None)
        if key is not None:
            found[f'k:{{"{key}":"{item[key]}"}}'] = {".": {}, **_fields(item)}
    return found
