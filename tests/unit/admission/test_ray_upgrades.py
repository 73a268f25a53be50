"""How queued Ray work may be upgraded: what the webhook fills in, refuses, and says."""

from __future__ import annotations

from typing import Any

import pytest

from muster.controller.runtime.review import Allow, Deny, Verdict
from muster.model.names import ELASTIC_JOB
from muster.model.ray_upgrades import Upgrade
from tests.unit.admission.test_defaults import KAI, KUEUE, body, default, judge, patched

Json = dict[str, Any]


def _service(kind: str | None) -> Json:
    found = body("rayservice", **{"kueue.x-k8s.io/queue-name": "gpus"})
    if kind:
        found["spec"]["upgradeStrategy"] = {"type": kind}
    return found


def _cluster(kind: str, *, elastic: bool) -> Json:
    found = body("raycluster")
    found["spec"]["upgradeStrategy"] = {"type": kind}
    found["metadata"]["annotations"] = {ELASTIC_JOB: "true"} if elastic else {}
    return found


def test_a_service_that_says_nothing_gets_the_one_strategy_that_its_queue_counts() -> None:
    found = patched(_service(None), default(KUEUE, "rayservice", _service(None)))
    assert found["spec"]["upgradeStrategy"] == {"type": "None"}
    kai = patched(body("rayservice"), default(KAI, "rayservice", body("rayservice")))
    assert "upgradeStrategy" not in kai["spec"]


@pytest.mark.parametrize("kind", [None, Upgrade.NEW_CLUSTER, "NewClusterWithIncrementalUpgrade"])
def test_a_second_cluster_is_refused_with_both_ways_out(kind: str | None) -> None:
    said = _refusal(judge(KUEUE, "rayservice", _service(kind)))
    assert f"spec.upgradeStrategy.type {kind or 'unset, which is NewCluster'}" in said
    for word in ("second cluster", "set it to None", "second RayService"):
        assert word in said
    assert judge(KAI, "rayservice", _service(kind)) == Allow()


def test_none_passes() -> None:
    assert judge(KUEUE, "rayservice", _service(Upgrade.NONE)) == Allow()


def test_an_elastic_cluster_may_not_recreate_its_pods_and_any_other_may() -> None:
    said = _refusal(judge(KUEUE, "raycluster", _cluster(Upgrade.RECREATE, elastic=True)))
    for word in ("Recreate", "at each growth", "set None", ELASTIC_JOB):
        assert word in said
    assert judge(KUEUE, "raycluster", _cluster(Upgrade.RECREATE, elastic=False)) == Allow()
    assert judge(KUEUE, "raycluster", _cluster(Upgrade.NONE, elastic=True)) == Allow()


@pytest.mark.parametrize("kind", ["rayjob", "rayservice"])
def test_a_strategy_within_the_cluster_that_kuberay_makes_is_refused(kind: str) -> None:
    found = _service(Upgrade.NONE) if kind == "rayservice" else body(kind)
    within = "rayClusterConfig" if kind == "rayservice" else "rayClusterSpec"
    found["spec"][within]["upgradeStrategy"] = {"type": Upgrade.NONE}
    said = _refusal(judge(KUEUE, kind, found))
    assert f"spec.{within}.upgradeStrategy" in said
    assert "remove it" in said


@pytest.mark.parametrize("kind", ["rayjob", "rayservice"])
def test_an_autoscaler_of_a_job_or_service_is_refused_with_what_can_grow(kind: str) -> None:
    found = _service(Upgrade.NONE) if kind == "rayservice" else body(kind)
    within = "rayClusterConfig" if kind == "rayservice" else "rayClusterSpec"
    found["spec"][within]["enableInTreeAutoscaling"] = True
    said = _refusal(judge(KUEUE, kind, found))
    assert "enableInTreeAutoscaling" in said
    assert "the replicas that they need at most, or use an elastic RayCluster" in said


def _refusal(verdict: Verdict) -> str:
    assert isinstance(verdict, Deny)
    return verdict.message
