"""cluster-autoscaler's own classes: each decision tries a request once, and a later one retries it.

best-effort-atomic-scale-up sets Provisioned when the scale-up was requested; nodes come later or, on a pool
that is not atomic, partly or never. check-capacity reads what exists and provisions nothing. Neither fails
for lack of capacity within a week, unless check-capacity has noRetry.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from muster.local.quantities import rfc3339_micro
from muster.local.simulated_cloud import conditions, names, ondemand
from muster.local.simulated_cloud.faults import FaultKind
from muster.local.simulated_cloud.fit import PodShape
from muster.local.simulated_cloud.inventory import Inventory, free_capacity, place
from muster.local.simulated_cloud.objects import Node, Request
from muster.local.simulated_cloud.offering import Offering, Pool

# The bill: node-seconds and money for each pool, in the cloud's time, kept in a ConfigMap.
# A lease is entered once, when its node goes. The uids of the last leases are kept beside the sums, so that a
# restart between entry and deletion does not charge twice.

_REMEMBERED: Final = 200
_HOUR: Final = 3600.0
_LEDGER_KEY: Final = "ledger"


@dataclass(slots=True)
class Ledger:
    """Node-seconds of leases that are over, by pool."""

    closed: dict[str, float] = field(default_factory=dict)
    recent: list[str] = field(default_factory=list)

    @staticmethod
    def read(data: Mapping[str, str]) -> Ledger:
        """What an earlier process wrote; an unreadable ledger starts empty."""
        try:
            content = json.loads(data.get(_LEDGER_KEY, "{}"))
            closed = {str(pool): float(seconds) for pool, seconds in content.get("closed", {}).items()}
            return Ledger(closed, [str(uid) for uid in content.get("recent", [])][-_REMEMBERED:])
        except (ValueError, AttributeError, TypeError):
            return Ledger()

    def close(self, node: Node, *, now: float, scale: float) -> bool:
        """Enter the node's lease; False if it was entered already."""
        if node.uid in self.recent:
            return False
        pool = node.pool or ""
        self.closed[pool] = self.closed.get(pool, 0.0) + max(0.0, now - node.created) * scale
        self.recent = [*self.recent, node.uid][-_REMEMBERED:]
        return True

    def write(
        self,
        offering: Offering,
        nodes: Iterable[Node],
        *,
        now: float,
        stock: Mapping[str, int],
        waiting: Mapping[str, int],
    ) -> dict[str, str]:
        """The ConfigMap's data: one JSON line a pool for people, and the ledger itself."""
        scale = offering.times.scale
        live = [node for node in nodes if node.vm is not None and node.uid not in self.recent]
        lines: dict[str, str] = {}
        for name, pool in offering.pools.items():
            own = [node for node in live if node.pool == name]
            seconds = self.closed.get(name, 0.0) + sum(max(0.0, now - node.created) * scale for node in own)
            line: dict[str, Any] = {
                "nodes": len(own),
                "stock": stock.get(name, pool.stock),
                "waiting": waiting.get(name, 0),
                "nodeSeconds": round(seconds, 1),
                "cost": round(seconds / _HOUR * pool.price_per_hour, 4),
                "currency": offering.currency,
            }
            lines[name] = json.dumps(line)
        content = {
            "closed": {pool: round(value, 3) for pool, value in self.closed.items()},
            "recent": self.recent,
        }
        return {**lines, _LEDGER_KEY: json.dumps(content)}


_DEFAULT_DELAY: Final = 60.0

Demand = Sequence[tuple[PodShape, int]]


def serve(inventory: Inventory, request: Request) -> None:
    """Everything but the attempt: bookings, expiry, the arrival of nodes that were bought."""
    if _silent(inventory, request):
        return
    if request.is_true(conditions.PROVISIONED):
        before = len(inventory.actions)
        ondemand.after_provisioned(inventory, request)
        if len(inventory.actions) == before:
            _deliver(inventory, request)
    elif inventory.now >= request.created + inventory.times.request_expiry:
        inventory.set_conditions(request, conditions.EXPIRED, touch=True)


def due(inventory: Inventory, request: Request) -> bool:
    """Whether it may be tried now: the wait after each try is as long as all the waiting before."""
    if _silent(inventory, request) or request.ended or request.is_true(conditions.PROVISIONED):
        return False
    if inventory.now >= request.created + inventory.times.request_expiry:
        return False
    last = request.condition(conditions.PROVISIONED)
    if last is None:
        return True
    accepted = request.since(conditions.ACCEPTED)
    tried_for = last.since - (accepted if accepted is not None else last.since)
    wait = min(max(tried_for, inventory.times.first_backoff), inventory.times.last_backoff)
    return inventory.now >= last.since + wait


def attempt(inventory: Inventory, request: Request) -> None:
    if request.missing_templates:
        message = conditions.missing_templates(len(request.pod_sets), request.missing_templates)
        inventory.set_conditions(request, conditions.NO_PODS.with_message(message), touch=True)
    elif request.provisioning_class == names.CHECK_CAPACITY:
        _check(inventory, request)
    else:
        _scale_up(inventory, request)


def _silent(inventory: Inventory, request: Request) -> bool:
    if request.pool:
        pools = [request.pool]
    else:
        pools = [
            pool.name
            for pool in inventory.offering.pools.values()
            if request.provisioning_class in pool.classes
        ]
    return inventory.faults.hit(FaultKind.SILENCE, pools, request.uid, inventory.now) is not None


def _check(inventory: Inventory, request: Request) -> None:
    left = _left_over(inventory, request)
    if not left:
        inventory.set_conditions(request, conditions.CA_ACCEPTED, conditions.FOUND, touch=True)
    elif request.parameters.get(names.NO_RETRY) == "true":
        inventory.set_conditions(request, conditions.CA_ACCEPTED, conditions.NOT_FOUND_FINAL, touch=True)
    else:
        _not_found(inventory, request)


def _scale_up(inventory: Inventory, request: Request) -> None:
    left = _left_over(inventory, request)
    if not left:
        inventory.set_conditions(request, conditions.CA_ACCEPTED, conditions.FOUND, touch=True)
        return
    for pool in inventory.offering.pools.values():
        count = _can_provision(inventory, request, pool, left)
        if count is not None:
            _promise(inventory, request, pool, count)
            return
    _not_found(inventory, request)


def _not_found(inventory: Inventory, request: Request) -> None:
    inventory.set_conditions(request, conditions.CA_ACCEPTED, conditions.NOT_FOUND, touch=True)


def _left_over(inventory: Inventory, request: Request) -> Demand:
    """What of the demand finds no room on nodes that exist, beside everything else that is booked there."""
    free = free_capacity(inventory, beside=request)
    return [
        (shape, left)
        for shape, count in request.demand
        if (left := count - place(inventory, free, shape, count)) > 0
    ]


def _can_provision(inventory: Inventory, request: Request, pool: Pool, demand: Demand) -> int | None:
    """Nodes to buy from the pool for all of the demand; None if it cannot be had there as a whole."""
    if (
        names.BEST_EFFORT not in pool.classes
        or inventory.obstacle(pool, [shape for shape, _ in demand]) is not None
    ):
        return None
    count = inventory.needed(pool, demand)
    if count is None or count > inventory.left_to_grow(pool.name):
        return None
    if pool.atomic and (
        count > inventory.free(pool.name)
        or inventory.faults.hit(FaultKind.STOCK_OUT, [pool.name], request.uid, inventory.now) is not None
    ):
        return None
    return count


def _promise(inventory: Inventory, request: Request, pool: Pool, count: int) -> None:
    now, minute = inventory.now, _DEFAULT_DELAY / inventory.times.scale
    partial = inventory.faults.hit(FaultKind.PARTIAL, [pool.name], request.uid, now)
    if partial is not None:
        count = max(0, count - (1 if partial.missing is None else partial.missing))
    ready_at = now + pool.provision_delay + pool.jitter * inventory.faults.chance(request.uid)
    late = inventory.faults.hit(FaultKind.DELAY, [pool.name], request.uid, now)
    if late is not None:
        ready_at += minute if late.by is None else late.by
    details = {
        **request.details,
        names.NODE_POOL: pool.name,
        names.DETAIL_NODES: str(count),
        names.DETAIL_READY_AT: rfc3339_micro(ready_at),
        names.DETAIL_DELIVERED: "0",
    }
    stagger = inventory.faults.hit(FaultKind.STAGGER, [pool.name], request.uid, now)
    if stagger is not None:
        last = ready_at + inventory.times.booking + (minute if stagger.by is None else stagger.by)
        details[names.DETAIL_LAST_READY_AT] = rfc3339_micro(last)
    inventory.promise(pool.name, count)
    inventory.set_conditions(request, conditions.CA_ACCEPTED, conditions.BOUGHT, details=details, touch=True)


def _deliver(inventory: Inventory, request: Request) -> None:
    """Nodes that were bought come at their time, as far as machines exist; none comes twice."""
    count = _due_nodes(inventory, request)
    if count <= request.delivered or request.is_true(conditions.BOOKING_EXPIRED):
        return
    missing = list(inventory.missing_ordinals(request, count))
    came = missing[0] if missing else count  # all before the first gap, whatever became of them since
    if came > request.delivered:
        inventory.set_conditions(request, details={**request.details, names.DETAIL_DELIVERED: str(came)})
    elif inventory.faults.hit(FaultKind.STOCK_OUT, [request.pool or ""], request.uid, inventory.now) is None:
        inventory.provision(request, missing)


def _due_nodes(inventory: Inventory, request: Request) -> int:
    ready_at, last = (request.detail_time(key) for key in (names.DETAIL_READY_AT, names.DETAIL_LAST_READY_AT))
    if ready_at is None or inventory.now < ready_at:
        return 0
    return request.promised - 1 if last is not None and inventory.now < last else request.promised
