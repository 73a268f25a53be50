"""The lifecycle of nodes: started, used, empty, removed.

A node is kept while its request is entitled to it; after that as long as pods run on it and a moment
longer. Nodes that this cloud did not make are not touched.
"""

from __future__ import annotations

from typing import Final

from muster.local.quantities import rfc3339_micro
from muster.local.simulated_cloud import conditions, names, ondemand
from muster.local.simulated_cloud.actions import AdvertiseGpus, NoteNode, ReleaseNode, StartVm
from muster.local.simulated_cloud.faults import FaultKind
from muster.local.simulated_cloud.inventory import Inventory
from muster.local.simulated_cloud.objects import Node, Request, VmState
from muster.local.simulated_cloud.offering import Kind, Offering

# cluster-autoscaler gives a node this long to become ready (--max-node-provision-time).
_MAX_PROVISION_TIME: Final = 15 * 60.0


def serve(inventory: Inventory, node: Node) -> None:
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
        return young or ondemand.wanted(inventory, node)
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
