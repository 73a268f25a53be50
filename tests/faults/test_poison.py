"""Objects that are huge, malformed or hostile cost themselves, and nobody else anything."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

from muster.model import names
from tests.envtest import path_of
from tests.envtest.process import free_port
from tests.faults import gangs, health, oracle
from tests.faults.breaks import Break, Call, Calm, Fault
from tests.faults.plane import MERGE, PROVISIONING
from tests.faults.stage import Stage
from tests.integration.kueue_api.objects import apply

_QUEUE: Final = "poison"
_STRAY: Final = "muster-stray"
_NO_FLAVOR: Final = "no-such-flavor"
_HUGE: Final = "x" * 200_000
_NOTES: Final = {
    "muster.dev/tries": "9" * 5000,
    "muster.dev/first-try": "9999-12-31T23:59:59Z",
    "muster.dev/retry-at": "-1",
    "muster.dev/last-failure": "\u202e%s{0}\n" * 100,
    "muster.dev/fill": _HUGE,
}
_FORGED: Final = {
    "poison-count": ("main", "l4", 2**31 - 1),
    "poison-flavor": ("main", _NO_FLAVOR, 1),
    "poison-pieces": ("ghost", "l4", 1),
    "poison-notes": ("main", "l4", 1),
}
_UNTOLD: Final = ("poison-flavor", "poison-pieces")


def test_poisoned_workloads_hold_up_nobody(stage: Stage) -> None:
    """In a queue of their own, where Kueue leaves alone what somebody has forged."""
    port = free_port()
    with stage.manager(health_port=port).kept() as manager, _queue(stage), _poisoned(stage):
        gang = stage.submit()
        stage.runs(gang)
        stage.eventually("a request of nobody is gone", lambda: _STRAY not in _requests(stage))
        stage.eventually(
            "too many pods are refused", lambda: "more than the pool can have" in _refusal(stage)
        )
        stage.eventually("unreadable notes count as none", lambda: _state(stage, "poison-notes") == "Ready")
        stage.eventually("the others are looked at", lambda: _gathering(port) == len(_UNTOLD))
        asked = {oracle.owner(each) for each in gangs.requests(stage.plane)}
        for name in _UNTOLD:
            assert _state(stage, name) == "Pending", "not to be told of a node is not to need none"
            assert _uid(stage, name) not in asked
        stage.end(gang, *_FORGED)
        stage.judge()
    assert manager.exits == []


@contextmanager
def _queue(stage: Stage) -> Iterator[None]:
    """One with a flavor that nobody has made, and without quota: Kueue admits nobody there, and takes back
    only what is reserved in queues that are missing or stopped.
    """
    flavors = [
        {"name": name, "resources": [{"name": names.GPU_RESOURCE, "nominalQuota": "0"}]}
        for name in ("l4", _NO_FLAVOR)
    ]
    spec = {
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": [names.GPU_RESOURCE], "flavors": flavors}],
        "admissionChecksStrategy": {"admissionChecks": [{"name": names.ADMISSION_CHECK}]},
    }
    frame = {"apiVersion": names.KUEUE_API_VERSION}
    whole = {**frame, "kind": "ClusterQueue", "metadata": {"name": _QUEUE}, "spec": spec}
    meta = {"name": _QUEUE, "namespace": gangs.TEAM}
    local = {**frame, "kind": "LocalQueue", "metadata": meta, "spec": {"clusterQueue": _QUEUE}}
    for item in (whole, local):
        apply(stage.plane.server, item)
    try:
        yield
    finally:
        for item in (local, whole):
            stage.plane.server.call("DELETE", path_of(item))


@contextmanager
def _poisoned(stage: Stage) -> Iterator[None]:
    """Workloads whose status somebody has forged, and requests and nodes that belong to nobody."""
    for name, (piece, pool, count) in _FORGED.items():
        gangs.submit(stage.plane, name, pieces={"main": ("l4", count)}, queue=_QUEUE)
        notes = _NOTES if name == "poison-notes" else {}
        gangs.patch(stage.plane, name, {"metadata": {"annotations": notes}})
        status = {"status": _status({piece: (pool, count)})}
        stage.plane.server.call("PATCH", f"{gangs.path(name)}/status", status, content_type=MERGE)
    space = f"{PROVISIONING}/namespaces/{gangs.TEAM}/provisioningrequests"
    stage.plane.server.call("POST", space, _stray("poison-count"))
    node = {
        "metadata": {"name": "poison", "labels": {names.POOL_LABEL: "l4"}},
        "status": {"allocatable": {names.GPU_RESOURCE: "1e18"}},
    }
    stage.plane.server.call("POST", "/api/v1/nodes", node)
    try:
        yield
    finally:
        stage.plane.server.call("DELETE", "/api/v1/nodes/poison")


def _gathering(port: int) -> float:
    """How many hold quota in the manager's own eyes, and are not whole."""
    return health.counted(port, "muster_gangs", state="provisioning")


def _requests(stage: Stage) -> set[str]:
    return {each["metadata"]["name"] for each in gangs.requests(stage.plane)}


def _refusal(stage: Stage) -> str:
    notes = _meta(stage, "poison-count").get("annotations") or {}
    return str(notes.get(names.REFUSED_ANNOTATION, ""))


def _uid(stage: Stage, name: str) -> str:
    return str(_meta(stage, name)["uid"])


def _meta(stage: Stage, name: str) -> dict[str, Any]:
    return dict((gangs.read(stage.plane, name) or {"metadata": {}})["metadata"])


def _state(stage: Stage, name: str) -> str:
    return str(gangs.entry(gangs.read(stage.plane, name)).get("state"))


def _status(pieces: dict[str, tuple[str, int]]) -> dict[str, Any]:
    """As if Kueue had reserved quota a moment ago and asked us."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "conditions": [
            {
                "type": "QuotaReserved",
                "status": "True",
                "reason": "Forged",
                "message": _HUGE[:30_000],
                "lastTransitionTime": now,
            }
        ],
        "admission": {
            "clusterQueue": _QUEUE,
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
            {"name": names.ADMISSION_CHECK, "state": "Pending", "message": "", "lastTransitionTime": now}
        ],
    }


def _stray(of: str) -> dict[str, Any]:
    """With a name and labels of ours, of a Workload that never was."""
    labels = {names.WORKLOAD_UID_LABEL: "0" * 36, "muster.dev/check": "gang", "muster.dev/attempt": "x"}
    notes = {"muster.dev/workload": "../../" + of, "muster.dev/requested-pool": "l4"}
    spec = {
        "provisioningClassName": names.GKE_QUEUED_CLASS,
        "podSets": [{"podTemplateRef": {"name": "none"}, "count": 1}],
    }
    frame = {"apiVersion": names.PROVISIONING_API_VERSION, "kind": "ProvisioningRequest"}
    return {**frame, "metadata": {"name": _STRAY, "labels": labels, "annotations": notes}, "spec": spec}


class _Garbled(Calm):
    """Some answers are no JSON of the kind that was asked for."""

    def __init__(self) -> None:
        self.count = 0

    def judge(self, call: Call) -> Break | None:
        self.count += call.verb == "list"
        return Break(Fault.TRUNCATE) if call.verb == "list" and self.count % 2 else None


def test_half_of_a_list_is_never_taken_for_the_whole(stage: Stage) -> None:
    stage.proxy.plan = _Garbled()
    with stage.manager().kept() as manager:
        gang = stage.submit()
        stage.completes(gang)
    assert manager.exits == []
