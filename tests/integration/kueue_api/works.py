"""Work of team-b as its members would write it, for what is refused and what waits for ever."""

import copy
from typing import Any, Final

from muster.model import names
from tests.integration.kueue_api.world import JOBS, TEAM, pod

Object = dict[str, Any]

_RAY: Final = f"/apis/ray.io/v1/namespaces/{TEAM}"
PATHS: Final = {
    "RayJob": f"{_RAY}/rayjobs",
    "RayCluster": f"{_RAY}/rayclusters",
    "RayService": f"{_RAY}/rayservices",
    "Job": JOBS,
    "CronJob": f"/apis/batch/v1/namespaces/{TEAM}/cronjobs",
}
_LABELS: Final = {names.QUEUE_LABEL: "default", names.PRIORITY_LABEL: "prod"}


def queued(name: str) -> Object:
    """The metadata of work in the queue of the team."""
    return {"name": name, "namespace": TEAM, "labels": dict(_LABELS)}


def plain(**amounts: str) -> Object:
    """A pod without GPUs."""
    found = {"cpu": "100m", "memory": "64Mi", **amounts}
    return {
        "containers": [{"name": "work", "image": "none", "resources": {"requests": found, "limits": found}}]
    }


def with_gpu(pool: str, **amounts: str) -> Object:
    spec = copy.deepcopy(pod(pool))
    spec["containers"][0]["resources"]["requests"] |= amounts
    return spec


def work(kind: str, spec: Object, *, count: int = 1) -> Object:
    """`count` such pods; those of a Ray cluster beside a head."""
    meta = queued("job")
    if kind in ("Job", "CronJob"):
        job: Object = {"parallelism": count, "suspend": True}
        job["template"] = {"spec": {"restartPolicy": "Never", **spec}}
        if kind == "CronJob":
            template = {"metadata": {"labels": meta.pop("labels")}, "spec": job}
            job = {"schedule": "0 3 * * *", "jobTemplate": template}
        return {"apiVersion": "batch/v1", "kind": kind, "metadata": meta, "spec": job}
    group = {
        "groupName": "w",
        "replicas": count,
        "minReplicas": count,
        "maxReplicas": count,
        "rayStartParams": {},
        "template": {"spec": spec},
    }
    head = {"rayStartParams": {}, "template": {"spec": plain()}}
    cluster: Object = {"headGroupSpec": head, "workerGroupSpecs": [group]}
    if kind == "RayJob":
        cluster = {"rayClusterSpec": cluster, "entrypoint": "true", "shutdownAfterJobFinishes": True}
        cluster |= {"suspend": True, "submissionMode": "HTTPMode"}
    if kind == "RayService":
        cluster = {"rayClusterConfig": cluster, "upgradeStrategy": {"type": "None"}}
    return {"apiVersion": "ray.io/v1", "kind": kind, "metadata": meta, "spec": cluster}


def selecting() -> Object:
    job = work("RayJob", plain())
    job["spec"] = {"entrypoint": "true", "submissionMode": "HTTPMode", "shutdownAfterJobFinishes": True}
    job["spec"]["clusterSelector"] = {"ray.io/cluster": "notebook"}
    return job
