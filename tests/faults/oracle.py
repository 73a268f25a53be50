"""What must hold, whatever has happened: in every state that the store ever had, and at the end.

Judged from API objects alone, and written against what the objects mean, not against the program: nothing of
the controller is called here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from model import names
from tests.faults import gangs, history
from tests.faults.gangs import entry, holds
from tests.faults.history import Change
from tests.faults.plane import Plane, items

Json = dict[str, Any]

_CHECK: Final = f"{names.GROUP}/check"
_ATTEMPT: Final = f"{names.GROUP}/attempt"
_POOL: Final = f"{names.GROUP}/requested-pool"


@dataclass(slots=True)
class _Held:
    """The store at one revision."""

    objects: dict[str, dict[str, Json]] = field(
        default_factory=lambda: {"Workload": {}, "ProvisioningRequest": {}, "PodTemplate": {}, "Node": {}}
    )

    def take(self, change: Change) -> None:
        if change.after is None:
            self.objects[change.kind].pop(change.name, None)
        else:
            self.objects[change.kind][change.name] = change.after

    def of(self, kind: str) -> Iterable[Json]:
        return self.objects[kind].values()


def check(plane: Plane, *, since: int) -> None:
    """Every state from `since` until now: at most one live request for each shape of an attempt, and Ready
    only with the whole gang's verified capacity.
    """
    etcd = plane.server.etcd
    held = _Held()
    for change in history.changes(etcd, since=since, until=history.revision(etcd)):
        held.take(change)
        if change.revision == since:
            continue
        if change.kind == "ProvisioningRequest":
            _asked_once(held, change)
        if change.kind == "Workload" and _became_ready(change):
            _stands_whole(held, change)


def _asked_once(held: _Held, change: Change) -> None:
    live = (each for each in held.of("ProvisioningRequest") if "deletionTimestamp" not in each["metadata"])
    twice = [shape for shape, count in Counter(map(_shape, live)).items() if count > 1]
    assert not twice, f"at revision {change.revision} more than one live request for {twice}"


def _shape(request: Json) -> tuple[str, ...]:
    """Workload, check, attempt and what is asked for: pool, counts, parameters."""
    meta, spec = request["metadata"], request["spec"]
    labels = meta.get("labels") or {}
    owner = tuple(labels.get(name, "") for name in (names.WORKLOAD_UID_LABEL, _CHECK, _ATTEMPT))
    counts = tuple(str(each["count"]) for each in spec["podSets"])
    return (*owner, (meta.get("annotations") or {}).get(_POOL, ""), *counts, str(spec.get("parameters")))


def _became_ready(change: Change) -> bool:
    return entry(change.after).get("state") == "Ready" and entry(change.before).get("state") != "Ready"


def _stands_whole(held: _Held, change: Change) -> None:
    """For every PodSet that asks for GPUs: a provisioned request of this Workload, and Ready nodes of its lease."""
    workload = change.after or {}
    where = f"at revision {change.revision} {workload['metadata']['name']} is Ready"
    for pod_set in workload["spec"]["podSets"]:
        pool = _pool(pod_set)
        if pool is None:
            continue
        found = [each for each in held.of("ProvisioningRequest") if _is_for(each, workload, pool, pod_set["count"])]
        assert found, f"{where} without a provisioned request for {pod_set['count']} {pool}"
        leases = {((each.get("status") or {}).get("provisioningClassDetails") or {}).get(names.GKE_LEASE_DETAIL) for each in found}
        ready = [each for each in held.of("Node") if _is_ready(each) and _lease(each) in leases]
        assert len(ready) >= pod_set["count"], (
            f"{where} with {len(ready)} of {pod_set['count']} {pool} nodes of {leases}"
        )


def _pool(pod_set: Json) -> str | None:
    spec = pod_set["template"]["spec"]
    asks = any(names.GPU_RESOURCE in (each.get("resources", {}).get("requests") or {}) for each in spec["containers"])
    return str(spec["nodeSelector"][names.POOL_LABEL]) if asks else None


def _is_for(request: Json, workload: Json, pool: str, count: int) -> bool:
    uid, wanted, _, asked, *counts, _ = _shape(request)
    fits = uid == workload["metadata"]["uid"] and wanted == names.ADMISSION_CHECK and asked == pool
    return fits and sum(map(int, counts)) == count and holds(request, "Provisioned") and not holds(request, "Failed")


def _is_ready(node: Json) -> bool:
    return holds(node, "Ready") and not node["spec"].get("unschedulable")


def _lease(node: Json) -> str | None:
    return (node["metadata"].get("labels") or {}).get(names.GKE_LEASE_LABEL)


# At the end


def picture(plane: Plane, name: str, team: str = gangs.TEAM) -> Json:
    """What is left of a gang's story, without names and times that differ from one to the next."""
    workload = gangs.read(plane, name, team) or {}
    uid = (workload.get("metadata") or {}).get("uid", "")
    notes = (workload.get("metadata") or {}).get("annotations") or {}
    said = entry(workload)
    return {
        # Requeued is Kueue's memory of an eviction.
        "conditions": sorted(
            each["type"]
            for each in (workload.get("status") or {}).get("conditions") or ()
            if each["status"] == "True" and each["type"] != "Requeued"
        ),
        "active": (workload.get("spec") or {}).get("active"),
        "annotations": sorted(name for name in notes if name.startswith(names.GROUP)),
        "state": said.get("state"),
        "message": said.get("message"),
        "updates": sorted(
            (each["name"], sorted(each.get("annotations") or ()), sorted(each.get("nodeSelector") or ()))
            for each in said.get("podSetUpdates") or ()
        ),
        "requests": sorted(
            (*_shape(each)[3:], holds(each, "Provisioned")) for each in gangs.requests(plane, team) if _owner(each) == uid
        ),
        "templates": sum(_owner(each) == uid for each in gangs.templates(plane, team)),
    }


def leftovers(plane: Plane) -> list[str]:
    """Requests, templates and nodes that nobody owns, and reservations that nobody bounds."""
    found = []
    workloads = {each["metadata"]["uid"]: each for each in items(plane.server, f"{gangs.KUEUE}/workloads")}
    live = set()
    for kind, path in (("requests", f"{gangs.PROVISIONING}/provisioningrequests"), ("templates", "/api/v1/podtemplates")):
        for each in items(plane.server, path):
            live.add(each["metadata"]["name"])
            if _owner(each) not in workloads:
                found.append(f"{kind} {each['metadata']['name']} of {_owner(each)}")
    for workload in workloads.values():
        if holds(workload, "QuotaReserved") and not _is_bounded(workload):
            found.append(f"quota of {workload['metadata']['name']}: {entry(workload)}")
    return found


def _owner(item: Json) -> str:
    return str((item["metadata"].get("labels") or {}).get(names.WORKLOAD_UID_LABEL, ""))


def _is_bounded(workload: Json) -> bool:
    """A reservation ends by itself: the gang runs, or its check says when it gives up."""
    said = entry(workload)
    return holds(workload, "Admitted") or said.get("state") != "Pending" or "releases at" in said.get("message", "")
