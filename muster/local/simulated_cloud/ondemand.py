"""Ordinary unschedulable pods on on-demand pools: nodes for those that wait together, nothing atomic.

This is what a cluster-autoscaler does for pods without a queue, and why it provisions GPUs for work that
may not run. Off unless a pool has `onDemand: true`. Pods that consume a ProvisioningRequest, are gated, or
have a priority below the cutoff get no node.

As cluster-autoscaler 1.34 (kubernetes/autoscaler d63eaf8b9e) was seen to do: a pod that asks for GPUs waits
30 seconds before it counts, another one two, whatever the scan interval (core/static_autoscaler.go). A
priority of -100 bought nothing, -10 did (--expendable-pods-priority-cutoff).

Then the lifecycle of nodes: started, used, empty, removed. A node is kept while its request is entitled to
it; after that as long as pods run on it and a moment longer. Nodes that this cloud did not make are not
touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from muster.local.quantities import rfc3339_micro
from muster.local.simulated_cloud import conditions, names
from muster.local.simulated_cloud.actions import AdvertiseGpus, DeleteRequest, NoteNode, ReleaseNode, StartVm
from muster.local.simulated_cloud.faults import FaultKind
from muster.local.simulated_cloud.fit import take
from muster.local.simulated_cloud.inventory import Inventory
from muster.local.simulated_cloud.objects import Node, Pod, Request, VmState
from muster.local.simulated_cloud.offering import Kind, Offering, Pool, Times

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


# cluster-autoscaler gives a node this long to become ready (--max-node-provision-time).
_MAX_PROVISION_TIME: Final = 15 * 60.0


def reclaim(inventory: Inventory, node: Node) -> None:
    """One step for one node of ours."""
    request = inventory.requests.get(node.owner_uid) if node.owner_uid else None
    match node.vm:
        case VmState.RELEASING | VmState.REVOKED:
            _release(inventory, node, force=node.vm is VmState.REVOKED, why="resumed")
            return
        case VmState.FAILED:
            _give_up(inventory, node, request)
            return
    why = _revoked(inventory, node, request)
    if why is not None:
        _release(inventory, node, force=True, why=why)
        return
    if node.vm is VmState.REQUESTED:
        _start(inventory, node, request)
    else:
        inventory.actions += advertise(inventory.offering, node)
        _use(inventory, node, request)


def _give_up(inventory: Inventory, node: Node, request: Request | None) -> None:
    """Keep a failed machine's node until the request's status has the failure."""
    unreported = request is not None and not request.ended and not _counted(request, node)
    backing_off = not node.owner_uid and inventory.now < node.created + inventory.times.first_backoff
    if not unreported and not backing_off:
        _release(inventory, node, force=True, why="the machine could not be started")


def _counted(request: Request, node: Node) -> bool:
    """Whether the request knows that this node came, so that it will not be bought again."""
    if request.provisioning_class == names.QUEUED:
        return False  # only its end shows the failure
    return node.ordinal < request.delivered or request.is_true(conditions.BOOKING_EXPIRED)


def _start(inventory: Inventory, node: Node, request: Request | None) -> None:
    if node.owner_uid and (request is None or request.ended):
        _release(inventory, node, force=True, why="its request is gone before the machine came")
    else:
        inventory.actions.append(StartVm(node.name))


def _revoked(inventory: Inventory, node: Node, request: Request | None) -> str | None:
    if node.expires is not None and inventory.now >= node.expires:
        return "its maximum run duration is over"
    if request is None:
        return None
    if request.is_true(conditions.CAPACITY_REVOKED):
        return "its capacity was revoked"
    # cluster-autoscaler's classes have no CapacityRevoked: there the nodes go without a condition.
    silent = request.provisioning_class != names.QUEUED and request.is_true(conditions.PROVISIONED)
    if (
        silent
        and inventory.faults.hit(FaultKind.REVOKE, [node.pool or ""], request.uid, inventory.now) is not None
    ):
        return "the cloud took it back"
    return None


def advertise(offering: Offering, node: Node) -> list[AdvertiseGpus]:
    """What a device plugin would still have to do on this node. A kubelet that registers forgets GPUs."""
    pool = offering.pools.get(node.pool or "")
    if pool is None or pool.kind is not Kind.REAL or not (node.ready and node.registered):
        return []
    is_advertised = node.advertised.get(names.GPU, 0) == pool.gpus * 1000
    return [] if is_advertised else [AdvertiseGpus(node.name, pool.gpus)]


def _use(inventory: Inventory, node: Node, request: Request | None) -> None:
    pods = [pod for pod in inventory.pods_on.get(node.name, ()) if pod.stays]
    if pods:
        notes: dict[str, str | None] = {}
        if node.unneeded is not None:
            notes[names.UNNEEDED] = None
        if node.consumed is None and any(pod.request and pod.request == node.owner for pod in pods):
            notes[names.CONSUMED] = rfc3339_micro(inventory.now)
        if notes:
            inventory.actions.append(NoteNode(node.name, notes))
    elif _kept(inventory, node, request):
        if node.unneeded is not None:
            inventory.actions.append(NoteNode(node.name, {names.UNNEEDED: None}))
    elif node.unneeded is None:
        inventory.actions.append(NoteNode(node.name, {names.UNNEEDED: rfc3339_micro(inventory.now)}))
    elif inventory.now >= node.unneeded + _grace(inventory, node, request):
        _release(inventory, node, force=False, why="not needed")


def _kept(inventory: Inventory, node: Node, request: Request | None) -> bool:
    """Whether a request is still entitled to this empty node."""
    if not node.owner_uid:
        young = not node.ready and inventory.now < node.created + _MAX_PROVISION_TIME / inventory.times.scale
        return young or wanted(inventory, node)
    if request is None or request.ended:
        return False
    if not request.is_true(conditions.PROVISIONED):
        return request.detail_time(names.DETAIL_READY_AT) is not None
    return not request.is_true(conditions.BOOKING_EXPIRED) and (
        node.consumed is None or _awaited(inventory, request)
    )


def _awaited(inventory: Inventory, request: Request) -> bool:
    """Whether a pod of it has yet to be bound: when the API server has died the scheduler may be behind."""
    return any(pod.request == request.key and not pod.gated for pod in inventory.unbound)


def _grace(inventory: Inventory, node: Node, request: Request | None) -> float:
    """A booked node that was used and is empty again waits longer: its pods may be between two lives."""
    booked = request is not None and not request.ended and not request.is_true(conditions.BOOKING_EXPIRED)
    return (
        inventory.times.scale_down_consumed
        if booked and node.consumed is not None
        else inventory.times.scale_down
    )


def _release(inventory: Inventory, node: Node, *, force: bool, why: str) -> None:
    inventory.actions.append(ReleaseNode(node.name, node.uid, force, why))
