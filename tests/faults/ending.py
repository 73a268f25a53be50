"""What must hold when the faults are over: how a gang's story ends, and that nothing is left over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from model import names
from tests.faults import gangs
from tests.faults.gangs import entry, holds
from tests.faults.oracle import owner, shape
from tests.faults.plane import KUEUE, PROVISIONING, Plane, items

Json = dict[str, Any]


def picture(plane: Plane, name: str, team: str = gangs.TEAM) -> Json:
    """What is left of a gang's story, without names and times that differ from one to the next."""
    workload = gangs.read(plane, name, team) or {"metadata": {}}
    uid, notes = workload["metadata"].get("uid"), workload["metadata"].get("annotations") or {}
    asked = [each for each in gangs.requests(plane, team) if owner(each) == uid]
    shapes = ((shape(each), holds(each, "Provisioned")) for each in asked)
    said = entry(workload)
    return {
        "conditions": sorted(_conditions(workload)),
        "active": (workload.get("spec") or {}).get("active"),
        "annotations": sorted(note for note in notes if note.startswith(names.GROUP)),
        "state": said.get("state"),
        "message": said.get("message"),
        "updates": sorted(_update(each) for each in said.get("podSetUpdates") or ()),
        "requests": sorted((each.pool, each.counts, each.parameters, done) for each, done in shapes),
        "templates": sum(owner(each) == uid for each in gangs.templates(plane, team)),
    }


def _conditions(workload: Json) -> Iterator[str]:
    """Those that hold, but for Kueue's own memory of an eviction."""
    for each in (workload.get("status") or {}).get("conditions") or ():
        if each["status"] == "True" and each["type"] != "Requeued":
            yield each["type"]


def _update(update: Json) -> tuple[str, list[str], list[str]]:
    return update["name"], sorted(update.get("annotations") or ()), sorted(update.get("nodeSelector") or ())


def leftovers(plane: Plane) -> list[str]:
    """Requests and templates that nobody owns, and reservations of quota that nobody ends."""
    workloads = {each["metadata"]["uid"]: each for each in items(plane.server, f"{KUEUE}/workloads")}
    made = items(plane.server, f"{PROVISIONING}/provisioningrequests")
    made += items(plane.server, "/api/v1/podtemplates")
    orphans = [f"{each['metadata']['name']} of nobody" for each in made if owner(each) not in workloads]
    held = (each for each in workloads.values() if holds(each, "QuotaReserved") and not _is_bounded(each))
    return [*orphans, *(f"the quota of {each['metadata']['name']}: {entry(each)}" for each in held)]


def _is_bounded(workload: Json) -> bool:
    """A reservation ends by itself: the gang runs, or its check says when it gives up."""
    said = entry(workload)
    is_pending = said.get("state") == "Pending" and "releases at" not in said.get("message", "")
    return holds(workload, "Admitted") or not is_pending
