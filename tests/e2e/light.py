"""Gangs that cost next to nothing: real RayClusters and Jobs whose pods only sleep.

KubeRay runs `ray health-check` and `ray start` in every pod. Where Ray itself
is not the point, a shell script takes the name `ray`: it says that all is well,
and sleeps.
"""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from muster.local.demo.cluster import Object

_EXAMPLES: Final = Path(__file__).resolve().parent.parent.parent / "examples"
_SCRIPT: Final = '#!/bin/sh\ncase "$1" in start) exec sleep infinity ;; esac\n'
_GPU_TAINT: Final = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
_FINE: Final = {"exec": {"command": ["true"]}, "periodSeconds": 2}


def sleeper(namespace: str) -> Object:
    """The ConfigMap with the script; the other objects of a namespace mount it."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "sleeper", "namespace": namespace},
        "data": {"ray": _SCRIPT},
    }


def ray_cluster(
    name: str, *, namespace: str, image: str, workers: Mapping[str, int], priority: str = "prod"
) -> Object:
    """A RayCluster with a head and `workers` pods of one GPU each, by pool."""
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name, "namespace": namespace, "labels": _labels(priority)},
        "spec": {
            "rayVersion": "2.54.0",
            "authOptions": {"mode": "token"},
            "headGroupSpec": {"rayStartParams": {}, "template": _template("ray-head", image)},
            "workerGroupSpecs": [
                {
                    "groupName": pool,
                    "replicas": count,
                    "minReplicas": count,
                    "maxReplicas": count,
                    "rayStartParams": {},
                    "template": _template("ray-worker", image, pool=pool),
                }
                for pool, count in workers.items()
            ],
        },
    }


def gpu_job(
    name: str, *, namespace: str, image: str, pool: str, priority: str = "prod", seconds: int = 3600
) -> Object:
    """A batch Job of one pod with one GPU."""
    template = _template("work", image, pool=pool)
    container = template["spec"]["containers"][0]
    for key in ("volumeMounts", "readinessProbe", "livenessProbe"):
        del container[key]
    del template["spec"]["volumes"]
    container["command"] = ["sleep", str(seconds)]
    template["spec"]["restartPolicy"] = "Never"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": _labels(priority)},
        "spec": {"suspend": True, "backoffLimit": 0, "template": template},
    }


def example(path: str, *, image: str) -> list[Object]:
    """The objects of a file of examples/, with the image in its place."""
    text = (_EXAMPLES / path).read_text().replace("RAY_IMAGE", image).replace("PYTHON_IMAGE", image)
    return [found for found in yaml.safe_load_all(text) if found]


def asleep(cluster: Object, *, image: str) -> Object:
    """A RayCluster's manifest with its containers turned into sleepers; all else stays as it is."""
    light = copy.deepcopy(cluster)
    groups = [light["spec"]["headGroupSpec"], *light["spec"]["workerGroupSpecs"]]
    for group in groups:
        spec = group["template"]["spec"]
        container = spec["containers"][0]
        quiet = _template(container["name"], image)["spec"]
        container.update({key: quiet["containers"][0][key] for key in ("image", "volumeMounts", *_PROBES)})
        spec["volumes"] = quiet["volumes"]
        spec["terminationGracePeriodSeconds"] = 1
    return light


_PROBES: Final = ("readinessProbe", "livenessProbe")


def _labels(priority: str) -> dict[str, str]:
    return {"kueue.x-k8s.io/queue-name": "default", "kueue.x-k8s.io/priority-class": priority}


def _template(container: str, image: str, *, pool: str | None = None) -> dict[str, Any]:
    gpu = {"nvidia.com/gpu": 1} if pool else {}
    return {
        "spec": {
            "terminationGracePeriodSeconds": 1,
            **({"nodeSelector": {"muster.dev/pool": pool}, "tolerations": [_GPU_TAINT]} if pool else {}),
            "containers": [
                {
                    "name": container,
                    "image": image,
                    "resources": {"requests": {"cpu": "50m", "memory": "32Mi", **gpu}, "limits": gpu},
                    "volumeMounts": [
                        {"name": "sleeper", "mountPath": "/usr/local/bin/ray", "subPath": "ray"}
                    ],
                    "readinessProbe": _FINE,
                    "livenessProbe": _FINE,
                }
            ],
            "volumes": [{"name": "sleeper", "configMap": {"name": "sleeper", "defaultMode": 0o755}}],
        }
    }
