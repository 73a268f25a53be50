"""Pods that were deleted and still hold their nodes: why a gang with quota may find no room.

Kueue gives quota back when a job is deleted, and the kubelet gives a node back when its pods have ended.
Names those pods in what a waiting gang reports. Decides nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from muster.controller.gangs.objects import Node, Pod
from muster.controller.gangs.split import Gang
from muster.model.names import POOL_LABEL
from muster.model.waiting import clock

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
