"""Does the queue have room?

Decides it for a leaf queue and all queues above it, from what KAI has allocated and from what is on its way:
gangs that provision capacity, and pods that are released and not bound yet. `status.requested` plays no part:
it counts our own gated pods. Preemptible work may take its queue's quota, and what lies between quota and
limit only where the policy allows; other work may take quota that non-preemptible work has left. Units here:
GPUs, cores, bytes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from math import floor

from muster.controller.kai.objects import Queue, Share
from muster.model.gangpolicy import OverQuota
from muster.model.names import GPU_RESOURCE
from muster.model.pods import Amounts
from muster.model.quantities import parse_quantity

Turn = tuple[datetime, str]
"""When a gang first requested capacity, and its attempt: a total order of gangs being provisioned."""

_SCALE: Mapping[str, Fraction] = {"gpu": Fraction(1), "cpu": Fraction(1, 1000), "memory": Fraction(10**6)}
"""One of KAI's units in ours."""
_KUBERNETES: Mapping[str, str] = {"gpu": GPU_RESOURCE, "cpu": "cpu", "memory": "memory"}
_UNITS: Mapping[str, str] = {"gpu": "GPUs", "cpu": "CPUs", "memory": "bytes of memory"}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDemand:
    """What pods of one queue take of it."""

    queue: str
    amounts: Amounts
    is_preemptible: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueUsage:
    """What is, or will be, taken: by pods that are bound or released, or by a gang that is being provisioned.

    `turn` is set for a gang that gathers: only one that asked earlier goes before another that has asked.
    """

    demand: QueueDemand
    is_bound: bool = False
    turn: Turn | None = None

    def counts_against(self, turn: Turn | None) -> bool:
        return self.turn is None or turn is None or self.turn < turn


def insufficient_quota(
    demands: Sequence[QueueDemand],
    *,
    queues: Mapping[str, Queue],
    usage: Iterable[QueueUsage],
    turn: Turn | None,
    over_quota: OverQuota,
) -> str:
    """Why there is no room for all of these together; empty when there is."""
    against = [each for each in usage if each.counts_against(turn)]
    wanted: dict[tuple[str, bool], dict[str, Fraction]] = {}
    for demand in demands:
        path = _path(demand.queue, queues)
        if isinstance(path, str):
            return path
        for name in path:
            _add(wanted.setdefault((name, demand.is_preemptible), {}), demand.amounts)
    for (name, is_preemptible), amounts in wanted.items():
        taken = _taken(queues[name], _below(name, queues), against, preemptible_too=is_preemptible)
        if missing := _missing(queues[name], amounts, taken, is_preemptible, over_quota):
            return missing
    return ""


def _missing(
    queue: Queue, amounts: Amounts, taken: Amounts, is_preemptible: bool, over_quota: OverQuota
) -> str:
    for resource, amount in amounts.items():
        bound, bound_name = _bound(queue, resource, is_preemptible, over_quota)
        if bound is None or not amount:
            continue
        used = taken.get(resource, Fraction(0))
        if used + amount > bound:
            kind = "" if is_preemptible else " by non-preemptible work"
            free = _amount(max(Fraction(0), bound - used))
            return (
                f"queue {queue.metadata.name} has room for {free} of {_amount(amount)} {_UNITS[resource]} "
                f"({bound_name} {_amount(bound)}, {_amount(used)} taken{kind})"
            )
    return ""


def _bound(
    queue: Queue, resource: str, is_preemptible: bool, over_quota: OverQuota
) -> tuple[Fraction | None, str]:
    """How much may be taken, and the name of that bound. None: no bound."""
    share = getattr(queue.spec.resources, resource)
    assert isinstance(share, Share)
    scale = _SCALE[resource]
    quota = None if share.quota < 0 else Fraction(str(share.quota)) * scale
    # To KAI a limit of 0, or none, lets nothing run, whatever the quota is
    # (pkg/scheduler/plugins/proportion/capacity_policy/max_allowed_check.go).
    limit = None if share.limit < 0 else Fraction(str(share.limit)) * scale
    if is_preemptible and over_quota is OverQuota.ALLOW:
        return limit, "limit"
    if quota is None or (limit is not None and limit < quota):
        return limit, "limit"
    return quota, "quota"


def _taken(queue: Queue, below: set[str], usage: Iterable[QueueUsage], *, preemptible_too: bool) -> Amounts:
    """KAI's own figure or what the bound pods show, whichever is more (KAI's lags behind its bindings), and
    what is released or being provisioned.
    """
    status = queue.status
    reported = status.allocated if preemptible_too else status.allocated_non_preemptible
    allocated = {
        resource: parse_quantity(str(reported.get(name, 0))) for resource, name in _KUBERNETES.items()
    }
    bound: dict[str, Fraction] = {}
    coming: dict[str, Fraction] = {}
    for each in usage:
        if each.demand.queue in below and (preemptible_too or not each.demand.is_preemptible):
            _add(bound if each.is_bound else coming, each.demand.amounts)
    zero = Fraction(0)
    return {
        name: max(amount, bound.get(name, zero)) + coming.get(name, zero)
        for name, amount in allocated.items()
    }


def _path(name: str, queues: Mapping[str, Queue]) -> list[str] | str:
    """The leaf and every queue above it, or why there is none."""
    if not name:
        return "names no queue; set the label kai.scheduler/queue of its Ray object"
    if any(queue.spec.parent_queue == name for queue in queues.values()):
        return f"queue {name} has queues below it; name one of those: KAI starts work in leaf queues only"
    path: list[str] = []
    while name:
        if name not in queues:
            above = f", which {path[-1]} names as its parent," if path else ""
            return f"queue {name}{above} does not exist"
        if name in path:
            return f"queue {name} is its own ancestor"
        path.append(name)
        name = queues[name].spec.parent_queue
    return path


def _below(name: str, queues: Mapping[str, Queue]) -> set[str]:
    """The queue and every queue under it."""
    children: dict[str, list[str]] = {}
    for queue in queues.values():
        children.setdefault(queue.spec.parent_queue, []).append(queue.metadata.name)
    found: set[str] = set()
    todo = [name]
    while todo:
        here = todo.pop()
        if here not in found:
            found.add(here)
            todo += children.get(here, ())
    return found


def _add(total: dict[str, Fraction], more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, Fraction(0)) + amount


def _amount(amount: Fraction) -> str:
    """`3`, `0.5`, `40000000000`: never more than three decimals, and never more room than there is."""
    return f"{floor(amount * 1000) / 1000:.3f}".rstrip("0").rstrip(".")


def demands_by_queue(found: Iterable[QueueDemand]) -> Iterator[QueueDemand]:
    """Needs of one queue and kind added together."""
    total: dict[tuple[str, bool], dict[str, Fraction]] = {}
    for demand in found:
        _add(total.setdefault((demand.queue, demand.is_preemptible), {}), demand.amounts)
    for (queue, is_preemptible), amounts in total.items():
        yield QueueDemand(queue=queue, amounts=amounts, is_preemptible=is_preemptible)
