"""Objects that are huge, malformed or hostile cost themselves, and nobody else anything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from model import names
from tests.faults import gangs
from tests.faults.breaks import Break, Call, Fault
from tests.faults.plane import MERGE, PROVISIONING
from tests.faults.stage import Stage

_NOW: Final = "2026-11-21T10:00:00Z"
_HUGE: Final = "x" * 200_000
_NOTES: Final = {
    "muster.dev/tries": "9" * 5000,
    "muster.dev/first-try": "9999-12-31T23:59:59Z",
    "muster.dev/retry-at": "-1",
    "muster.dev/last-failure": "\u202e%s{0}\n" * 100,
    "muster.dev/fill": _HUGE,
}


def test_poisoned_workloads_hold_up_nobody(stage: Stage) -> None:
    with stage.manager().kept() as manager:
        with _poisoned(stage) as poison:
            gang = stage.submit()
            stage.runs(gang)
            assert all(gangs.read(stage.plane, each) for each in poison), "they are still there"
        stage.end(gang)
        stage.judge()
    assert manager.exits == []


@contextmanager
def _poisoned(stage: Stage) -> Iterator[list[str]]:
    """Workloads whose status somebody has forged, and requests and nodes that belong to nobody."""
    forged = {
        "poison-count": _status({"main": ("l4", 2**31 - 1)}),
        "poison-flavor": _status({"main": ("no-such-flavor", 1)}),
        "poison-pieces": _status({"ghost": ("l4", 1)}),
        "poison-notes": _status({"main": ("h100", 1)}),
    }
    for name, status in forged.items():
        count = 2**31 - 1 if name == "poison-count" else 1
        gangs.submit(stage.plane, name, pieces={"main": ("l4", count)}, queue="no-such-queue")
        gangs.patch(
            stage.plane, name, {"metadata": {"annotations": _NOTES if name == "poison-notes" else {}}}
        )
        stage.plane.server.call("PATCH", f"{gangs.path(name)}/status", {"status": status}, content_type=MERGE)
    space = f"{PROVISIONING}/namespaces/{gangs.TEAM}/provisioningrequests"
    stage.plane.server.call("POST", space, _stray(forged))
    node = {
        "metadata": {"name": "poison", "labels": {names.POOL_LABEL: "l4"}},
        "status": {"allocatable": {names.GPU_RESOURCE: "1e18"}},
    }
    stage.plane.server.call("POST", "/api/v1/nodes", node)
    try:
        yield list(forged)
    finally:
        stage.plane.server.call("DELETE", "/api/v1/nodes/poison")
        for name in forged:
            gangs.end(stage.plane, name)


def _status(pieces: dict[str, tuple[str, int]]) -> dict[str, Any]:
    """As if Kueue had reserved quota and asked us."""
    return {
        "conditions": [
            {
                "type": "QuotaReserved",
                "status": "True",
                "reason": "Forged",
                "message": _HUGE[:30_000],
                "lastTransitionTime": _NOW,
            }
        ],
        "admission": {
            "clusterQueue": "ghost",
            "podSetAssignments": [
                {
                    "name": name,
                    "flavors": {names.GPU_RESOURCE: pool},
                    "resourceUsage": {names.GPU_RESOURCE: str(count)},
                    "count": count,
                }
                for name, (pool, count) in pieces.items()
            ],
        },
        "admissionChecks": [
            {"name": names.ADMISSION_CHECK, "state": "Pending", "message": "", "lastTransitionTime": _NOW}
        ],
    }


def _stray(forged: dict[str, Any]) -> dict[str, Any]:
    """With our labels, of a Workload that never was."""
    labels = {names.WORKLOAD_UID_LABEL: "0" * 36, "muster.dev/check": "gang", "muster.dev/attempt": "x"}
    notes = {"muster.dev/workload": "../../" + next(iter(forged)), "muster.dev/requested-pool": "l4"}
    spec = {
        "provisioningClassName": names.GKE_QUEUED_CLASS,
        "podSets": [{"podTemplateRef": {"name": "none"}, "count": 1}],
    }
    frame = {"apiVersion": names.PROVISIONING_API_VERSION, "kind": "ProvisioningRequest"}
    return {**frame, "metadata": {"name": "stray", "labels": labels, "annotations": notes}, "spec": spec}


class _Garbled:
    """Some answers are no JSON of the kind that was asked for."""

    def __init__(self) -> None:
        self.count = 0

    def judge(self, call: Call) -> Break | None:
        self.count += call.verb == "list"
        return Break(Fault.TRUNCATE) if call.verb == "list" and self.count % 2 else None

    def done(self, call: Call) -> None: ...


def test_half_of_a_list_is_never_taken_for_the_whole(stage: Stage) -> None:
    stage.proxy.plan = _Garbled()
    with stage.manager().kept() as manager:
        gang = stage.submit()
        stage.runs(gang)
        stage.end(gang)
        stage.judge()
    assert manager.exits == []
