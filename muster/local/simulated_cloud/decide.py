"""The autoscaler's decision: from what exists, the next actions. Pure: no clock, no network, no state.

Level-triggered: deciding twice on the same input gives the same actions, and a decision that was not
carried out is made again.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.local.simulated_cloud import attempts, bookings, conditions, names, ondemand, queued, reclaim
from muster.local.simulated_cloud.actions import Action, RecordHit
from muster.local.simulated_cloud.faults import FaultBook
from muster.local.simulated_cloud.inventory import Inventory
from muster.local.simulated_cloud.objects import Node, Pod, Request
from muster.local.simulated_cloud.offering import Offering


def decide(
    offering: Offering,
    *,
    requests: Iterable[Request],
    nodes: Iterable[Node],
    pods: Iterable[Pod],
    faults: FaultBook,
    now: float,
) -> list[Action]:
    """Actions in the order in which to try them; the hits of faults first, so that none is forgotten."""
    inventory = Inventory(offering, requests=requests, nodes=nodes, pods=pods, faults=faults, now=now)
    ordered = sorted(inventory.requests.values(), key=_place_in_queue)
    tried = False
    for request in ordered:
        if not _ours(request) or bookings.clean_up(inventory, request) or request.ended:
            continue
        if request.provisioning_class == names.QUEUED:
            queued.serve(inventory, request)
        elif not tried and attempts.due(inventory, request):
            attempts.attempt(inventory, request)
            tried = True  # cluster-autoscaler looks at one request a loop
        else:
            attempts.serve(inventory, request)
    ondemand.serve(inventory)
    for node in list(inventory.nodes.values()):
        if node.vm is not None:
            reclaim.serve(inventory, node)
    return [*(RecordHit(fault, uid) for fault, uid in inventory.faults.new_hits), *inventory.actions]


def _place_in_queue(request: Request) -> tuple[float, float, str]:
    accepted = request.since(conditions.ACCEPTED)
    return (accepted if accepted is not None else float("inf"), request.created, request.key)


def _ours(request: Request) -> bool:
    """Other classes are other autoscalers' business, as is check-capacity for another instance."""
    if request.provisioning_class == names.CHECK_CAPACITY:
        return not request.parameters.get(names.PROCESSOR_INSTANCE)
    return request.provisioning_class in names.CLASSES
