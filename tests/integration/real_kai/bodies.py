"""Objects of a KAI stack as a person, our webhook or the cloud writes them. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from muster.local.simulated_cloud import names as cloud
from muster.model.names import (
    GANG_GATE,
    GPU_RESOURCE,
    GPU_TAINT_KEY,
    KAI_BATCH_MINIMUM,
    KAI_PRIORITY_LABEL,
    KAI_QUEUE_LABEL,
    KAI_SCHEDULER,
    PATCH_MANAGER,
    POOL_LABEL,
)

Json = dict[str, Any]

POOL: Final = "a10g"
Shapes = Mapping[str, tuple[int, int, int]]
"""Of a JobSet: so many Jobs of so many pods with so many GPUs each."""
_JOBSET: Final = "jobset.sigs.k8s.io"
NO_BOUND: Final = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
"""What a Queue has of a resource that nothing limits."""
_NODE: Final = {"cpu": "32", "memory": "128Gi", "pods": "110"}


def queue_body(
    name: str, gpu: Mapping[str, object], *, parent: str = "", metadata: Json | None = None, **spec: object
) -> Json:
    """A Queue with these figures for GPUs, and with nothing that limits the rest."""
    resources = {"gpu": gpu, "cpu": NO_BOUND, "memory": NO_BOUND}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": metadata or {"name": name},
        "spec": {"resources": resources, **spec, **({"parentQueue": parent} if parent else {})},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """A Ray cluster of a head without a GPU and of workers with one each.

    `least` None: all of its workers are KAI's minimum.
    """

    workers: int
    least: int | None = None


def ray_cluster(name: str, queue: str, gang: Gang, *, priority: str = "") -> Json:
    """As our webhook leaves it: every pod behind the gate."""
    group = {
        "groupName": "workers",
        "replicas": gang.workers,
        "minReplicas": gang.workers if gang.least is None else gang.least,
        "maxReplicas": 100,
        "rayStartParams": {},
        "template": _template(gated=True, gpus=1),
    }
    head = {"rayStartParams": {}, "template": _template(gated=True, gpus=0)}
    spec = {"headGroupSpec": head, "workerGroupSpecs": [group]}
    return _queued("ray.io/v1", "RayCluster", name, queue, spec, priority=priority)


def job_set(name: str, queue: str, shapes: Shapes) -> Json:
    """Without what JobSet's controller reads alone."""
    groups = [
        {"name": group, "replicas": jobs, "template": {"spec": job("", queue, pods=pods, gpus=gpus)["spec"]}}
        for group, (jobs, pods, gpus) in shapes.items()
    ]
    return _queued("jobset.x-k8s.io/v1alpha2", "JobSet", name, queue, {"replicatedJobs": groups})


def jobs_of(made: Json, queue: str, shapes: Shapes) -> Iterator[Json]:
    """The Jobs that JobSet's controller makes of it."""
    owner = {key: made["metadata"][key] for key in ("name", "uid")}
    for group, (jobs, pods, gpus) in shapes.items():
        for index in range(jobs):
            labels = {f"{_JOBSET}/jobset-name": owner["name"], f"{_JOBSET}/replicatedjob-name": group}
            labels |= {f"{_JOBSET}/job-index": str(index)}
            body = job(f"{owner['name']}-{group}-{index}", queue, pods=pods, gpus=gpus, labels=labels)
            reference = {"apiVersion": made["apiVersion"], "kind": "JobSet", "controller": True, **owner}
            name = body["metadata"]["name"]
            yield body | {"metadata": {"name": name, "labels": labels, "ownerReferences": [reference]}}


def job(name: str, queue: str, *, pods: int, gpus: int = 1, labels: Json | None = None) -> Json:
    """As our webhook leaves it. `labels`: of pods that another object made."""
    template = _waiting(queue, gpus=gpus, **(labels or {}))
    template["spec"]["restartPolicy"] = "Never"
    spec = {"parallelism": pods, "completions": pods, "backoffLimit": 100, "template": template}
    body = _queued("batch/v1", "Job", name, queue, spec)
    body["metadata"]["annotations"] = {KAI_BATCH_MINIMUM: str(pods)}
    return body


def real_job_set(name: str, queue: str, shapes: Shapes) -> Json:
    """With what its webhooks would fill in."""
    body = job_set(name, queue, shapes)
    for each in body["spec"]["replicatedJobs"]:
        each["template"]["spec"]["completionMode"] = "Indexed"
    body["spec"] |= _FILLED_IN
    return body


_FILLED_IN: Final[Json] = {
    "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
    "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
    "successPolicy": {"operator": "All"},
    "failurePolicy": {"maxRestarts": 2},
}
"""By JobSet's webhooks, without which its controller ends in a panic."""


def leader_worker_set(name: str, queue: str, *, groups: int, size: int) -> Json:
    """As our webhook leaves it: groups of a leader without a GPU and workers with one."""
    template = {
        "size": size,
        "leaderTemplate": _waiting(queue, gpus=0),
        "workerTemplate": _waiting(queue, gpus=1),
    }
    spec = {"replicas": groups, "leaderWorkerTemplate": template}
    return _queued("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", name, queue, spec)


TRAINER: Final = "trainer.kubeflow.org/v1alpha1"


def runtime(name: str, queue: str) -> Json:
    """Of nodes with a GPU, with the gate that our webhook puts into the JobSet. `queue`: that of its pods,
    which Trainer's labels for a JobSet leave out.
    """
    template = _waiting(queue, gpus=1)
    template["spec"]["restartPolicy"] = "Never"
    template["spec"]["containers"][0]["name"] = "node"
    job = {
        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": {"backoffLimit": 0, "completionMode": "Indexed", "template": template},
    }
    jobs = [{"name": "node", "replicas": 1, "template": job}]
    return {
        "apiVersion": TRAINER,
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name},
        "spec": {
            "mlPolicy": {"numNodes": 1, "torch": {}},
            "template": {"spec": {"replicatedJobs": jobs, **_FILLED_IN}},
        },
    }


def train_job(name: str, queue: str, *, nodes: int, of: str) -> Json:
    """As our webhook leaves it."""
    of_pods = {"template": {"metadata": {"labels": {KAI_QUEUE_LABEL: queue}}}}
    handed = {"manager": PATCH_MANAGER, "trainingRuntimeSpec": of_pods}
    reference = {"name": of, "kind": "ClusterTrainingRuntime", "apiGroup": "trainer.kubeflow.org"}
    spec = {"runtimeRef": reference, "trainer": {"numNodes": nodes}, "runtimePatches": [handed]}
    return _queued(TRAINER, "TrainJob", name, queue, spec)


def kubeflow_job(kind: str, name: str, queue: str, *, workers: int) -> Json:
    """A PyTorchJob or MPIJob as our webhook leaves it: a first pod without a GPU and workers with one."""
    first, groups, version = (
        ("Master", "pytorchReplicaSpecs", "v1")
        if kind == "PyTorchJob"
        else ("Launcher", "mpiReplicaSpecs", "v2beta1")
    )
    replicas: dict[str, Json] = {
        group: {"replicas": pods, "restartPolicy": "Never", "template": _waiting(queue, gpus=gpus)}
        for group, pods, gpus in ((first, 1, 0), ("Worker", workers, 1))
    }
    for each in replicas.values():
        each["template"]["spec"]["containers"][0]["name"] = "pytorch"
    return _queued(f"kubeflow.org/{version}", kind, name, queue, {groups: replicas})


def serving(kind: str, name: str, queue: str, *, pods: int) -> Json:
    """A Deployment or StatefulSet as our webhook leaves it."""
    spec = {"replicas": pods, "selector": {"matchLabels": {"app": name}}}
    spec |= {"serviceName": name, "podManagementPolicy": "Parallel"} if kind == "StatefulSet" else {}
    spec |= {"template": _waiting(queue, gpus=1, app=name)}
    return _queued("apps/v1", kind, name, queue, spec, priority="train")


def lone_pod(name: str, queue: str, priority: str, *, gpus: int, **resources: str) -> Json:
    spec = _template(gated=False, gpus=gpus, **resources)["spec"] | {"schedulerName": KAI_SCHEDULER}
    return _queued("v1", "Pod", name, queue, spec, priority=priority)


def fake_node(name: str, gpus: int) -> Json:
    amounts = _NODE | ({GPU_RESOURCE: str(gpus)} if gpus else {})
    labels = {"kubernetes.io/hostname": name, POOL_LABEL: POOL if gpus else "cpu"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {cloud.KWOK_ANNOTATION: "fake"}},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def offering(stock: int, classes: tuple[str, ...], *, scale_down: str = "5s") -> Json:
    """What the simulated cloud has of the pool, as the ConfigMap that it reads. Nodes go soon, so that the
    next gang has stock; they have no taint of GKE, because pods without a gang share the pool.
    """
    pool = {
        "name": POOL,
        "kind": "kwok",
        "cpu": "8",
        "memory": "32Gi",
        "gpus": 1,
        "maxNodes": stock,
        "stock": stock,
        "provisionDelay": "2s",
        "taints": [f"{GPU_TAINT_KEY}=present:NoSchedule"],
        "queuedTaint": False,
        "classes": list(classes),
    }
    offered = {"times": {"scaleDown": scale_down, "scaleDownConsumed": scale_down}, "pools": [pool]}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": cloud.POOLS_CONFIG, "namespace": cloud.NAMESPACE},
        "data": {cloud.POOLS_KEY: yaml.safe_dump(offered)},
    }


def _queued(api: str, kind: str, name: str, queue: str, spec: Json, *, priority: str = "") -> Json:
    labels = {KAI_QUEUE_LABEL: queue} | ({KAI_PRIORITY_LABEL: priority} if priority else {})
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "labels": labels}, "spec": spec}


def _waiting(queue: str, *, gpus: int, **labels: str) -> Json:
    template = _template(gated=True, gpus=gpus)
    template["metadata"] = {"labels": {KAI_QUEUE_LABEL: queue, **labels}}
    template["spec"]["schedulerName"] = KAI_SCHEDULER
    return template


def _template(*, gated: bool, gpus: int, cpu: str = "1", memory: str = "1Gi") -> Json:
    amounts = {"cpu": cpu, "memory": memory} | ({GPU_RESOURCE: str(gpus)} if gpus else {})
    limits = {GPU_RESOURCE: str(gpus)} if gpus else {}
    container = {"name": "ray", "image": "none", "resources": {"requests": amounts, "limits": limits}}
    spec: Json = {"containers": [container], "terminationGracePeriodSeconds": 0}
    if gpus:
        toleration = {"key": GPU_TAINT_KEY, "operator": "Exists", "effect": "NoSchedule"}
        spec |= {"nodeSelector": {POOL_LABEL: POOL}, "tolerations": [toleration]}
    if gated:
        spec["schedulingGates"] = [{"name": GANG_GATE}]
    return {"spec": spec}
