"""Pods by hand, which no queue has admitted. A team's members may not make any."""

from __future__ import annotations

from typing import Any, Final

from tests.integration.tenancy.attack import Attack
from tests.integration.tenancy.cluster import Object
from tests.integration.tenancy.works import changed, owner, pod

_GPUS: Final = ("GPUs are for work that a queue admitted", "submit a RayJob")
_FREE: Final = "GPUs without quota"


def _pod(name: str, path: str, body: Object, gains: str = _FREE, *, policy: str = "muster-pods") -> Attack:
    return Attack(
        name=f"Pod {name}",
        body=body,
        gains=gains,
        policy=policy,
        path=f"Pod.{path}",
        words=_GPUS if gains == _FREE else (),
        by_rbac=True,
    )


def _container(field: str, resource: str) -> Object:
    one: dict[str, Any] = {"name": "i", "image": "i", "resources": {"limits": {resource: "1"}}}
    return changed(pod(0), "spec", field, value=[one])


ATTACKS: Final = (
    _pod("with a GPU", "spec.containers[].resources.limits{nvidia.com/*}", pod(1)),
    _pod(
        "with a GPU in an init container",
        "spec.initContainers[].resources.limits{nvidia.com/*}",
        _container("initContainers", "nvidia.com/gpu"),
    ),
    _pod(
        "with a slice of a GPU",
        "spec.containers[].resources.limits{nvidia.com/*}",
        _container("containers", "nvidia.com/mig-1g.5gb"),
    ),
    _pod(
        "that claims a device",
        "spec.resourceClaims[].resourceClaimName",
        changed(pod(0), "spec", "resourceClaims", value=[{"name": "gpu", "resourceClaimName": "mine"}]),
    ),
    _pod(
        "with a part of a GPU",
        "metadata.annotations{gpu-fraction}",
        changed(pod(0), "metadata", "annotations", value={"gpu-fraction": "0.5"}),
    ),
    _pod(
        "that pretends to be a worker",
        "metadata.ownerReferences",
        pod(1, owner=owner("RayCluster", "ray.io/v1")),
    ),
    _pod("that pretends to be of a Job", "metadata.ownerReferences", pod(1, owner=owner("Job", "batch/v1"))),
    _pod(
        "above every other",
        "spec.priorityClassName",
        pod(0, priorityClassName="system-cluster-critical"),
        "every other pod's place on its node",
    ),
    _pod(
        "with the devices of its node",
        "spec.volumes[].hostPath.path",
        changed(pod(0), "spec", "volumes", value=[{"name": "devices", "hostPath": {"path": "/dev"}}]),
        "every GPU of the node, and root on it",
        policy="PodSecurity",
    ),
)
