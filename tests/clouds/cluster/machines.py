"""The node pools that stand in a stand-in cloud, and the nodes that they begin with, as Kubernetes sees them.

Decides how a pool's inputs become labels, taints and Node objects. Source of GKE's own taint on queued pools:
muster/model/names.py. The labels with a pool's name: the clouds' pages on the labels of nodes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from muster.model import names
from muster.model.machines import MACHINES, Machine
from tests.clouds.standin.cloud import Cloud, Standing
from tests.clouds.standin.serve import Clouds

Node = dict[str, Any]
Taint = dict[str, str]

GKE_POOL: Final = "gcp:container/nodePool:NodePool"
EKS_POOL: Final = "aws:eks/nodeGroup:NodeGroup"
_TEMPLATE: Final = "aws:ec2/launchTemplate:LaunchTemplate"
_EFFECTS: Final = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute"}
# Where a pool names no zones, its cluster's: three in a region.
_ZONES: Final = 3
_FAKE: Final = {"kwok.x-k8s.io/node": "fake"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePool:
    """`first` nodes stand from the beginning, `most` at the end; `gpus` are those of one node."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    machine: Machine
    gpus: int
    first: int
    most: int


def pools(clouds: Clouds) -> list[NodePool]:
    """Those whose making is over, in both clouds."""
    return [
        *(_of_gke(each) for each in clouds.gcp.of(GKE_POOL) if each.ready.is_set()),
        *(_of_eks(each, clouds.aws) for each in clouds.aws.of(EKS_POOL) if each.ready.is_set()),
    ]


def nodes(clouds: Clouds) -> dict[str, Node]:
    """Every node that the pools begin with, by name."""
    found = [node for pool in pools(clouds) for node in _first(pool)]
    return {node["metadata"]["name"]: node for node in found}


def _of_gke(pool: Standing) -> NodePool:
    inputs, config = pool.inputs, pool.inputs["nodeConfig"]
    taints = list(map(_taint, config.get("taints", ())))
    if inputs.get("queuedProvisioning", {}).get("enabled"):
        taints.append({"key": names.GKE_QUEUED_TAINT_KEY, "value": "true", "effect": "NoSchedule"})
    zones = len(inputs.get("nodeLocations") or ()) or _ZONES
    accelerators = config.get("guestAccelerators") or [{"count": 0}]
    return NodePool(
        name=inputs["name"],
        labels={**config.get("labels", {}), "cloud.google.com/gke-nodepool": inputs["name"]},
        taints=tuple(taints),
        machine=MACHINES[config["machineType"]],
        gpus=int(accelerators[0]["count"]),
        first=int(inputs.get("initialNodeCount") or 0) * zones,
        most=int(inputs["autoscaling"]["totalMaxNodeCount"]),
    )


def _of_eks(pool: Standing, cloud: Cloud) -> NodePool:
    inputs = pool.inputs
    template = cloud.find(_TEMPLATE, inputs["launchTemplate"]["id"]) or {}
    machine = MACHINES[(inputs.get("instanceTypes") or [template.get("instanceType")])[0]]
    return NodePool(
        name=inputs["nodeGroupName"],
        labels={**inputs.get("labels", {}), "eks.amazonaws.com/nodegroup": inputs["nodeGroupName"]},
        taints=tuple(map(_taint, inputs.get("taints", ()))),
        machine=machine,
        gpus=max(machine.gpu_counts, default=0),
        first=int(inputs["scalingConfig"]["desiredSize"]),
        most=int(inputs["scalingConfig"]["maxSize"]),
    )


def _taint(taint: Mapping[str, str]) -> Taint:
    return {"key": taint["key"], "value": taint["value"], "effect": _EFFECTS[taint["effect"]]}


def _first(pool: NodePool) -> Iterator[Node]:
    room = {
        "cpu": f"{pool.machine.allocatable_cpu}m",
        "memory": str(pool.machine.allocatable_memory),
        "pods": "110",
        **({names.GPU_RESOURCE: str(pool.gpus)} if pool.gpus else {}),
    }
    for number in range(pool.first):
        name = f"{pool.name}-{number}"
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {**pool.labels, "kubernetes.io/hostname": name, "kubernetes.io/os": "linux"},
                "annotations": dict(_FAKE),
            },
            "spec": {"taints": list(pool.taints)},
            "status": {"capacity": room, "allocatable": room},
        }
