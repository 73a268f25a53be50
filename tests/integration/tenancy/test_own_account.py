"""Our controller's account, which may write the status of Workloads, is held to its own check."""

from __future__ import annotations

from typing import Any

import pytest

from muster.model.names import ELASTIC_JOB
from tests.integration.tenancy.cluster import Object
from tests.integration.tenancy.conftest import World
from tests.integration.tenancy.works import REQUEST, TEMPLATE, WORKLOAD, changed, named, owner, pod

SPEC = ("template", "spec")
SINCE = "2026-01-01T00:00:00Z"


def check(name: str, state: str) -> Object:
    return {"name": name, "state": state, "message": "", "lastTransitionTime": SINCE}


def condition(kind: str) -> Object:
    return {"type": kind, "status": "True", "reason": "Test", "message": "", "lastTransitionTime": SINCE}


@pytest.fixture
def workload(world: World) -> Object:
    """A Workload with quota that waits for two checks, of which one is ours."""
    body = named(WORKLOAD, "checked")
    kueue = world.controllers["kueue"]
    assert kueue.create(body, dry_run=False).code in (201, 409)
    status: dict[str, Any] = {
        "conditions": [condition("QuotaReserved")],
        "admissionChecks": [check("gang", "Pending"), check("budget", "Pending")],
    }
    answer = kueue.send(
        "PATCH",
        "/apis/kueue.x-k8s.io/v1beta2/namespaces/team-a/workloads/checked/status",
        {"status": status},
        "application/merge-patch+json",
    )
    assert answer.is_allowed, answer.message
    return body


def test_it_answers_for_its_own_check(world: World, workload: Object) -> None:
    status = {"admissionChecks": [check("gang", "Ready"), check("budget", "Pending")]}
    answer = world.controllers["ours"].patch(workload, {"status": status}, subresource="status")
    assert answer.is_allowed, answer.message


def test_it_takes_a_workload_out_of_the_queue_and_puts_it_back(world: World, workload: Object) -> None:
    change = {"spec": {"active": False}, "metadata": {"annotations": {"muster.dev/retry-at": SINCE}}}
    answer = world.controllers["ours"].patch(workload, change)
    assert answer.is_allowed, answer.message


@pytest.mark.parametrize(
    ("status", "word"),
    [
        ({"admissionChecks": [check("gang", "Ready"), check("budget", "Ready")]}, "leave the others"),
        ({"admissionChecks": [check("gang", "Ready")]}, "leave the others"),
        ({"conditions": [condition("QuotaReserved"), condition("Admitted")]}, "nothing else of its status"),
        ({"conditions": None}, "nothing else of its status"),
        ({"admission": {"clusterQueue": "team-b", "podSetAssignments": [{"name": "main"}]}}, "nothing else"),
    ],
)
def test_it_touches_nothing_else_of_a_status(
    world: World, workload: Object, status: Object, word: str
) -> None:
    answer = world.controllers["ours"].patch(workload, {"status": status}, subresource="status")
    assert answer.code == 403
    assert word in answer.message


def test_it_changes_no_workload_into_another(world: World) -> None:
    waiting = named(WORKLOAD, "waiting")
    assert world.controllers["kueue"].create(waiting, dry_run=False).code in (201, 409)
    answer = world.controllers["ours"].patch(waiting, {"spec": {"queueName": "other"}})
    assert answer.code == 403, answer
    assert "nothing else of its spec" in answer.message


def test_it_makes_requests_and_templates_under_its_own_names_alone(world: World) -> None:
    ours = world.controllers["ours"]
    for body in (REQUEST, TEMPLATE):
        assert "muster-" in ours.create(body).message
        answer = ours.create(named(body, "muster-1234"))
        assert answer.is_allowed, answer.message
    built_in = named(REQUEST, "train-gang-1")
    assert world.controllers["kueue"].create(built_in, dry_run=False).code in (201, 409)
    assert ours.delete(built_in).code == 403


def test_it_steers_a_workload_by_the_affinity_of_its_pod_sets_alone(world: World) -> None:
    waiting = named(WORKLOAD, "steered")
    assert world.controllers["kueue"].create(waiting, dry_run=False).code in (201, 409)
    ours, before = world.controllers["ours"], waiting["spec"]["podSets"]
    away = {"matchExpressions": [{"key": "muster.dev/pool", "operator": "NotIn", "values": ["l4"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [away]}}
    steered = [changed(each, *SPEC, "affinity", value={"nodeAffinity": required}) for each in before]
    answer = ours.patch(waiting, {"spec": {"podSets": steered}})
    assert answer.is_allowed, answer.message
    for path, value in (((*SPEC, "hostNetwork"), True), (("count",), 7)):
        first = changed(steered[0], *path, value=value)
        answer = ours.patch(waiting, {"spec": {"podSets": [first, *steered[1:]]}})
        assert answer.code == 403, path
        assert "nothing else of its spec" in answer.message


def test_it_holds_nodes_with_pods_of_its_own_name_that_belong_to_a_workload(world: World) -> None:
    ours = world.controllers["ours"]
    mine = owner("Workload", "kueue.x-k8s.io/v1beta2") | {"controller": False}
    answer = ours.create(pod(owner=mine, name="muster-1234-0-hold-0"))
    assert answer.is_allowed, answer.message
    assert "begin with muster-" in ours.create(pod(owner=mine, name="mine")).message
    assert "a queue admitted" in ours.create(pod(name="muster-1234-0-hold-0")).message
    others = pod(owner=owner("Job", "batch/v1"), name="train-0")
    assert world.controllers["kueue"].create(others, dry_run=False).code in (201, 409)
    assert ours.delete(others).code == 403
    for tenant in world.tenants:
        assert not tenant.create(pod(owner=mine, name="muster-1234-0-hold-0")).is_allowed


def test_of_others_pods_it_deletes_those_of_elastic_gangs_that_were_never_let_start(world: World) -> None:
    ours, worker = world.controllers["ours"], owner("RayCluster", "ray.io/v1")
    for name, gates in (
        ("born-gated", [{"name": ELASTIC_JOB}]),
        ("others-gate", [{"name": "other/gate"}]),
    ):
        born = pod(owner=worker, name=name, schedulingGates=gates)
        assert world.controllers["kueue"].create(born, dry_run=False).code in (201, 409)
        answer = ours.delete(born)
        assert answer.is_allowed is (name == "born-gated"), answer.message
