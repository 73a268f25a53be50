"""What Karpenter with a stand-in for its cloud reads: instance types, NodePools, node classes, the stock.

Pure. The program is muster/local/builder/programs/karpenter. A control plane of its own runs it for tests
(tests/envtest/controllers.py), a local cluster for the demo (muster/local/cluster/units.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

from muster.local.simulated_cloud import names
from muster.local.simulated_cloud.actions import Action, ReleaseNode, SetStock, StartVm
from muster.local.simulated_cloud.faults import ANY_POOL, FaultBook, FaultKind
from muster.local.simulated_cloud.objects import Node, VmState
from muster.local.simulated_cloud.offering import Kind, Offering, OfferingError, Pool
from muster.local.simulated_cloud.ondemand import advertise
from muster.model.names import GPU_RESOURCE, POOL_LABEL

# Who decides which nodes of a local cluster are bought.


class Autoscaler(StrEnum):
    SIMULATED = "simulated"
    """The simulated cloud, which answers ProvisioningRequests."""
    KARPENTER = "karpenter"
    """The real Karpenter; the simulated cloud has the machines."""


PROGRAM: Final = "karpenter"
CRDS: Final = ("karpenter-crds", "karpenter-kwok-crds")
NODE_CLAIMS: Final = "/apis/karpenter.sh/v1/nodeclaims"
NODE_POOLS: Final = "/apis/karpenter.sh/v1/nodepools"
NODE_CLASSES: Final = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses"
CLOUD: Final = "karpenter-cloud"
"""The ConfigMap, in Karpenter's namespace, with what the cloud has in stock and how it fails."""
UNAVAILABLE_FOR: Final = "unavailable-for"
DEFAULT_CLASS: Final = "default"
_GPU_TAINT: Final = {"key": GPU_RESOURCE, "value": "present", "effect": "NoSchedule"}
_ON_DEMAND: Final = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """What the cloud sells, in each of the zones."""

    name: str
    cpu: str
    memory: str
    gpus: int = 0
    price: float = 1.0
    zones: tuple[str, ...] = ("zone-a",)

    def offered(self) -> Manifest:
        """As Karpenter's KWOK provider reads it."""
        room = {"cpu": self.cpu, "memory": self.memory, "pods": "110", "ephemeral-storage": "200Gi"}
        return {
            "name": self.name,
            "architecture": "amd64",
            "operatingSystems": ["linux"],
            "resources": {**room, **({GPU_RESOURCE: str(self.gpus)} if self.gpus else {})},
            "offerings": [
                {"Price": self.price, "Available": True, "Requirements": [_ON_DEMAND, _zone(zone)]}
                for zone in self.zones
            ],
        }


def catalogue(types: Iterable[InstanceType]) -> str:
    """The file that `--instance-types-file-path` names."""
    return json.dumps([each.offered() for each in types])


def flags(*, types_file: str, metrics_port: int, health_port: int) -> tuple[str, ...]:
    """The program's command line, without its own path."""
    return (
        "--disable-leader-election",
        f"--metrics-port={metrics_port}",
        f"--health-probe-port={health_port}",
        f"--instance-types-file-path={types_file}",
    )


def environment(kubeconfig: str, namespace: str) -> dict[str, str]:
    return {"KUBECONFIG": kubeconfig, "SYSTEM_NAMESPACE": namespace}


def stock_key(instance_type: str, zone: str) -> str:
    """The key of CLOUD under which the number of instances is that the cloud has in all."""
    return f"{instance_type}_{zone}"


def node_pool(
    name: str,
    types: Sequence[str],
    *,
    gpus: int | None = None,
    consolidate_after: str = "0s",
    node_class: str = DEFAULT_CLASS,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (_GPU_TAINT,),
) -> Manifest:
    """A NodePool of these instance types, with the label and the taint that Muster expects of a pool. `gpus`:
    its limit. `annotations` are for its nodes.
    """
    wanted = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": list(types)}
    on_nodes: Manifest = {"labels": {POOL_LABEL: name, **(labels or {})}}
    if annotations:
        on_nodes["annotations"] = dict(annotations)
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "metadata": on_nodes,
                "spec": {
                    "nodeClassRef": {
                        "group": "karpenter.kwok.sh",
                        "kind": "KWOKNodeClass",
                        "name": node_class,
                    },
                    "requirements": [wanted],
                    "expireAfter": "Never",
                    "taints": [dict(taint) for taint in taints],
                },
            },
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "consolidateAfter": consolidate_after,
            },
            **({"limits": {GPU_RESOURCE: str(gpus)}} if gpus is not None else {}),
        },
    }


def node_class(name: str, *, boot: str) -> Manifest:
    """`boot`: how long it takes, such as "15s", until the node of an instance exists."""
    return {
        "apiVersion": "karpenter.kwok.sh/v1alpha1",
        "kind": "KWOKNodeClass",
        "metadata": {"name": name},
        "spec": {"nodeRegistrationDelay": boot},
    }


def _zone(name: str) -> Manifest:
    return {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [name]}


# The simulated cloud behind the real Karpenter: Karpenter buys the nodes, this cloud has the machines.
#
# Responsible for: what Karpenter is given of an offering, what is in stock, and the machine of each node that
# Karpenter bought. Pure: no clock, no network, no state.


_ZONE: Final = "local"


def instance_types(offering: Offering) -> list[InstanceType]:
    """One for each pool. Raises OfferingError for a pool that Karpenter cannot fill."""
    return [_instance_type(pool) for pool in offering.pools.values()]


def manifests(offering: Offering) -> list[Manifest]:
    """A NodePool and its class for each pool, and the ConfigMap with the stock."""
    found: list[Manifest] = []
    for pool in offering.pools.values():
        found += [
            node_class(pool.name, boot=_duration(pool.provision_delay)),
            node_pool(
                pool.name,
                [pool.name],
                gpus=pool.max_nodes * pool.gpus,
                consolidate_after=_duration(offering.times.scale_down),
                node_class=pool.name,
                labels=pool.labels,
                annotations={names.VM: VmState.REQUESTED} if pool.kind is Kind.REAL else {},
                taints=[asdict(taint) for taint in pool.taints],
            ),
        ]
    return [*found, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _CLOUD_META}]


def decide(
    offering: Offering,
    *,
    nodes: Iterable[Node],
    cloud: Mapping[str, str],
    faults: FaultBook,
    now: float,
) -> list[Action]:
    """`cloud`: the stock as Karpenter's cloud knows it."""
    actions: list[Action] = []
    stock = _stock(offering, faults, now)
    if not stock.items() <= cloud.items():
        actions.append(SetStock(stock))
    for node in nodes:
        match node.vm:
            case None:
                continue
            case VmState.REQUESTED:
                actions.append(StartVm(node.name))
            case VmState.RUNNING:
                actions += advertise(offering, node)
            case _:
                why = "its machine could not be started"
                actions.append(ReleaseNode(node.name, node.uid, force=True, why=why))
    return actions


def _stock(offering: Offering, faults: FaultBook, now: float) -> dict[str, str]:
    stock = {
        stock_key(pool.name, _ZONE): "0" if _is_out(pool, faults, now) else str(_of_pool(pool, faults))
        for pool in offering.pools.values()
    }
    return {**stock, UNAVAILABLE_FOR: _duration(offering.times.unavailable_for)}


def _of_pool(pool: Pool, faults: FaultBook) -> int:
    return faults.capacity.get(pool.name, pool.stock)


def _is_out(pool: Pool, faults: FaultBook, now: float) -> bool:
    return any(
        fault.kind is FaultKind.STOCK_OUT and fault.pool in (pool.name, ANY_POOL) and fault.active(now)
        for fault in faults.faults
    )


def _instance_type(pool: Pool) -> InstanceType:
    if pool.classes or pool.on_demand or not pool.gpus:
        raise OfferingError(
            f"pool {pool.name}: Karpenter fills only pools that have gpus, and neither classes nor onDemand"
        )
    return InstanceType(
        name=pool.name,
        cpu=pool.cpu,
        memory=pool.memory,
        gpus=pool.gpus,
        price=pool.price_per_hour,
        zones=(_ZONE,),
    )


def _duration(seconds: float) -> str:
    """As Go reads it."""
    return f"{seconds:g}s"


_CLOUD_META: Final = {"name": CLOUD, "namespace": names.NAMESPACE}
