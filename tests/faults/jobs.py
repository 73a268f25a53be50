"""The share of a job's reconciler in an eviction, for Workloads without a job. Test code: it is not Kueue.

Kueue evicts, stops the job, and gives the quota back once no pod of it runs; the last is done by the
reconciler of the job's kind (pkg/controller/jobframework/reconciler.go of Kueue 0.19.2). A bare Workload has
no job, and would keep its quota for ever.
"""

from datetime import UTC, datetime
from typing import Any, Final

from muster.model import names
from tests.envtest import ControlPlane

_WORKLOADS: Final = f"/apis/{names.KUEUE_API_VERSION}/workloads"
_PREEMPTED: Final = "Preempted"


def finish_evictions(server: ControlPlane) -> None:
    """Takes the quota of every evicted Workload back, as if its pods had gone."""
    for workload in server.call("GET", _WORKLOADS)["items"]:
        conditions = {each["type"]: each for each in (workload.get("status") or {}).get("conditions") or ()}
        if _is_true(conditions, "Evicted") and _is_true(conditions, "QuotaReserved"):
            _give_back(server, workload, conditions)


def _is_true(conditions: dict[str, Any], kind: str) -> bool:
    return kind in conditions and conditions[kind]["status"] == "True"


def _give_back(server: ControlPlane, workload: dict[str, Any], conditions: dict[str, Any]) -> None:
    why = conditions["Evicted"]
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    requeued = "True" if why["reason"] == _PREEMPTED else "False"
    changes = {"QuotaReserved": ("False", "Pending"), "Requeued": (requeued, why["reason"])}
    if _is_true(conditions, "Admitted"):
        changes["Admitted"] = ("False", "NoReservation")
    for kind, (status, reason) in changes.items():
        said = {"type": kind, "status": status, "reason": reason, "message": why["message"]}
        conditions[kind] = {**said, "lastTransitionTime": now}
    meta = workload["metadata"]
    body = {
        "metadata": {"resourceVersion": meta["resourceVersion"]},
        "status": {"conditions": list(conditions.values()), "admission": None},
    }
    path = f"/apis/{names.KUEUE_API_VERSION}/namespaces/{meta['namespace']}/workloads/{meta['name']}/status"
    server.call("PATCH", path, body, content_type="application/merge-patch+json")
