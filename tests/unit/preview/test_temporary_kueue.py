"""The control plane that the player of `muster what-if` is checked against."""

from typing import Any

from muster.preview.whatif.kueue import queue_objects
from muster.preview.whatif.scenario import synthetic_snapshot
from tests.integration.whatif import simulate
from tests.integration.whatif.job_simulator import Probes, probe_objects
from tests.unit.preview.test_whatif import STACK


def test_kueue_may_stop_counting_only_when_every_queue_is_known_to_be_active() -> None:
    def queue(status: str | None, reserving: int = 0) -> dict[str, Any]:
        conditions = [] if status is None else [{"type": "Active", "status": status}]
        return {"status": {"conditions": conditions, "reservingWorkloads": reserving}}

    assert simulate.to_usage_count([queue("True", 2), queue("True", 3)]) == simulate.UsageCount(2, 0, 0, 5)
    assert simulate.to_usage_count([queue("True"), queue("True")]).is_active
    assert not simulate.to_usage_count([queue("True"), queue("False")]).is_active
    assert not simulate.to_usage_count([queue("True"), queue(None)]).is_active


def test_what_a_drained_queue_holds_is_not_waited_for() -> None:
    objects = queue_objects(STACK)
    work = synthetic_snapshot(STACK, running=100, pending=40).workloads
    holding = [each for each in work if each.is_holding]
    whole = simulate.expected_usage(objects, holding)
    assert whole == simulate.ExpectedUsage(queues=2, reserving=len(holding))
    drained = [_drained(each, "team-a") for each in objects]
    left = [each for each in holding if each.namespace != "team-a"]
    assert simulate.expected_usage(drained, holding) == simulate.ExpectedUsage(queues=2, reserving=len(left))


def _drained(manifest: dict[str, Any], queue: str) -> dict[str, Any]:
    if (manifest["kind"], manifest["metadata"]["name"]) != ("ClusterQueue", queue):
        return manifest
    return {**manifest, "spec": {**manifest["spec"], "stopPolicy": "HoldAndDrain"}}


def test_only_a_probe_sent_after_the_last_change_counts() -> None:
    probes = Probes()
    assert probes.response_time(0.0) is None
    first = probes.next()
    assert (probes.is_open, probes.response_time(0.0)) == (True, None)
    admitted = {"status": {"conditions": [{"type": "QuotaReserved", "status": "True"}]}}
    probes.observe({**first, "metadata": {**first["metadata"], "name": "probe-0"}, **admitted})
    assert (probes.is_open, probes.response_time(0.0)) == (True, None)
    probes.observe({**first, **admitted})
    assert not probes.is_open
    assert probes.response_time(0.0) is not None
    assert probes.response_time(probes.sent + 1) is None


def test_a_probe_uses_no_quota_of_a_team() -> None:
    pods = Probes().next()["spec"]["podSets"][0]["template"]["spec"]
    asked = set(pods["containers"][0]["resources"]["requests"])
    covered = {
        resource
        for each in queue_objects(STACK)
        if each["kind"] == "ClusterQueue"
        for group in each["spec"]["resourceGroups"]
        for resource in group["coveredResources"]
    }
    assert covered
    assert not asked & covered
    assert not any("cohortName" in each.get("spec", {}) for each in probe_objects())
