"""Ordinary unschedulable pods on on-demand pools: nodes for those that wait together, nothing atomic.

This is what a cluster-autoscaler does for pods without a queue, and why it provisions GPUs for work that
may not run. Off unless a pool has `onDemand: true`. Pods that consume a ProvisioningRequest, are gated, or
have a priority below the cutoff get no node.

As cluster-autoscaler 1.34 (kubernetes/autoscaler d63eaf8b9e) was seen to do: a pod that asks for GPUs waits
30 seconds before it counts, another one two, whatever the scan interval (core/static_autoscaler.go). A
priority of -100 bought nothing, -10 did (--expendable-pods-priority-cutoff).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from muster.local.simulated_cloud import conditions, names
from muster.local.simulated_cloud.actions import DeleteRequest
from muster.local.simulated_cloud.faults import FaultKind
from muster.local.simulated_cloud.fit import take
from muster.local.simulated_cloud.inventory import Inventory
from muster.local.simulated_cloud.objects import Node, Pod, Request, VmState
from muster.local.simulated_cloud.offering import Pool, Times

# A request after Provisioned: its booking ends, its lease ends, or the cloud revokes the capacity.


def after_provisioned(inventory: Inventory, request: Request) -> None:
    """The request is Provisioned and has not ended."""
    if request.provisioning_class == names.QUEUED and _lease_over(inventory, request):
        # GKE's own rule: a request is CapacityRevoked only if it is BookingExpired as well.
        inventory.set_conditions(request, conditions.GKE_BOOKING_EXPIRED, conditions.GKE_REVOKED)
    elif not request.is_true(conditions.BOOKING_EXPIRED) and _booking_over(inventory, request):
        queued = request.provisioning_class == names.QUEUED
        inventory.set_conditions(
            request, conditions.GKE_BOOKING_EXPIRED if queued else conditions.CA_BOOKING_EXPIRED
        )


def run_duration(request: Request, times: Times) -> float:
    """How long the machines of the lease may run, in real seconds."""
    text = request.parameters.get(names.MAX_RUN_DURATION, "")
    asked = (
        int(text) / times.scale if text.isascii() and text.isdigit() and len(text) < 10 else times.longest_run
    )
    return min(asked, times.longest_run)


def clean_up(inventory: Inventory, request: Request) -> bool:
    """Both originals delete what has been over for a week; True if this one goes."""
    ends = [conditions.FAILED, conditions.CAPACITY_REVOKED]
    if request.provisioning_class != names.QUEUED:
        ends.append(conditions.PROVISIONED)  # cluster-autoscaler counts Provisioned as an end
    moments = [moment for kind in ends if (moment := request.since(kind)) is not None]
    if not moments or inventory.now < min(moments) + inventory.times.terminal_ttl:
        return False
    inventory.actions.append(DeleteRequest(request))
    return True


def _lease_over(inventory: Inventory, request: Request) -> bool:
    provisioned = request.since(conditions.PROVISIONED)
    if provisioned is not None and inventory.now >= provisioned + run_duration(request, inventory.times):
        return True
    return inventory.faults.hit(FaultKind.REVOKE, _pools(request), request.uid, inventory.now) is not None


def _booking_over(inventory: Inventory, request: Request) -> bool:
    if inventory.faults.hit(FaultKind.EXPIRE, _pools(request), request.uid, inventory.now) is not None:
        return True
    provisioned = request.since(conditions.PROVISIONED)
    if provisioned is None or inventory.now < provisioned + inventory.times.booking:
        return False
    return inventory.offering.expire_consumed or not inventory.consuming(request)


def _pools(request: Request) -> list[str]:
    return [request.pool] if request.pool is not None else []


_CUTOFF: Final = -10
"""A pod of a lower priority is expendable."""

Coming = list[tuple[Mapping[str, str], dict[str, int]]]
"""Labels of nodes that are not ready yet, with what is left of what they will offer."""


def serve(inventory: Inventory) -> None:
    """Buys for all pods that have waited long enough."""
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
        if not _covered(coming, pod):
            _provision(inventory, pod, pools, coming)


def waiting(inventory: Inventory) -> list[Pod]:
    """Pods that the scheduler has given up on and that may buy."""
    return [
        pod
        for pod in inventory.unbound
        if pod.unschedulable is not None and not pod.gated and not pod.consumes and pod.priority >= _CUTOFF
    ]


def wanted(inventory: Inventory, node: Node) -> bool:
    """Whether some waiting pod may still come to the node."""
    return any(
        pod.shape.obstacle(node.labels, node.taints, node.name) is None
        and pod.shape.short_of(_room_of(inventory, node)) is None
        for pod in waiting(inventory)
    )


def _coming(inventory: Inventory) -> Coming:
    return [
        (node.labels, _room_of(inventory, node))
        for node in inventory.nodes.values()
        if node.vm in (VmState.REQUESTED, VmState.RUNNING) and not node.ready and not node.owner_uid
    ]


def _room_of(inventory: Inventory, node: Node) -> dict[str, int]:
    pool = inventory.offering.pools.get(node.pool or "")
    return dict(node.allocatable or (pool.allocatable if pool else {}))


def _covered(coming: Coming, pod: Pod) -> bool:
    for labels, free in coming:
        if pod.shape.obstacle(labels, ()) is None and pod.shape.short_of(free) is None:
            take(pod.shape, free, 1)
            return True
    return False


def _provision(inventory: Inventory, pod: Pod, pools: list[Pool], coming: Coming) -> None:
    times = inventory.times
    buffer = times.gpu_buffer if pod.shape.requests.get(names.GPU) else times.pod_buffer
    since = (pod.unschedulable or 0.0) + buffer
    for pool in pools:
        if (
            inventory.obstacle(pool, [pod.shape]) is None
            and inventory.free(pool.name)
            and inventory.left_to_grow(pool.name)
            and inventory.faults.hit(FaultKind.STOCK_OUT, [pool.name], pod.uid, inventory.now) is None
            and inventory.faults.hit(FaultKind.SILENCE, [pool.name], pod.uid, inventory.now) is None
        ):
            if inventory.now >= since + pool.provision_delay:
                inventory.create(pool)
                room = dict(pool.allocatable)
                take(pod.shape, room, 1)
                coming.append((pool.labels, room))
            return  # if it is not due yet, it waits for this pool
