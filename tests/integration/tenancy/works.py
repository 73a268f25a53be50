"""Objects that tenants submit: ordinary ones, and what an attack changes in them."""

from __future__ import annotations

import copy
from typing import Any

Object = dict[str, Any]

QUEUE = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"
NAMESPACE = "team-a"


def template(gpus: int = 0, *, restart: str = "Always", **spec: Any) -> Object:
    amounts = {"cpu": "1", "memory": "1Gi", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    container = {"name": "main", "image": "ray", "resources": {"requests": amounts, "limits": amounts}}
    return {"spec": {"restartPolicy": restart, "containers": [container], **spec}}


def cluster_spec(*, workers: int = 2, gpus: int = 1, **spec: Any) -> Object:
    group = {
        "groupName": "gpu",
        "replicas": workers,
        "minReplicas": workers,
        "maxReplicas": workers,
        "rayStartParams": {},
        "template": template(gpus),
    }
    return {
        "rayVersion": "2.54.0",
        "authOptions": {"mode": "token"},
        "headGroupSpec": {"rayStartParams": {}, "template": template()},
        "workerGroupSpecs": [group],
        **spec,
    }


def _work(api_version: str, kind: str, spec: Object, *, name: str, priority: str = "dev") -> Object:
    labels = {QUEUE: "default", PRIORITY: priority}
    metadata = {"name": name, "namespace": NAMESPACE, "labels": labels}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def ray_job(**spec: Any) -> Object:
    spec = {
        "entrypoint": "python train.py",
        "submissionMode": "HTTPMode",
        "suspend": True,
        "shutdownAfterJobFinishes": True,
        "rayClusterSpec": cluster_spec(),
        **spec,
    }
    return _work("ray.io/v1", "RayJob", {k: v for k, v in spec.items() if v is not None}, name="train")


def in_a_cluster(mode: str) -> Object:
    """A RayJob in a cluster that stands."""
    return ray_job(
        submissionMode=mode,
        entrypoint=None if mode == "InteractiveMode" else "python train.py",
        rayClusterSpec=None,
        shutdownAfterJobFinishes=None,
        clusterSelector={"ray.io/cluster": "notebook"},
    )


def ray_cluster(**spec: Any) -> Object:
    return _work("ray.io/v1", "RayCluster", {**cluster_spec(), "suspend": True, **spec}, name="notebook")


def ray_service(**spec: Any) -> Object:
    spec = {
        "serveConfigV2": "applications: []",
        "upgradeStrategy": {"type": "None"},
        "rayClusterConfig": cluster_spec(suspend=True),
        **spec,
    }
    return _work("ray.io/v1", "RayService", spec, name="llm")


def ray_cron_job(**spec: Any) -> Object:
    spec = {"schedule": "0 3 * * *", "jobTemplate": ray_job()["spec"], **spec}
    return _work("ray.io/v1", "RayCronJob", spec, name="weekly")


def head(**fields: Any) -> Object:
    """The head group of a cluster."""
    return {"rayStartParams": {}, "template": template(), **fields}


def service(kind: str | None = None, name: str = "web", **spec: Any) -> Object:
    """A Service of a team; with a kind of Ray's, one that KubeRay makes for it."""
    metadata: Object = {"name": name, "namespace": NAMESPACE}
    if kind is not None:
        metadata["ownerReferences"] = [owner(kind, "ray.io/v1")]
    spec = {"ports": [{"name": "dashboard", "port": 8265}], "selector": {"app": "web"}, **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


CONCURRENT: Object = {"migration": {"mode": "TryPreferredFlavors"}}


def cluster_queue(*checks: str, **spec: Any) -> Object:
    listed = {"admissionChecks": [{"name": name} for name in checks]}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": "concurrent"},
        "spec": {**spec, **({"admissionChecksStrategy": listed} if checks else {})},
    }


INGRESS: Object = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "Ingress",
    "metadata": {"name": "dashboard", "namespace": NAMESPACE},
    "spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 8265}}}},
}


def job(**spec: Any) -> Object:
    spec = {"suspend": True, "template": template(1, restart="Never"), **spec}
    return _work("batch/v1", "Job", spec, name="primes")


def cron_job() -> Object:
    one = job()
    labels = {"labels": one["metadata"].pop("labels")}
    spec = {"schedule": "0 3 * * *", "jobTemplate": {"metadata": labels, "spec": one["spec"]}}
    return _work("batch/v1", "CronJob", spec, name="nightly")


def pod(gpus: int = 1, *, owner: Object | None = None, name: str = "bare", **spec: Any) -> Object:
    metadata: Object = {"name": name, "namespace": NAMESPACE}
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    body = template(gpus, restart="Never", **spec)["spec"]
    body["tolerations"] = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def owner(kind: str, api_version: str, name: str = "owner") -> Object:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}


def changed(body: Object, *path: str, value: Any) -> Object:
    """A copy with one value at a path of keys; None takes the key away."""
    found = copy.deepcopy(body)
    at = found
    for key in path[:-1]:
        at = at.setdefault(key, {})
    if value is None:
        at.pop(path[-1], None)
    else:
        at[path[-1]] = value
    return found


def labelled(body: Object, key: str, value: str | None) -> Object:
    return changed(body, "metadata", "labels", key, value=value)


def annotated(body: Object, key: str, value: str) -> Object:
    return changed(body, "metadata", "annotations", key, value=value)


def named(body: Object, name: str) -> Object:
    return changed(body, "metadata", "name", value=name)


def condition(kind: str) -> Object:
    """True since some time."""
    since = "2026-01-01T00:00:00Z"
    return {"type": kind, "status": "True", "reason": "Test", "message": "", "lastTransitionTime": since}


POD_SETS = [{"name": "main", "count": 1, "template": template(8, restart="Never")}]


def existing(api_version: str, kind: str, name: str, **fields: Any) -> Object:
    metadata = {"name": name} if kind == "Namespace" else {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


WORKLOAD = existing(
    "kueue.x-k8s.io/v1beta2", "Workload", "mine", spec={"queueName": "default", "podSets": POD_SETS}
)
QUEUE_OBJECT = existing("kueue.x-k8s.io/v1beta2", "LocalQueue", "theirs", spec={"clusterQueue": "team-b"})
REQUEST = existing(
    "autoscaling.x-k8s.io/v1",
    "ProvisioningRequest",
    "mine",
    spec={
        "provisioningClassName": "queued-provisioning.gke.io",
        "podSets": [{"count": 1, "podTemplateRef": {"name": "t"}}],
    },
)
TEMPLATE = existing("v1", "PodTemplate", "mine", template=template(1))
DOMAIN = existing(
    "resource.nvidia.com/v1beta1",
    "ComputeDomain",
    "mine",
    spec={"channel": {"resourceClaimTemplate": {"name": "mine"}}},
)
DEPLOYMENT = existing(
    "apps/v1",
    "Deployment",
    "web",
    spec={
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, **template(1)},
    },
)


def of_pods(body: Object, template: Object) -> Object:
    """What makes pods, with another template of them."""
    return changed(body, "spec", "template", value=template)


# Controllers of pods that no queue knows.
UNQUEUED: dict[str, Object] = {
    "Deployment": of_pods(DEPLOYMENT, {"metadata": {"labels": {"app": "web"}}, **template()}),
    "StatefulSet": existing(
        "apps/v1",
        "StatefulSet",
        "web",
        spec={
            "serviceName": "web",
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, **template()},
        },
    ),
    "ReplicationController": existing(
        "v1",
        "ReplicationController",
        "web",
        spec={
            "selector": {"app": "web"},
            "template": {"metadata": {"labels": {"app": "web"}}, **template()},
        },
    ),
}


def in_template(path: str, *field: str, value: Any) -> Object:
    """Ordinary work with one value changed in the pod template at this path of `TEMPLATES`, or several."""
    kind, *keys = path.split(".")
    body = copy.deepcopy(TEMPLATES[path])
    at = body
    for key in keys:
        at = at[key.removesuffix("[]")]
        if key.endswith("[]"):
            at = at[0]
    at |= changed(at, *field, value=value) if field else value
    assert body["kind"] == kind
    return body


_RAY_GROUPS = ("headGroupSpec.template", "workerGroupSpecs[].template")
# Every pod template that a tenant writes, and ordinary work that has it.
TEMPLATES: dict[str, Object] = {
    **{f"RayJob.spec.rayClusterSpec.{group}": ray_job() for group in _RAY_GROUPS},
    **{f"RayCluster.spec.{group}": ray_cluster() for group in _RAY_GROUPS},
    **{f"RayService.spec.rayClusterConfig.{group}": ray_service() for group in _RAY_GROUPS},
    "RayJob.spec.submitterPodTemplate": ray_job(
        submissionMode="K8sJobMode", submitterPodTemplate=template(restart="Never")
    ),
    "Job.spec.template": job(),
    "CronJob.spec.jobTemplate.spec.template": cron_job(),
}
