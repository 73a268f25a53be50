"""What becomes of nodes: started, used, empty, taken back.

A node is kept while its request is owed it; after that it stays as long as
pods run on it and a moment longer. Nothing here touches nodes that this cloud
did not make.
"""

from __future__ import annotations

from typing import Final

from muster.local.quantities import rfc3339_micro
from muster.local.simulated_cloud import conditions, names, ondemand
from muster.local.simulated_cloud.actions import AdvertiseGpus, NoteNode, ReleaseNode, StartVm
from muster.local.simulated_cloud.faults import FaultKind
from muster.local.simulated_cloud.inventory import Market
from muster.local.simulated_cloud.objects import Node, Request, VmState
from muster.local.simulated_cloud.offering import Kind

# cluster-autoscaler gives a node this long to become ready (--max-node-provision-time).
_MAX_PROVISION_TIME: Final = 15 * 60.0


def serve(market: Market, node: Node) -> None:
    """One step for one node of ours."""
    request = market.requests.get(node.owner_uid) if node.owner_uid else None
    match node.vm:
        case VmState.RELEASING | VmState.REVOKED:
            _release(market, node, force=node.vm is VmState.REVOKED, why="resumed")
            return
        case VmState.FAILED:
            _give_up(market, node, request)
            return
    why = _revoked(market, node, request)
    if why is not None:
        _release(market, node, force=True, why=why)
        return
    if node.vm is VmState.REQUESTED:
        _start(market, node, request)
    else:
        _advertise(market, node)
        _use(market, node, request)


def _give_up(market: Market, node: Node, request: Request | None) -> None:
    """A failed machine's node stays until what it tells has been told: once it is gone nobody knows."""
    untold = request is not None and not request.ended and not _counted(request, node)
    backing_off = not node.owner_uid and market.now < node.created + market.times.first_backoff
    if not untold and not backing_off:
        _release(market, node, force=True, why="the machine could not be started")


def _counted(request: Request, node: Node) -> bool:
    """Whether the request knows that this node came, so that it will not be bought again."""
    if request.provisioning_class == names.QUEUED:
        return False  # its end alone tells
    return node.ordinal < request.delivered or request.is_true(conditions.BOOKING_EXPIRED)


def _start(market: Market, node: Node, request: Request | None) -> None:
    if node.owner_uid and (request is None or request.ended):
        _release(market, node, force=True, why="its request is gone before the machine came")
    else:
        market.actions.append(StartVm(node.name))


def _revoked(market: Market, node: Node, request: Request | None) -> str | None:
    if node.expires is not None and market.now >= node.expires:
        return "its maximum run duration is over"
    if request is None:
        return None
    if request.is_true(conditions.CAPACITY_REVOKED):
        return "its capacity was revoked"
    # cluster-autoscaler's classes know no CapacityRevoked: there the nodes go and nobody says a word.
    silent = request.provisioning_class != names.QUEUED and request.is_true(conditions.PROVISIONED)
    if silent and market.faults.hit(FaultKind.REVOKE, [node.pool or ""], request.uid, market.now) is not None:
        return "the cloud took it back"
    return None


def _advertise(market: Market, node: Node) -> None:
    pool = market.offering.pools.get(node.pool or "")
    if pool is None or pool.kind is not Kind.REAL or not (node.ready and node.registered):
        return
    if node.advertised.get(names.GPU, 0) != pool.gpus * 1000:
        market.actions.append(AdvertiseGpus(node.name, pool.gpus))


def _use(market: Market, node: Node, request: Request | None) -> None:
    pods = [pod for pod in market.pods_on.get(node.name, ()) if pod.stays]
    if pods:
        notes: dict[str, str | None] = {}
        if node.unneeded is not None:
            notes[names.UNNEEDED] = None
        if node.consumed is None and any(pod.request and pod.request == node.owner for pod in pods):
            notes[names.CONSUMED] = rfc3339_micro(market.now)
        if notes:
            market.actions.append(NoteNode(node.name, notes))
    elif _kept(market, node, request):
        if node.unneeded is not None:
            market.actions.append(NoteNode(node.name, {names.UNNEEDED: None}))
    elif node.unneeded is None:
        market.actions.append(NoteNode(node.name, {names.UNNEEDED: rfc3339_micro(market.now)}))
    elif market.now >= node.unneeded + _grace(market, node, request):
        _release(market, node, force=False, why="nobody needs it")


def _kept(market: Market, node: Node, request: Request | None) -> bool:
    """Whether an empty node is still owed to somebody."""
    if not node.owner_uid:
        young = not node.ready and market.now < node.created + _MAX_PROVISION_TIME / market.times.scale
        return young or ondemand.wanted(market, node)
    if request is None or request.ended:
        return False
    if not request.is_true(conditions.PROVISIONED):
        return request.detail_time(names.DETAIL_READY_AT) is not None
    return not request.is_true(conditions.BOOKING_EXPIRED) and (
        node.consumed is None or _awaited(market, request)
    )


def _awaited(market: Market, request: Request) -> bool:
    """Whether a pod of it has yet to be bound: when the API server has died the scheduler may be behind."""
    return any(pod.request == request.key and not pod.gated for pod in market.unbound)


def _grace(market: Market, node: Node, request: Request | None) -> float:
    """A booked node that was used and is empty again waits longer: its pods may be between two lives."""
    booked = request is not None and not request.ended and not request.is_true(conditions.BOOKING_EXPIRED)
    return (
        market.times.scale_down_consumed if booked and node.consumed is not None else market.times.scale_down
    )


def _release(market: Market, node: Node, *, force: bool, why: str) -> None:
    market.actions.append(ReleaseNode(node.name, node.uid, force, why))
