"""A Bundle is done when what it applied can be used: quotas are counted, and a dry run is accepted."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from muster.provider import readiness
from muster.provider.api import Cluster, Deadline
from muster.provider.resource import Written, write
from tests.unit.bundle.fake_api import FakeApi
from tests.unit.bundle.test_bundle_converge import api, body, cluster

__all__ = ["api", "cluster"]

QUOTA = "/api/v1/namespaces/team/resourcequotas/objects"
JOBS = "/apis/ray.io/v1/namespaces/team/rayjobs"
HARD = {"count/rayjobs.ray.io": "10", "count/pods": "20"}
TEAM = {
    "team": json.dumps(
        [body("Namespace", "team"), body("ResourceQuota", "objects", namespace="team", spec={"hard": HARD})]
    )
}
DRY_RUN = {"team": json.dumps(body("RayJob", "dry", version="ray.io/v1", namespace="team"))}
TRIED = "POST team/rayjobs"


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "_SLOW_POLL", 0.01)
    monkeypatch.setattr(readiness, "_RECOUNT_INTERVAL", 0.0)


async def put(
    cluster: Cluster, *, deadline: Deadline | None = None, log_status: Callable[[str], None] = lambda _: None
) -> Written:
    return await write(
        cluster,
        TEAM,
        dry_runs=DRY_RUN,
        before={},
        state={},
        deadline=deadline or Deadline(20),
        log_status=log_status,
    )


def refusal(message: str, status: int = 403) -> tuple[int, dict[str, Any]]:
    return status, {"reason": "Forbidden", "message": message}


async def test_waits_until_the_controller_manager_counts_a_kind_that_it_did_not_know(
    api: FakeApi, cluster: Cluster
) -> None:
    api.counted = {"count/pods"}
    seen: list[str] = []
    waited = asyncio.Event()

    def log_status(message: str) -> None:
        seen.append(message)
        if message.startswith("waiting"):
            waited.set()

    writing = asyncio.create_task(put(cluster, log_status=log_status))
    await asyncio.wait_for(waited.wait(), 10)
    assert TRIED not in api.log
    api.counted = None  # The kind is discovered; the quota is only counted again when it changes.
    written = await writing
    assert (written.failures, written.warnings) == ((), ())
    assert "count/rayjobs.ray.io in ResourceQuota team/objects" in next(
        message for message in seen if message.startswith("waiting")
    )
    assert api.objects[QUOTA]["spec"]["hard"] == HARD
    assert api.log[-1] == TRIED


async def test_reports_what_is_not_counted_and_keeps_the_state(api: FakeApi, cluster: Cluster) -> None:
    api.counted = set()
    cancelled = asyncio.Event()

    def log_status(message: str) -> None:
        if message.startswith("waiting"):
            cancelled.set()

    written = await asyncio.wait_for(
        put(cluster, deadline=Deadline(600, cancelled=cancelled), log_status=log_status), 30
    )
    (failure,) = written.failures
    assert failure.startswith("[team] ResourceQuota team/objects: ")
    assert "count/pods, count/rayjobs.ray.io" in failure
    assert "cancelled" in failure
    assert "Fix: see that kube-controller-manager runs" in failure
    assert "v1 ResourceQuota team/objects" in written.state["objects"]
    assert TRIED not in api.log


async def test_does_not_wait_for_a_kind_that_the_cluster_does_not_serve(
    api: FakeApi, cluster: Cluster
) -> None:
    api.counted = {"count/pods"}
    api.unserved.add("RayJob")
    written = await write(
        cluster, TEAM, before={}, state={}, deadline=Deadline(20), log_status=lambda _: None
    )
    assert written.failures == ()


async def test_a_dry_run_is_repeated_until_the_api_server_knows_the_quota(
    api: FakeApi, cluster: Cluster
) -> None:
    unknown = refusal('rayjobs.ray.io "dry" is forbidden: status unknown for quota: objects')
    api.refusals[JOBS] = [unknown, unknown]
    written = await put(cluster)
    assert (written.failures, written.warnings) == ((), ())
    assert api.log.count(TRIED) == 3


async def test_a_team_at_its_limit_is_ready(api: FakeApi, cluster: Cluster) -> None:
    api.refusals[JOBS] = [refusal('rayjobs.ray.io "dry" is forbidden: exceeded quota: objects')]
    written = await put(cluster)
    assert (written.failures, written.warnings) == ((), ())


async def test_a_denial_that_passes_is_waited_for(api: FakeApi, cluster: Cluster) -> None:
    api.refusals[JOBS] = [refusal("admission webhook denied the request: no queue yet")]
    written = await put(cluster)
    assert (written.failures, written.warnings) == ((), ())
    assert api.log.count(TRIED) == 2


async def test_a_definition_is_awaited_by_discovery_and_not_by_its_schema(
    api: FakeApi, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "_SLOW_POLL", 60.0)
    monkeypatch.setattr(readiness, "_POLL", 0.0)
    api.definition_is = ()
    api.unserved.add("RayJob")
    name = "rayjobs.ray.io"
    definition = {
        "crds": json.dumps(body("CustomResourceDefinition", name, version="apiextensions.k8s.io/v1"))
    }
    writing = asyncio.create_task(
        write(cluster, definition, dry_runs={}, before={}, state={}, deadline=Deadline(20), log_status=print)
    )
    async with asyncio.timeout(20):
        while api.groups.count("ray.io") < 3:
            await asyncio.sleep(0)
    assert not writing.done()
    api.unserved.clear()
    assert (await writing).failures == ()
    assert sum(name in path for path in api.read) <= 1, "it was read to see whether it is served"


async def test_a_denial_that_lasts_is_a_warning_and_no_failure(
    api: FakeApi, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "_DENIAL_TIMEOUT", 0.0)
    api.refusals[JOBS] = [refusal("policy cost-center denied the request: label cost-center is missing")]
    written = await put(cluster)
    assert written.failures == ()
    (warning,) = written.warnings
    assert "a RayJob in namespace team was denied in a dry run: policy cost-center" in warning
    assert "Fix: " in warning


async def test_a_webhook_that_does_not_start_fails_the_bundle(api: FakeApi, cluster: Cluster) -> None:
    down = (500, {"message": 'failed calling webhook "rayjob.muster.dev": connection refused'})
    api.refusals[JOBS] = [down] * 50
    written = await put(cluster, deadline=Deadline(1.0))
    (failure,) = written.failures
    assert "a RayJob in namespace team is not accepted yet" in failure


def test_other_names_than_counts_are_covered_by_the_limit_alone() -> None:
    quota = {"spec": {"hard": {"example.com/widgets": "1", "count/pods": "1"}}}
    live = {"status": {"hard": quota["spec"]["hard"], "used": {}}}
    assert readiness.uncounted(quota, live) == ["count/pods"]
    assert readiness.uncounted(quota, None) == ["count/pods", "example.com/widgets"]
