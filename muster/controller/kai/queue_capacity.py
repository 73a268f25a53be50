"""The room of one queue: its quota or limit, what KAI says it holds, and what is taken of it.

`status.requested` plays no part: it counts our own gated pods. Preemptible work may take its queue's quota,
and what lies between quota and limit only where the policy allows; other work may take quota that
non-preemptible work has left. Units here: GPUs, cores, bytes.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Literal

from muster.controller.kai.objects import Queue, Share
from muster.model.gangpolicy import OverQuota
from muster.model.names import GPU_RESOURCE
from muster.model.pods import Amounts, add
from muster.model.quantities import parse_quantity

Turn = tuple[datetime, str]
"""When a gang first requested capacity, and its attempt: a total order of gangs being provisioned."""

QueueOrder = tuple[int, datetime, str]
"""The order of gangs in KAI's queues: the highest priority first, then the oldest."""

_SCALE: Mapping[str, Fraction] = {"gpu": Fraction(1), "cpu": Fraction(1, 1000), "memory": Fraction(10**6)}
"""One of KAI's units in ours."""
_KUBERNETES: Mapping[str, str] = {"gpu": GPU_RESOURCE, "cpu": "cpu", "memory": "memory"}
_UNITS: Mapping[str, str] = {"gpu": "GPU", "cpu": "CPU", "memory": "byte"}


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
    `priority`: of one that gives way to a gang of a higher priority that waits for room in its queue.
    """

    demand: QueueDemand
    is_bound: bool = False
    turn: Turn | None = None
    priority: int | None = None

    def counts_against(self, turn: Turn | None) -> bool:
        return self.turn is None or turn is None or self.turn < turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """Why there is no room. `demand`: what one queue lacks room for; None where no such queue takes work.
    `demands`: all that the gang takes. `order`: its place among those that wait; None for one that no
    other gives way to.
    """

    message: str
    demand: QueueDemand | None = None
    demands: tuple[QueueDemand, ...] = ()
    order: QueueOrder | None = None
    over_quota: OverQuota = OverQuota.DENY


def short_resource(
    queue: Queue,
    demand: QueueDemand,
    *,
    bound: Amounts,
    coming: Amounts,
    given: Amounts,
    over_quota: OverQuota,
) -> str:
    """Why the queue has no room for this; empty when it has. Names no figure that others move: each change
    would be a write of every gang that waits.

    `bound`, `coming`: what pods with a node take, and what is released or being provisioned. Of KAI's own
    figure and the bound pods the larger one counts, because KAI's lags behind its bindings. `given`: what of
    it KAI takes from others first.
    """
    reported = queue.status.allocated if demand.is_preemptible else queue.status.allocated_non_preemptible
    zero = Fraction(0)
    for resource, amount in demand.amounts.items():
        limit, limit_name = _bound(queue, resource, demand.is_preemptible, over_quota)
        if limit is None or not amount:
            continue
        allocated = parse_quantity(str(reported.get(_KUBERNETES[resource], 0)))
        held = max(allocated, bound.get(resource, zero)) - given.get(resource, zero)
        used = held + coming.get(resource, zero)
        if used + amount > limit:
            kind = "" if demand.is_preemptible else " of non-preemptible work"
            unit = _UNITS[resource] + ("" if amount == 1 else "s")
            return (
                f"queue {queue.metadata.name} has no room for {_amount(amount)} {unit}{kind} "
                f"({limit_name} {_amount(limit)})"
            )
    return ""


def exceeds(queue: Queue, held: Amounts, *, bound: Literal["quota", "limit"]) -> bool:
    """Whether this is more than the queue's quota, or its limit, of any resource."""
    for resource, scale in _SCALE.items():
        figure: float = getattr(getattr(queue.spec.resources, resource), bound)
        if figure >= 0 and held.get(resource, Fraction(0)) > Fraction(str(figure)) * scale:
            return True
    return False


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


def _amount(amount: Fraction) -> str:
    """`3`, `0.5`, `40000000000`: never more than three decimals."""
    return f"{float(amount):.3f}".rstrip("0").rstrip(".")


def demands_by_queue(found: Iterable[QueueDemand]) -> Iterator[QueueDemand]:
    """Needs of one queue and kind added together."""
    total: dict[tuple[str, bool], dict[str, Fraction]] = {}
    for demand in found:
        add(total.setdefault((demand.queue, demand.is_preemptible), {}), demand.amounts)
    for (queue, is_preemptible), amounts in total.items():
        yield QueueDemand(queue=queue, amounts=amounts, is_preemptible=is_preemptible)
