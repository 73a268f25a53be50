"""What must hold when the faults are over: how a gang's story ends, and that nothing is left over, neither
then nor while other gangs wait.
"""

from collections.abc import Iterator
from typing import Any, Final

from muster.controller.gangs.retry import FIRST_TRY
from muster.model import names
from tests.faults import gangs, reservation
from tests.faults.gangs import entry, holds
from tests.faults.ledger import owner
from tests.faults.oracle import shape
from tests.faults.plane import KUEUE, PROVISIONING, Plane, items

Json = dict[str, Any]
_TRIED: Final = (names.TRIES_ANNOTATION, FIRST_TRY, names.LAST_FAILURE_ANNOTATION)


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
        "annotations": sorted(_notes(notes, is_running=holds(workload, "Admitted"))),
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


def _notes(notes: Json, *, is_running: bool) -> Iterator[str]:
    """Ours. A gang that runs keeps its failed tries in mind until it has run for long."""
    for note in notes:
        if note.startswith(names.GROUP) and not (is_running and note in _TRIED):
            yield note


def _update(update: Json) -> tuple[str, list[str], list[str]]:
    return update["name"], sorted(update.get("annotations") or ()), sorted(update.get("nodeSelector") or ())


def leftovers(plane: Plane) -> list[str]:
    """Requests and templates that nobody has a right to, and reservations of quota that nobody ends."""
    workloads = {each["metadata"]["uid"]: each for each in items(plane.server, f"{KUEUE}/workloads")}
    made = items(plane.server, f"{PROVISIONING}/provisioningrequests")
    made += items(plane.server, "/api/v1/podtemplates")
    stray = (each for each in made if not reservation.may_hold(workloads.get(owner(each))))
    held = (each for each in workloads.values() if reservation.is_unbounded(each))
    return [
        *(f"{each['metadata']['name']} of {_whose(workloads, each)}" for each in stray),
        *(f"the quota of {each['metadata']['name']}: {entry(each)}" for each in held),
    ]


def _whose(workloads: Json, item: Json) -> str:
    workload = workloads.get(owner(item))
    return f"{workload['metadata']['name']}, which may hold nothing" if workload else "nobody"
