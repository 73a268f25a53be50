"""What counts as a write that nobody needed."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from bench.gangs.alone import needless
from bench.gangs.audit import Call
from bench.gangs.rayjob import HEAD, WORKERS, managed, workload
from bench.gangs.shapes import Gang


def _call(verb: str, resource: str, name: str, body: dict[str, Any] | None = None) -> Call:
    return Call(
        agent="muster-manager",
        verb=verb,
        resource=resource,
        namespace="team-0",
        name=name,
        code=200,
        at=datetime(2026, 1, 1, tzinfo=UTC),
        raw=json.dumps(body or {}).encode(),
    )


def _made(workload: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {"muster.dev/workload": workload}}}


def test_every_write_counts_but_those_that_the_newcomers_and_the_check_need() -> None:
    needed = [
        _call("create", "podtemplates", "muster-1-0", _made("zz-newcomer")),
        _call("create", "provisioningrequests", "muster-1", _made("zz-newcomer")),
        _call("patch", "podtemplates", "muster-1-0"),
        _call("update", "workloads/status", "zz-newcomer"),
        _call("create", "events", "zz-newcomer.0123"),
        _call("patch", "admissionchecks/status", "gang"),
        _call("patch", "gangpolicies/status", "default"),
        _call("list", "workloads", ""),
    ]
    others = [
        _call("create", "podtemplates", "muster-2-0", _made("gang-00001")),
        _call("delete", "provisioningrequests", "muster-2"),
        _call("patch", "workloads/status", "gang-00001"),
        _call("create", "events", "gang-00001.0123"),
        _call("patch", "podtemplates", "muster-2-0"),
    ]
    assert needless([*needed, *others]) == others


def test_a_standing_workload_is_a_rayjobs_with_the_fields_that_each_has_written() -> None:
    entry = {"name": "gang", "state": "Ready"}
    condition = {"type": "QuotaReserved", "status": "True"}
    body = workload(Gang(namespace="team-0", name="g", pods=3))
    status = {"admissionChecks": [entry], "conditions": [condition]}
    found = managed({**body, "status": status}, since="2026-01-01T00:00:00Z")
    assert [(each["name"], each["count"]) for each in found["spec"]["podSets"]] == [(HEAD, 1), (WORKERS, 3)]
    wrote = {each["manager"]: each["fieldsV1"] for each in found["metadata"]["managedFields"]}
    assert set(wrote["kueue"]["f:spec"]["f:podSets"]) == {'k:{"name":"head"}', 'k:{"name":"workers"}'}
    conditions = wrote["kueue-admission"]["f:status"]["f:conditions"]
    assert conditions == {'k:{"type":"QuotaReserved"}': {".": {}, "f:type": {}, "f:status": {}}}
    assert list(wrote["muster-manager"]["f:status"]) == ["f:admissionChecks"]
    assert len(json.dumps(found, separators=(",", ":"))) > 10_000
