"""Which writes count as needless."""

import json
from datetime import UTC, datetime
from typing import Any

from bench.gangs.audit import Call
from bench.gangs.controller_only import needless


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
