"""A cluster that does not serve what the manager reads: it says so, is not ready, and recovers by itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from muster.model import names
from tests.envtest.process import free_port
from tests.faults import gangs, health
from tests.faults.breaks import Break, Call, Calm, Fault
from tests.faults.plane import KUEUE, find
from tests.faults.stage import Stage

_DEFINITION: Final = (
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/provisioningrequests.autoscaling.x-k8s.io"
)
_CHECK: Final = f"{KUEUE}/admissionchecks/{names.ADMISSION_CHECK}"


class _Unserved(Calm):
    """As if a kind were not there in this version (a Kueue too old, too new, or not yet installed)."""

    def judge(self, call: Call) -> Break | None:
        return Break(Fault.NOT_FOUND) if call.resource == "workloads" else None


def test_a_kind_that_is_not_served_is_named_by_readiness_until_it_is(stage: Stage) -> None:
    port = free_port()
    stage.proxy.plan = _Unserved()
    with stage.manager(health_port=port).kept() as manager:
        stage.eventually("it is alive", lambda: health.asks(port, "healthz")[0] == 200)
        stage.eventually("it says what is missing", lambda: _is_missing(port))
        stage.eventually("no queue gives quota", lambda: not stage.is_open())
        stage.proxy.plan = Calm()
        stage.eventually("it is ready", lambda: health.asks(port, "readyz")[0] == 200)
        stage.opens()
        gang = stage.submit()
        stage.completes(gang)
    assert manager.exits == []


def test_while_a_kind_is_gone_the_check_names_it_and_no_gang_gets_quota(stage: Stage) -> None:
    with stage.manager().kept() as manager:
        stage.eventually("the check is active", lambda: _active(stage)["status"] == "True")
        with _removed(stage):
            stage.eventually("the check says what is gone", lambda: _active(stage)["status"] == "False")
            assert "does not serve ProvisioningRequest" in _active(stage)["message"]
            gang = stage.submit()
            stage.eventually("its queue says why", lambda: "inactive" in _pending(stage, gang))
        stage.runs(gang)
        assert _active(stage)["status"] == "True"
        stage.end(gang)
        stage.judge()
    assert manager.exits == []


@contextmanager
def _removed(stage: Stage) -> Iterator[None]:
    """Without the kind, as an uninstalled autoscaler's chart leaves a cluster, until the block ends."""
    server = stage.plane.server
    held = server.call("GET", _DEFINITION)
    server.call("DELETE", _DEFINITION)
    stage.eventually("the kind is gone", lambda: find(server, _DEFINITION) is None)
    try:
        yield
    finally:
        kept = {key: held["metadata"].get(key, {}) for key in ("name", "annotations")}
        fields = {key: held[key] for key in ("apiVersion", "kind", "spec")}
        server.define([{**fields, "metadata": kept}])


def _active(stage: Stage) -> dict[str, Any]:
    return _condition(stage.plane.server.call("GET", _CHECK), "Active")


def _pending(stage: Stage, gang: str) -> str:
    """What Kueue says of a gang that it gives no quota."""
    return str(_condition(gangs.read(stage.plane, gang) or {}, "QuotaReserved")["message"])


def _condition(item: dict[str, Any], kind: str) -> dict[str, Any]:
    """Empty words where nothing has been said yet."""
    conditions = item.get("status", {}).get("conditions", [])
    nothing = {"status": "", "message": ""}
    return next((each for each in conditions if each["type"] == kind), nothing)


def _is_missing(port: int) -> bool:
    code, words = health.asks(port, "readyz")
    missing = "cache workloads.kueue.x-k8s.io: the API server does not serve Workload; install"
    # The other caches are read meanwhile: until then they are named too.
    return code == 503 and [line.startswith(missing) for line in words.strip().splitlines()] == [True]
