"""Histories by hand: what the store would have held, write by write."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Final

from muster.model import names
from tests.faults.history import Change

Json = dict[str, Any]
Step = tuple[str, Json | None, str]
"""Kind, the object as it is now (None: gone), its name."""

FIRST: Final = 2
"""The revision of a story's first write."""
UNTIL: Final = "asked for 2 l4 nodes (limit 30m); releases at 10:42 UTC"
_TEAM: Final = "/registry/team-a"


def workload(
    state: str = "Pending",
    message: str = UNTIL,
    *,
    name: str = "gang",
    uid: str = "one",
    since: str = "10:00:00",
    holds: Mapping[str, bool] | None = None,
    spec: Mapping[str, object] | None = None,
    meta: Mapping[str, object] | None = None,
) -> Json:
    """A gang of two pods on l4 that has quota. `holds`: more of its conditions."""
    gpu = {"resources": {"requests": {names.GPU_RESOURCE: "1"}}}
    pod = {"nodeSelector": {names.POOL_LABEL: "l4"}, "containers": [gpu]}
    conditions = {"QuotaReserved": True, **(holds or {})}
    return {
        "metadata": {"name": name, "uid": uid, **(meta or {})},
        "spec": {"podSets": [{"name": "main", "count": 2, "template": {"spec": pod}}], **(spec or {})},
        "status": {
            "conditions": [
                {"type": kind, "status": str(status), "lastTransitionTime": since}
                for kind, status in conditions.items()
            ],
            "admissionChecks": [{"name": names.ADMISSION_CHECK, "state": state, "message": message}],
        },
    }


def without_quota(**more: Any) -> Json:
    return workload(**more, holds={"QuotaReserved": False})


def evicted(**more: Any) -> Json:
    return workload(**more, holds={"Evicted": True})


def request(
    *, attempt: str = "first", provisioned: bool = True, owner: str = "one", lease: str = "lease", **meta: Any
) -> Json:
    labels = {names.WORKLOAD_UID_LABEL: owner, "muster.dev/check": "gang", "muster.dev/attempt": attempt}
    held = [{"type": "Provisioned", "status": "True"}] if provisioned else []
    details = {names.GKE_LEASE_DETAIL: lease} if lease else {}
    return {
        "metadata": {"labels": labels, "annotations": {"muster.dev/requested-pool": "l4"}, **meta},
        "spec": {"podSets": [{"count": 2}]},
        "status": {"conditions": held, "provisioningClassDetails": details},
    }


def template(*, owner: str = "one") -> Json:
    return {"metadata": {"labels": {names.WORKLOAD_UID_LABEL: owner}}}


def node(*, ready: bool = True, lease: str = "lease") -> Json:
    return {
        "metadata": {"labels": {names.GKE_LEASE_LABEL: lease} if lease else {}},
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": "True"}] if ready else []},
    }


def story(*steps: Step) -> Iterator[Change]:
    held: dict[str, Json] = {}
    for (kind, after, name), revision in zip(steps, itertools.count(FIRST), strict=False):
        path = f"{_TEAM}/{kind}/{name}"
        before = held.pop(path, None)
        if after is not None:
            held[path] = after
        yield Change(revision, kind, path, before, after)
