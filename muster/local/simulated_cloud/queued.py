"""queued-provisioning.gke.io: a place in a queue, then all nodes or none.

A request goes NotAccepted -> Accepted (its resize request is in the queue of one pool) -> promised (stock
is reserved, the arrival is known) -> nodes -> Provisioned. The resize request of the real cloud is kept in
the details of the status, so that a restart continues where it was.
"""

from __future__ import annotations

import hashlib
from typing import Final

from muster.local.quantities import rfc3339, rfc3339_micro
from muster.local.simulated_cloud import conditions, names, ondemand
from muster.local.simulated_cloud.conditions import ConditionUpdate
from muster.local.simulated_cloud.faults import FaultKind
from muster.local.simulated_cloud.inventory import Inventory
from muster.local.simulated_cloud.objects import Request, VmState
from muster.local.simulated_cloud.offering import Pool

# What a fault adds when it does not say: a minute of the cloud's time.
_DEFAULT_DELAY: Final = 60.0
# Nothing else in a resize request's name is chosen; GKE cuts the parts at these lengths.
_NAME_PART: Final = 20
_HASH_PART: Final = 16


def resize_request_name(namespace: str, name: str) -> str:
    """As GKE forms it, so that it fits a label: namespace and name cut, then a hash of both."""
    digest = hashlib.sha256(f"{namespace}/{name}".encode()).hexdigest()[:_HASH_PART]
    return f"gke-{namespace[:_NAME_PART]}-{name[:_NAME_PART]}-{digest}"


def serve(inventory: Inventory, request: Request) -> None:
    """One step for one request that has not ended."""
    if _silent(inventory, request):
        return
    if request.is_true(conditions.PROVISIONED):
        ondemand.after_provisioned(inventory, request)
    elif request.is_true(conditions.ACCEPTED):
        _wait_or_deliver(inventory, request)
    elif request.condition(conditions.ACCEPTED) is None:
        _begin(inventory, request)
    else:
        _find_pool(inventory, request)


def _silent(inventory: Inventory, request: Request) -> bool:
    pools = [request.pool] if request.pool else [pool.name for pool, _ in _fitting(inventory, request)]
    return inventory.faults.hit(FaultKind.SILENCE, pools, request.uid, inventory.now) is not None


# -- before the queue ------------------------------------------------------------------------------


def _begin(inventory: Inventory, request: Request) -> None:
    lease = resize_request_name(request.namespace, request.name)
    if any(node.lease == lease and node.owner_uid != request.uid for node in inventory.nodes.values()):
        # A request of the same name was here; GKE leaves the new one alone until the old machines are gone.
        return
    refusal = _refusal(inventory, request)
    inventory.set_conditions(request, conditions.NOT_ACCEPTED, *([refusal] if refusal else []))


def _refusal(inventory: Inventory, request: Request) -> ConditionUpdate | None:
    if len(request.pod_sets) != 1:
        return conditions.WARDEN.with_message(conditions.denied(conditions.SINGLE_POD_SET))
    text = request.parameters.get(names.MAX_RUN_DURATION)
    if text is not None:
        shortest, longest = (
            round(bound * inventory.times.scale)
            for bound in (inventory.times.shortest_run, inventory.times.longest_run)
        )
        if not (text.isascii() and text.isdigit() and len(text) < 10 and shortest <= int(text) <= longest):
            return conditions.WARDEN.with_message(
                conditions.denied(
                    f"parameter {names.MAX_RUN_DURATION} is '{text[:40]}'; "
                    f"allowed are whole seconds from {shortest} to {longest}"
                )
            )
    if request.missing_templates:
        return conditions.NO_PODS.with_message(
            conditions.missing_templates(len(request.pod_sets), request.missing_templates)
        )
    return None


def _find_pool(inventory: Inventory, request: Request) -> None:
    if request.missing_templates:
        inventory.set_conditions(
            request,
            conditions.NO_PODS.with_message(
                conditions.missing_templates(len(request.pod_sets), request.missing_templates)
            ),
        )
        return
    begun = request.condition(conditions.ACCEPTED)
    if begun is None or inventory.now < begun.since + inventory.times.accept_delay:
        return
    options = [
        (pool, count)
        for pool, count in _fitting(inventory, request)
        if count is not None and count <= inventory.left_to_grow(pool.name)
    ]
    if options:
        pool, count = next(
            (option for option in options if option[1] <= inventory.free(option[0].name)), options[0]
        )
        inventory.set_conditions(request, conditions.QUEUED, details=_details(request, pool, count))
    elif inventory.now >= request.created + inventory.times.refusal_delay:
        inventory.set_conditions(request, _misfit(inventory, request))


def _queued_pools(inventory: Inventory) -> list[Pool]:
    return [pool for pool in inventory.offering.pools.values() if names.QUEUED in pool.classes]


def _fitting(inventory: Inventory, request: Request) -> list[tuple[Pool, int | None]]:
    """Pools where the pods could run, and how many nodes that takes; None for more than it may have."""
    lease = resize_request_name(request.namespace, request.name)
    shapes = [shape for shape, _ in request.demand]
    if not shapes:
        return []
    return [
        (pool, inventory.needed(pool, request.demand))
        for pool in _queued_pools(inventory)
        if inventory.obstacle(pool, shapes, lease) is None
    ]


def _misfit(inventory: Inventory, request: Request) -> ConditionUpdate:
    pools = _queued_pools(inventory)
    if not pools:
        return conditions.NO_QUEUED_POOL
    fitting = [pool.name for pool, _ in _fitting(inventory, request)]
    if fitting:
        return conditions.POOL_SIZE_REACHED.with_message(
            f"{conditions.POOL_SIZE_REACHED.message}, affected nodepools: {', '.join(fitting)}"
        )
    lease = resize_request_name(request.namespace, request.name)
    shapes = [shape for shape, _ in request.demand]
    errors = ", ".join(f"{pool.name} ({inventory.obstacle(pool, shapes, lease)})" for pool in pools)
    return conditions.NOT_SCHEDULABLE.with_message(
        f"{conditions.NOT_SCHEDULABLE.message}. Predicate checking errors: {errors}"
    )


def _details(request: Request, pool: Pool, count: int) -> dict[str, str]:
    return {
        names.RESIZE_REQUEST: resize_request_name(request.namespace, request.name),
        names.NODE_GROUP: f"https://localplane.invalid/zones/local-a/instanceGroups/{pool.name}",
        names.NODE_POOL: pool.name,
        names.ACCELERATOR: pool.labels.get("cloud.google.com/gke-accelerator", ""),
        names.ZONE: "local-a",
        names.AUTO_PROVISIONED: "false",
        names.MODE: "resize_request",
        names.DETAIL_NODES: str(count),
    }


# -- in the queue ----------------------------------------------------------------------------------


def _wait_or_deliver(inventory: Inventory, request: Request) -> None:
    pool = inventory.offering.pools.get(request.pool or "")
    if pool is None or (request.asked == 0 and not request.detail_time(names.DETAIL_READY_AT)):
        # The pool is no longer offered, or the details were emptied: the resize request is lost.
        inventory.set_conditions(request, conditions.MISSING_RESIZE_REQUEST)
        return
    owned = inventory.owned(request)
    if any(node.vm is VmState.FAILED for node in owned):
        inventory.set_conditions(request, conditions.VM_FAILED)
        return
    if not owned and _stocked_out(inventory, request, pool):
        return
    ready_at = request.detail_time(names.DETAIL_READY_AT)
    if ready_at is None:
        _queue(inventory, request, pool)
    elif inventory.now >= ready_at:
        _deliver(inventory, request, pool)


def _stocked_out(inventory: Inventory, request: Request, pool: Pool) -> bool:
    fault = inventory.faults.hit(FaultKind.STOCK_OUT, [pool.name], request.uid, inventory.now)
    if fault is None:
        return False
    reason = _exhausted(pool)
    if fault.wait:
        details = {key: value for key, value in request.details.items() if key != names.DETAIL_READY_AT}
        inventory.set_conditions(
            request, conditions.POOL_EXHAUSTED.with_message(f"{reason} ETA: unknown."), details=details
        )
    else:
        inventory.set_conditions(request, conditions.STOCK_OUT.with_message(reason))
    return True


def _exhausted(pool: Pool) -> str:
    accelerator = pool.labels.get("cloud.google.com/gke-accelerator", "gpu")
    attachment = f', Attachment: "{accelerator}={pool.gpus}"' if pool.gpus else ""
    machine = f'VMType: "local-{pool.name}"{attachment}'
    return f'{conditions.POOL_EXHAUSTED.message} Reason: "resource_availability", {machine}.'


def _queue(inventory: Inventory, request: Request, pool: Pool) -> None:
    """First come, first served. A request for more than the cloud has at all blocks no other."""
    enough = request.asked <= inventory.free(pool.name)
    if pool.name in inventory.blocked or not enough:
        if request.asked <= inventory.stock(pool.name):
            inventory.blocked.add(pool.name)
        inventory.set_conditions(
            request, conditions.POOL_EXHAUSTED.with_message(f"{_exhausted(pool)} ETA: unknown.")
        )
        return
    ready_at = inventory.now + _delay(inventory, request, pool)
    partial = inventory.faults.hit(FaultKind.PARTIAL, [pool.name], request.uid, inventory.now)
    missing = 0 if partial is None else (1 if partial.missing is None else partial.missing)
    count = max(0, request.asked - missing)
    inventory.promise(pool.name, count)
    inventory.set_conditions(
        request,
        conditions.NOT_PROVISIONED.with_message(
            f"{conditions.NOT_PROVISIONED.message} ETA: {rfc3339(ready_at)}"
        ),
        details={
            **request.details,
            names.DETAIL_NODES: str(count),
            names.DETAIL_READY_AT: rfc3339_micro(ready_at),
        },
    )


def _delay(inventory: Inventory, request: Request, pool: Pool) -> float:
    delay = pool.provision_delay + pool.jitter * inventory.faults.chance(request.uid)
    minute = _DEFAULT_DELAY / inventory.times.scale
    late = inventory.faults.hit(FaultKind.DELAY, [pool.name], request.uid, inventory.now)
    if late is not None:
        delay += minute if late.by is None else late.by
    stagger = inventory.faults.hit(FaultKind.STAGGER, [pool.name], request.uid, inventory.now)
    if stagger is not None:
        delay += inventory.times.booking + (minute if stagger.by is None else stagger.by)
    return delay


def _deliver(inventory: Inventory, request: Request, pool: Pool) -> None:
    """All that was promised, in one go; Provisioned when every machine is there, its kubelet or not."""
    owned = inventory.owned(request)
    missing = list(inventory.missing_ordinals(request, request.promised))
    if not missing:
        if all(node.vm is VmState.RUNNING for node in owned):
            inventory.set_conditions(request, conditions.GKE_PROVISIONED)
        return
    if len(missing) > inventory.stock(pool.name) - inventory.used[pool.name]:
        if not owned:  # the stock went away after the promise: back into the queue
            details = {key: value for key, value in request.details.items() if key != names.DETAIL_READY_AT}
            inventory.set_conditions(
                request,
                conditions.POOL_EXHAUSTED.with_message(f"{_exhausted(pool)} ETA: unknown."),
                details=details,
            )
        return
    inventory.provision(
        request,
        missing,
        lease=request.details.get(names.RESIZE_REQUEST, ""),
        expires=inventory.now + ondemand.run_duration(request, inventory.times),
    )
