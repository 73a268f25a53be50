"""The simulated cloud behind the real Karpenter: Karpenter buys the nodes, this cloud has the machines.

Responsible for: what Karpenter is given of an offering, what is in stock, and the machine of each node that
Karpenter bought. Pure: no clock, no network, no state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Final

from muster.local.karpenter import (
    CLOUD,
    UNAVAILABLE_FOR,
    InstanceType,
    Manifest,
    node_class,
    node_pool,
    stock_key,
)
from muster.local.simulated_cloud import names
from muster.local.simulated_cloud.actions import Action, ReleaseNode, SetStock, StartVm
from muster.local.simulated_cloud.faults import ANY_POOL, FaultBook, FaultKind
from muster.local.simulated_cloud.objects import Node, VmState
from muster.local.simulated_cloud.offering import Kind, Offering, OfferingError, Pool
from muster.local.simulated_cloud.ondemand import advertise

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
