"""A cluster that does not serve what the manager reads: it says so, is not ready, and recovers by itself."""

from __future__ import annotations

from localplane.bare.process import free_port
from tests.faults import health
from tests.faults.breaks import Break, Call, Calm, Fault
from tests.faults.stage import Stage


class _Unserved:
    """As if a kind were not there in this version (a Kueue too old, too new, or not yet installed)."""

    def judge(self, call: Call) -> Break | None:
        return Break(Fault.NOT_FOUND) if call.resource == "workloads" else None

    def done(self, call: Call) -> None: ...


def test_a_kind_that_is_not_served_is_named_by_readiness_until_it_is(stage: Stage) -> None:
    port = free_port()
    stage.proxy.plan = _Unserved()
    with stage.manager(health_port=port).kept() as manager:
        stage.eventually("it is alive", lambda: health.asks(port, "healthz")[0] == 200)
        stage.eventually("it says what is missing", lambda: _is_missing(port))
        stage.proxy.plan = Calm()
        stage.eventually("it is ready", lambda: health.asks(port, "readyz")[0] == 200)
        gang = stage.submit()
        stage.runs(gang)
        stage.end(gang)
        stage.judge()
    assert manager.exits == []


def _is_missing(port: int) -> bool:
    code, words = health.asks(port, "readyz")
    missing = "cache workloads.kueue.x-k8s.io: the API server does not serve Workload; install"
    # The other caches are read meanwhile: until then they are named too.
    return code == 503 and [line.startswith(missing) for line in words.strip().splitlines()] == [True]
