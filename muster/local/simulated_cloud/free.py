"""Free capacity of existing nodes, without running pods and booked capacity.

A booking is not enforced against ordinary pods: as in cluster-autoscaler it only excludes other requests.
"""

from __future__ import annotations

from muster.local.simulated_cloud import conditions
from muster.local.simulated_cloud.fit import PodShape, room, take
from muster.local.simulated_cloud.inventory import Inventory
from muster.local.simulated_cloud.objects import Node, Request

Free = dict[str, dict[str, int]]


def free_capacity(inventory: Inventory, *, beside: Request | None = None) -> Free:
    """Free amounts by node name, on nodes where a pod could start now."""
    free = {
        node.name: _unused(inventory, node)
        for node in inventory.nodes.values()
        if node.ready and not node.unschedulable and not node.leaving
    }
    for request in inventory.requests.values():
        if beside is None or request.uid != beside.uid:
            _book(inventory, free, request)
    return free


def place(inventory: Inventory, free: Free, shape: PodShape, count: int) -> int:
    """Put up to `count` pods where they fit, node by node; returns how many found a place."""
    return _place(inventory, free, shape, count, list(free))


def _place(inventory: Inventory, free: Free, shape: PodShape, count: int, where: list[str]) -> int:
    placed = 0
    for name in where:
        if placed == count:
            break
        node = inventory.nodes[name]
        if shape.obstacle(node.labels, node.taints, name) is None:
            here = room(shape, free[name], most=count - placed)
            take(shape, free[name], here)
            placed += here
    return placed


def _unused(inventory: Inventory, node: Node) -> dict[str, int]:
    free = dict(node.allocatable)
    for pod in inventory.pods_on.get(node.name, ()):
        take(pod.shape, free, 1)
    return free


def _book(inventory: Inventory, free: Free, request: Request) -> None:
    """Take off what a request has booked and its pods have not consumed yet."""
    if (
        request.ended
        or request.is_true(conditions.BOOKING_EXPIRED)
        or not request.is_true(conditions.PROVISIONED)
    ):
        return
    own = [node.name for node in inventory.owned(request) if node.name in free]
    consumed = inventory.consuming(request)
    for shape, count in request.demand:
        left = max(0, count - consumed)
        consumed = max(0, consumed - count)
        _place(inventory, free, shape, left, own or list(free))
