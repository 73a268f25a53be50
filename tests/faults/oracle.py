"""What must hold in every state that the store ever had.

Judged from API objects alone, and written against what the objects mean, not against the program: nothing of
the controller is called here. What must hold at the end is in ending.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from model import names
from tests.faults import history
from tests.faults.gangs import entry, holds
from tests.faults.history import Change
from tests.faults.plane import Plane

Json = dict[str, Any]

_CHECK: Final = f"{names.GROUP}/check"
_ATTEMPT: Final = f"{names.GROUP}/attempt"
_POOL: Final = f"{names.GROUP}/requested-pool"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a live request is one of: there may be no second of the same."""

    owner: str
    check: str
    attempt: str
    pool: str
    counts: tuple[int, ...]
    parameters: tuple[tuple[str, str], ...]


def shape(request: Json) -> Shape:
    meta, spec = request["metadata"], request["spec"]
    labels = meta.get("labels") or {}
    return Shape(
        owner=owner(request),
        check=labels.get(_CHECK, ""),
        attempt=labels.get(_ATTEMPT, ""),
        pool=(meta.get("annotations") or {}).get(_POOL, ""),
        counts=tuple(each["count"] for each in spec["podSets"]),
        parameters=tuple(sorted((spec.get("parameters") or {}).items())),
    )


def owner(item: Json) -> str:
    """The uid of the Workload that it was made for."""
    return str((item["metadata"].get("labels") or {}).get(names.WORKLOAD_UID_LABEL, ""))


def check(plane: Plane, *, since: int) -> None:
    """Every state from `since` until now."""
    etcd = plane.server.etcd
    judge(history.changes(etcd, since=since, until=history.revision(etcd)), since=since)


def judge(changes: Iterable[Change], *, since: int) -> None:
    """After each change: at most one live request for each shape of an attempt, and Ready only with the whole
    gang's verified capacity.
    """
    held = _Held()
    for change in changes:
        held.take(change)
        if change.revision == since:
            continue
        if change.kind == "ProvisioningRequest":
            _asked_once(held, change)
        if change.kind == "Workload" and _became_ready(change):
            _stands_whole(held, change)


@dataclass(slots=True)
class _Held:
    """The store at one revision."""

    objects: dict[str, dict[str, Json]] = field(default_factory=lambda: {kind: {} for kind in history.KINDS})

    def take(self, change: Change) -> None:
        if change.after is None:
            self.objects[change.kind].pop(change.name, None)
        else:
            self.objects[change.kind][change.name] = change.after

    def of(self, kind: str) -> Iterable[Json]:
        return self.objects[kind].values()


def _asked_once(held: _Held, change: Change) -> None:
    live = (each for each in held.of("ProvisioningRequest") if "deletionTimestamp" not in each["metadata"])
    twice = [shape for shape, count in Counter(map(shape, live)).items() if count > 1]
    assert not twice, f"at revision {change.revision} more than one live request for {twice}"


def _became_ready(change: Change) -> bool:
    return entry(change.after).get("state") == "Ready" != entry(change.before).get("state")


def _stands_whole(held: _Held, change: Change) -> None:
    """For every PodSet that asks for GPUs: a provisioned request of this Workload, and Ready nodes of its
    lease.
    """
    workload = change.after or {}
    where = f"at revision {change.revision} {workload['metadata']['name']} is Ready"
    for pod_set in workload["spec"]["podSets"]:
        pool, count = _pool(pod_set), pod_set["count"]
        if pool is None:
            continue
        requests = held.of("ProvisioningRequest")
        leases = {_lease(each) for each in requests if _is_for(each, workload, pool, count)}
        assert leases, f"{where} without a provisioned request for {count} {pool}"
        ready = sum(_is_ready(node) and _leased(node) in leases for node in held.of("Node"))
        assert ready >= count, f"{where} with {ready} of {count} {pool} nodes of {leases}"


def _pool(pod_set: Json) -> str | None:
    """Where it needs GPUs; None when it needs none."""
    spec = pod_set["template"]["spec"]
    asked = ((each.get("resources") or {}).get("requests") or {} for each in spec["containers"])
    return (
        str(spec["nodeSelector"][names.POOL_LABEL])
        if any(names.GPU_RESOURCE in one for one in asked)
        else None
    )


def _is_for(request: Json, workload: Json, pool: str, count: int) -> bool:
    found = shape(request)
    wanted = (workload["metadata"]["uid"], names.ADMISSION_CHECK, pool, count)
    fits = (found.owner, found.check, found.pool, sum(found.counts)) == wanted
    return fits and holds(request, "Provisioned") and not holds(request, "Failed")


def _lease(request: Json) -> str | None:
    details = (request.get("status") or {}).get("provisioningClassDetails") or {}
    return details.get(names.GKE_LEASE_DETAIL)


def _leased(node: Json) -> str | None:
    return (node["metadata"].get("labels") or {}).get(names.GKE_LEASE_LABEL)


def _is_ready(node: Json) -> bool:
    return holds(node, "Ready") and not node["spec"].get("unschedulable")
