"""A request after Provisioned: its booking ends, its lease ends, or the cloud revokes the capacity.

Responsible for: conditions only. Not responsible for: the nodes (see reclaim.py).
"""

from __future__ import annotations

from muster.local.simulated_cloud import conditions, names
from muster.local.simulated_cloud.actions import DeleteRequest
from muster.local.simulated_cloud.faults import FaultKind
from muster.local.simulated_cloud.inventory import Inventory
from muster.local.simulated_cloud.objects import Request
from muster.local.simulated_cloud.offering import Times


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
