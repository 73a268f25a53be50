"""Stacks whose admission the tests of `muster check` ask, and work that would run there."""

import copy
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from muster.check.admission import Admission
from muster.check.report import Result, result
from muster.paths import stack_file
from tests.unit.model.model_stacks import parsed

Json = dict[str, Any]
_GKE = {
    "provider": "gke",
    "name": "ml",
    "project": "acme-ml",
    "region": "us-central1",
    "zones": ["us-central1-a", "us-central1-b", "us-central1-c"],
    "authorizedNetworks": {"office": "203.0.114.0/24"},
}
_EKS = {
    "provider": "eks",
    "name": "ml",
    "region": "us-east-1",
    "zones": ["us-east-1a", "us-east-1b"],
    "publicCidrs": ["203.0.114.0/24"],
}
POOLS: dict[str, Json] = {
    "gke": {
        "cpu": {"machine": "e2-standard-16", "minNodes": 1, "maxNodes": 20},
        "l4": {"accelerator": "nvidia-l4", "machine": "g2-standard-24", "capacity": "queued", "maxNodes": 12},
        "h100": {
            "accelerator": "nvidia-h100-80gb",
            "machine": "a3-highgpu-8g",
            "capacity": "queued",
            "maxNodes": 4,
        },
    },
    "eks": {
        "cpu": {"machine": "m6i.4xlarge", "minNodes": 1, "maxNodes": 20},
        "l4": {"accelerator": "nvidia-l4", "machine": "g6.12xlarge", "capacity": "queued", "maxNodes": 8},
        "h100": {
            "accelerator": "nvidia-h100-80gb",
            "machine": "p5.48xlarge",
            "capacity": "queued",
            "maxNodes": 4,
        },
    },
}


def stack_text(cloud: str, scheduler: str = "kueue", **more: Any) -> str:
    """A stack of one team on a cloud; `more` are further keys of it, `pools` changes of its pools."""
    pools = {**POOLS[cloud], **more.pop("pools", {})}
    priorities = {"train": 50, "build": 75, "prod": 125} if scheduler == "kai" else {"prod": 1000, "dev": 100}
    keys = {
        "cluster": {**(_GKE if cloud == "gke" else _EKS), **more.pop("cluster", {})},
        "pools": pools,
        "scheduler": scheduler,
        "priorities": priorities,
        "departments": {"research": {"teams": {"vision": {"quota": {"l4": 16, "h100": 32, "cpu": 64}}}}},
        **more,
    }
    return yaml.safe_dump({"config": {f"muster:{key}": value for key, value in keys.items()}})


def in_racks(*levels: str) -> Json:
    """Further keys of a stack whose H100s all stand, in racks of these levels."""
    h100 = {**POOLS["gke"]["h100"], "capacity": "on-demand", "minNodes": 4, "kueue": {"topology": "racks"}}
    return {"pools": {"h100": h100}, "kueue": {"topologies": {"racks": list(levels)}}}


def placeholders_of_the_local_stack() -> str:
    """Stack `local`, whose queued pools ask by placeholders instead."""
    body = yaml.safe_load(stack_file("local", start=Path(__file__).parent).read_text())
    for pool in body["config"]["muster:pools"].values():
        if pool.pop("capacity", None) == "queued":
            pool.pop("provisioningClass", None)
            pool["gangs"] = "placeholders"
    return yaml.safe_dump(body)


@cache
def _admission(text: str) -> Admission:
    return Admission(parsed(text), "vision")


def judged(body: Json, cloud: str = "gke", scheduler: str = "kueue", **more: Any) -> Result:
    return result(_admission(stack_text(cloud, scheduler, **more)), copy.deepcopy(body))


def fixed(body: Json, cloud: str = "gke", scheduler: str = "kueue", **more: Any) -> Json:
    return _admission(stack_text(cloud, scheduler, **more)).fixed(copy.deepcopy(body))


def refusals(found: Result) -> str:
    return " || ".join(each.message for each in found.answer.findings if each.level == "refused")


def warnings(found: Result) -> str:
    return " || ".join(each.message for each in found.answer.findings if each.level == "warned")


def fitting(found: Result, group: str) -> set[str]:
    """The pools that can give a group of pods what it asks for."""
    return {
        place.pool
        for demand in found.demands
        if demand.name == group
        for place in demand.places
        if not place.reason
    }


def pod(gpus: Any = 0, **spec: Any) -> Json:
    """A pod template with one container."""
    limits = {"cpu": "2", "memory": "8Gi", **({"nvidia.com/gpu": gpus} if gpus else {})}
    container = {"name": "main", "image": "rayproject/ray:2.54.1", "resources": {"limits": limits}}
    return {"spec": {"containers": [container], **spec}}


def ray_job(*workers: Json, head: Json | None = None, replicas: int = 2, **spec: Any) -> Json:
    """A RayJob; each worker group has one of the templates."""
    groups = [
        {
            "groupName": f"group-{index}",
            "replicas": replicas,
            "minReplicas": replicas,
            "maxReplicas": replicas,
            "rayStartParams": {},
            "template": each,
        }
        for index, each in enumerate(workers)
    ]
    cluster = {
        "rayVersion": "2.54.1",
        "headGroupSpec": {"rayStartParams": {}, "template": head or pod()},
        "workerGroupSpecs": groups,
    }
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "train"},
        "spec": {
            "entrypoint": "python train.py",
            "submissionMode": "HTTPMode",
            "shutdownAfterJobFinishes": True,
            "rayClusterSpec": cluster,
            **spec,
        },
    }


def job(template: Json, **spec: Any) -> Json:
    template = {**template, "spec": {"restartPolicy": "Never", **template["spec"]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"template": template, **spec},
    }
