"""What a user reads while a gang waits.

Each text follows from the gang's state alone, so it changes only when that does: a gang that waits costs no
writes, and no text is ever read back.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from muster.controller.gangs.deadlines import Deadline
from muster.controller.gangs.objects import Node, Pod
from muster.controller.gangs.retry import RetryHistory
from muster.controller.gangs.split import Gang, RequestSpec
from muster.controller.gangs.verify import Placement
from muster.model import waiting
from muster.model.names import POOL_LABEL
from muster.model.quantities import format_duration, many
from muster.model.waiting import clock

_FAR: Final = timedelta(hours=12)


def format_wait(status: str, limit: Deadline) -> str:
    """`2 of 4 l4 nodes (limit 30m); releases at 10:42 UTC`: follows from what is known, not from the time."""
    length = format_duration(limit.limit)
    return f"{status} (limit {length}); releases at {clock(limit.at, far=limit.limit >= _FAR)}"


def format_nodes(placements: Sequence[Placement]) -> str:
    """The first pool that is short, and how many are."""
    short = [room for room in placements if not room.is_complete]
    first, demand = short[0], short[0].demand
    more = f", {many(len(short) - 1, 'more PodSet')} short" if len(short) > 1 else ""
    there = format_capacity(demand.count, demand.pool, shares_nodes=demand.shares_nodes, there=first.placed)
    return f"{there} for {demand.name}{more}"


def format_missing(placements: Sequence[Placement]) -> str:
    """What a running gang has lost."""
    return f"lacks {_format_each_missing(placements)}"


def format_silent(placements: Sequence[Placement]) -> str:
    """Nodes of a running gang that may be lost."""
    return f"no report from {_format_each_missing(placements)}"


def _format_each_missing(placements: Sequence[Placement]) -> str:
    return ", ".join(
        f"{_format_missing_one(placement)} for {placement.demand.name}" for placement in placements
    )


def _format_missing_one(placement: Placement) -> str:
    count, demand = placement.demand.count - placement.placed, placement.demand
    return format_capacity(count, demand.pool, shares_nodes=demand.shares_nodes)


def format_capacity(count: int, pool: str, *, shares_nodes: bool, there: int | None = None) -> str:
    """`4 l4 nodes`, where each pod has a node of its own; `2 of 4 l4 nodes`, where two are there."""
    noun = "pod" if shares_nodes else f"{pool} node"
    amount = many(count, noun) if there is None else f"{there} of {count} {noun}s"
    return f"room for {amount} on {pool}" if shares_nodes else amount


def format_turn(pool: str) -> str:
    """Names no other gang: who is first changes with every gang that passes, and each change is a write."""
    return f"waits for its turn at pool {pool}"


def format_request(spec: RequestSpec) -> str:
    return format_capacity(spec.count, spec.pool, shares_nodes=spec.shares_nodes)


def format_provisioned(gang: Gang) -> str:
    """What has come, all of it."""
    count = sum(spec.count for spec in gang.request_specs)
    every = "" if count == 1 else "all "
    if gang.shares_nodes:
        return f"room for {every}{many(count, 'pod')} is provisioned"
    return f"{every}{many(count, 'node is', 'nodes are')} provisioned"


def format_backoff(
    history: RetryHistory, *, did: str = "released everything", kept: str = "holds no quota"
) -> str:
    """Of a gang that waits for its next try. The text is the model's, so that the preview shows the same."""
    return waiting.outside(
        last_failure=history.last_failure,
        tries=history.tries,
        retry_at=history.retry_at,
        did=did,
        kept=kept,
    )


def format_release(history: RetryHistory) -> str:
    """The text of the Event when a gang is released."""
    when = f" at {clock(history.retry_at)}" if history.retry_at else ""
    why = history.last_failure.rstrip(".")
    return f"{why}. Everything is released and no quota is held; try {history.tries + 1}{when}"


# Pods that were deleted and still hold their nodes: why a gang with quota may find no room.
#
# Kueue gives quota back when a job is deleted, and the kubelet gives a node back when its pods have ended.
# Names those pods in what a waiting gang reports. Decides nothing.


_NEVER: Final = datetime.min.replace(tzinfo=UTC)
_LATE: Final = timedelta(minutes=1)
"""How long after its grace period a pod may take to go."""
_FIRST_RECHECK: Final = timedelta(seconds=10)
"""After it got quota. The pods of a deleted job are deleted a moment after its quota is given back."""


def in_the_way(gang: Gang, pods: Iterable[tuple[Pod, Node | None]]) -> Iterator[Pod]:
    """Those on nodes of its pools that hold what its own pods need: a GPU where they need GPUs."""
    needs: dict[str, set[str]] = {}
    for spec in gang.request_specs:
        for demand in spec.demands:
            needs.setdefault(spec.pool, set()).update(
                name for name, amount in demand.needs.amounts.items() if "/" in name and amount
            )
    for pod, node in pods:
        pool = node.metadata.labels.get(POOL_LABEL, "") if node else ""
        wanted = needs.get(pool)
        if wanted is not None and (not wanted or _holds(pod, wanted)):
            yield pod


def _holds(pod: Pod, wanted: set[str]) -> bool:
    needs = (each.resources for each in (*pod.spec.containers, *pod.spec.init_containers))
    return any(wanted & (each.requests.keys() | each.limits.keys()) for each in needs)


def format_ending(pods: Sequence[Pod]) -> str:
    """`pods of team-b/train are still ending, due 10:42 UTC`: of several jobs, the one that ends last. Not
    how many: each pod that ends would be a write.
    """
    due, name = max((_due(pod) or _NEVER, _work_of(pod)) for pod in pods)
    others = " and others" if len({_work_of(pod) for pod in pods}) > 1 else ""
    return f"pods of {name}{others} are still ending, due {clock(due)}"


def is_due(pod: Pod, *, now: datetime) -> bool:
    """Whether it is ending and may end in time: one on a node that is lost does not."""
    due = _due(pod)
    return due is not None and now < due + _LATE


def recheck_at(pods: Sequence[Pod], *, since: datetime, now: datetime) -> datetime | None:
    """When the next of them should have ended, or one may have appeared. `since`: when the gang got quota."""
    moments = (since + _FIRST_RECHECK, *(due + timedelta(seconds=1) for due in map(_due, pods) if due))
    return min((moment for moment in moments if moment > now), default=None)


def _due(pod: Pod) -> datetime | None:
    """Kubernetes writes the end of the grace period as the time of deletion."""
    return pod.metadata.deletion_timestamp


def _work_of(pod: Pod) -> str:
    owner = next((each.name for each in pod.metadata.owner_references if each.controller), pod.metadata.name)
    return f"{pod.metadata.namespace}/{owner}"
