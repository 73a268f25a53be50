"""Ordinary unschedulable pods on on-demand pools: one node for one pod at a time, nothing atomic.

This is what a cluster-autoscaler does for pods without a queue, and why it provisions GPUs for work that
may not run. Off unless a pool has `onDemand: true`. Pods that consume a ProvisioningRequest, or are gated,
get no node.
"""

from __future__ import annotations

from muster.local.simulated_cloud.faults import FaultKind
from muster.local.simulated_cloud.fit import take
from muster.local.simulated_cloud.inventory import Inventory
from muster.local.simulated_cloud.objects import Node, Pod, VmState
from muster.local.simulated_cloud.offering import Pool


def serve(inventory: Inventory) -> None:
    """Buys at most one node."""
    pools = [pool for pool in inventory.offering.pools.values() if pool.on_demand]
    if not pools:
        return
    failing = {
        node.pool for node in inventory.nodes.values() if node.vm is VmState.FAILED and not node.owner_uid
    }
    pools = [
        pool for pool in pools if pool.name not in failing
    ]  # it backs off while the failed node is there
    coming = _coming(inventory)
    for pod in sorted(waiting(inventory), key=lambda pod: (pod.unschedulable or 0.0, pod.key)):
        if not _covered(coming, pod) and _provision(inventory, pod, pools):
            return


def waiting(inventory: Inventory) -> list[Pod]:
    """Pods that the scheduler has given up on and that may buy."""
    return [
        pod
        for pod in inventory.unbound
        if pod.unschedulable is not None and not pod.gated and not pod.consumes
    ]


def wanted(inventory: Inventory, node: Node) -> bool:
    """Whether some waiting pod may still come to the node."""
    return any(
        pod.shape.obstacle(node.labels, node.taints, node.name) is None
        and pod.shape.short_of(_room_of(inventory, node)) is None
        for pod in waiting(inventory)
    )


def _coming(inventory: Inventory) -> list[tuple[Node, dict[str, int]]]:
    """Nodes that are not ready yet, with what they will offer."""
    return [
        (node, _room_of(inventory, node))
        for node in inventory.nodes.values()
        if node.vm in (VmState.REQUESTED, VmState.RUNNING) and not node.ready and not node.owner_uid
    ]


def _room_of(inventory: Inventory, node: Node) -> dict[str, int]:
    pool = inventory.offering.pools.get(node.pool or "")
    return dict(node.allocatable or (pool.allocatable if pool else {}))


def _covered(coming: list[tuple[Node, dict[str, int]]], pod: Pod) -> bool:
    for node, free in coming:
        if pod.shape.obstacle(node.labels, (), node.name) is None and pod.shape.short_of(free) is None:
            take(pod.shape, free, 1)
            return True
    return False


def _provision(inventory: Inventory, pod: Pod, pools: list[Pool]) -> bool:
    for pool in pools:
        since = pod.unschedulable or 0.0
        if (
            inventory.obstacle(pool, [pod.shape]) is None
            and inventory.free(pool.name)
            and inventory.left_to_grow(pool.name)
            and inventory.faults.hit(FaultKind.STOCK_OUT, [pool.name], pod.uid, inventory.now) is None
            and inventory.faults.hit(FaultKind.SILENCE, [pool.name], pod.uid, inventory.now) is None
        ):
            if inventory.now < since + pool.provision_delay:
                return True  # its turn, but not yet
            inventory.create(pool)
            return True
    return False
