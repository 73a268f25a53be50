"""What must hold in every state that the store ever had.

Judged from API objects alone, and written against what the objects mean, not against the program: nothing of
the controller is called here, and no label of it tells which attempt a request belongs to (ledger.py). What
must hold at the end is in ending.py.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from muster.model import names
from tests.faults import history, reservation
from tests.faults.gangs import entry, holds
from tests.faults.history import Change
from tests.faults.ledger import Epoch, Ledger, owner
from tests.faults.plane import Plane

__all__ = ["Shape", "check", "has_said", "judge", "owner", "shape"]

Json = dict[str, Any]

_CHECK: Final = f"{names.GROUP}/check"
_POOL: Final = f"{names.GROUP}/requested-pool"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a live request is one of: there may be no second of the same in one reservation."""

    owner: str
    check: str
    pool: str
    counts: tuple[int, ...]
    parameters: tuple[tuple[str, str], ...]


def shape(request: Json) -> Shape:
    meta, spec = request["metadata"], request["spec"]
    return Shape(
        owner=owner(request),
        check=(meta.get("labels") or {}).get(_CHECK, ""),
        pool=(meta.get("annotations") or {}).get(_POOL, ""),
        counts=tuple(each["count"] for each in spec["podSets"]),
        parameters=tuple(sorted((spec.get("parameters") or {}).items())),
    )


def check(plane: Plane, *, since: int) -> None:
    """Every state from `since` until now."""
    judge(_changes(plane, since), since=since)


def has_said(plane: Plane, workload: Json, *, since: int) -> bool:
    """Its check has said something in its present reservation: Kueue leaves what a check that was pending had
    said before an eviction.
    """
    ledger, uid = Ledger(), workload["metadata"]["uid"]
    for change in _changes(plane, since):
        ledger.take(change)
    return uid in ledger.began and ledger.said.get(uid, 0) > ledger.began[uid]


def _changes(plane: Plane, since: int) -> Iterable[Change]:
    etcd = plane.server.etcd
    return history.changes(etcd, since=since, until=history.revision(etcd))


def judge(changes: Iterable[Change], *, since: int) -> None:
    """After each change: at most one live request for each shape of a reservation; Ready only with the whole
    gang's verified capacity, bought in this reservation; whatever a check says of a gang that gathers says
    until when; and what nobody has a right to is gone before a gang that came later stands.
    """
    ledger = Ledger()
    for change in changes:
        ledger.take(change)
        if change.revision == since:
            continue
        if change.kind == "ProvisioningRequest":
            _asked_once(ledger, change)
        if change.kind == "Workload":
            _says_its_end(change)
            if _became_ready(change):
                _stands_whole(ledger, change)
                _is_tidy(ledger, change)


def _asked_once(ledger: Ledger, change: Change) -> None:
    live = ledger.live("ProvisioningRequest")
    found = Counter[tuple[Epoch | None, Shape]]((ledger.epoch_of(name), shape(each)) for name, each in live)
    twice = [each for each, count in found.items() if count > 1]
    assert not twice, f"at revision {change.revision} more than one live request for {twice}"


def _says_its_end(change: Change) -> None:
    """Of a gang that has had its quota for longer than this write."""
    before, after = change.before or {}, change.after or {}
    if not (reservation.gathers(change.before) and reservation.gathers(change.after)):
        return
    old, new = entry(before), entry(after)
    told = [(said.get("state", "Pending"), said.get("message", "")) for said in (old, new)]
    if told[0] == told[1] or told[1][0] != "Pending":
        return
    where = f"at revision {change.revision} {after['metadata']['name']}"
    assert reservation.says_its_end(after), f"{where} holds quota and does not say until when: {told[1][1]}"


def _became_ready(change: Change) -> bool:
    return entry(change.after).get("state") == "Ready" != entry(change.before).get("state")


def _stands_whole(ledger: Ledger, change: Change) -> None:
    """For every PodSet that asks for GPUs: a provisioned request of this reservation, and Ready nodes of its
    lease.
    """
    workload = change.after or {}
    where = f"at revision {change.revision} {workload['metadata']['name']} is Ready"
    for pod_set in workload["spec"]["podSets"]:
        pool, count = _pool(pod_set), pod_set["count"]
        if pool is None:
            continue
        requests = ledger.objects["ProvisioningRequest"].items()
        own = (each for name, each in requests if ledger.is_current(name, workload))
        leases = {_lease(each) for each in own if _is_for(each, workload, pool, count)} - {None}
        assert leases, f"{where} without a provisioned request of this reservation for {count} {pool}"
        ready = sum(_is_ready(node) and _leased(node) in leases for node in ledger.of("Node"))
        assert ready >= count, f"{where} with {ready} of {count} {pool} nodes of {leases}"


def _is_tidy(ledger: Ledger, change: Change) -> None:
    """The time that a manager has to give something back is another gang's whole story, or the next one of
    the same: who brings a gang from its quota to its nodes was able to delete.
    """
    workload = change.after or {}
    began = ledger.began.get(workload["metadata"]["uid"], 0)
    late = [f"{name} since {due}" for name, due in ledger.due.items() if due < began]
    where = f"at revision {change.revision} {workload['metadata']['name']} is Ready, with quota since {began}"
    assert not late, f"{where}, and nobody has a right to {late}"


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
