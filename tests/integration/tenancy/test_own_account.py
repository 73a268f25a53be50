"""Our controller's account, which may write the status of Workloads, is held to its own check."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.tenancy.cluster import Object
from tests.integration.tenancy.conftest import World
from tests.integration.tenancy.test_attacks import REQUEST, TEMPLATE, WORKLOAD
from tests.integration.tenancy.works import named

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
