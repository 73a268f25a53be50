"""What is told of checks and policies while the cluster lacks a kind."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, cast

import msgspec
import pytest
import structlog
from prometheus_client import CollectorRegistry

from muster.controller.gangs.kinds import Kinds
from muster.controller.gangs.objects import GANG_POLICY, Condition, GangPolicyObject
from muster.controller.gangs.policies import ACCEPTED, Policies, PolicyReconciler, apply_condition
from muster.controller.kube.client import Client
from muster.controller.kube.resource import Key, Resource
from muster.controller.kueue.checks import CheckReconciler
from muster.controller.kueue.objects import ADMISSION_CHECK, WORKLOAD, AdmissionCheck
from muster.controller.runtime.controller import Result
from muster.controller.runtime.metrics import Metrics
from muster.model.gangpolicy import to_manifest
from muster.model.names import CONTROLLER_NAME
from tests.unit.admission.gang_world import POLICY
from tests.unit.gangs.cached import cached
from tests.unit.gangs.paper import START

EARLIER = START - timedelta(hours=1)


class _Server:
    """The API server, which serves what was missing while it is told that it is."""

    def __init__(self) -> None:
        self.missing: list[Resource[Any]] = [WORKLOAD]
        self.told: list[str] = []

    async def apply(self, _resource: object, _key: Key, body: Any, **_: object) -> None:
        self.told += [condition["reason"] for condition in body["status"]["conditions"]]
        self.missing.clear()


Reconcile = Callable[[Key], Awaitable[Result]]


def _check(server: _Server, kinds: Kinds, *, name: str = "gang") -> Reconcile:
    ours = {"metadata": {"name": name}, "spec": {"controllerName": CONTROLLER_NAME}}
    checks = cached(ADMISSION_CHECK, [msgspec.convert(ours, AdmissionCheck)])
    known = Policies(cached(GANG_POLICY, []))
    metrics = Metrics(CollectorRegistry())
    return CheckReconciler(
        cast(Client, server), checks, known, kinds, metrics=metrics, clock=lambda: START
    ).reconcile


def _policy(server: _Server, kinds: Kinds, *, missing: Sequence[str] = ()) -> Reconcile:
    body = to_manifest(POLICY, name="gang")
    body["metadata"]["resourceVersion"] = "1"
    policies = cached(GANG_POLICY, [msgspec.convert(body, GangPolicyObject)])
    made = PolicyReconciler(
        cast(Client, server),
        policies,
        Policies(policies),
        kinds,
        missing=lambda _: missing,
        clock=lambda: START,
    )
    return made.reconcile


@pytest.mark.parametrize("reconciler", [_check, _policy])
def test_a_kind_that_comes_while_its_lack_is_told_is_not_missing_for_ever(
    reconciler: Callable[[_Server, Kinds], Reconcile],
) -> None:
    server = _Server()
    kinds = Kinds(missing=lambda: list(server.missing), are_known=lambda: True)
    again = asyncio.run(cast(Any, reconciler(server, kinds)(Key("", "gang"))))
    assert server.told == ["KindsMissing"]
    assert not server.missing
    assert again is not None, "nobody would take it back"


@pytest.mark.parametrize("reconciler", [_check, _policy])
def test_a_kind_that_goes_later_is_told_without_any_news(
    reconciler: Callable[[_Server, Kinds], Reconcile],
) -> None:
    server = _Server()
    kinds = Kinds(missing=lambda: list(server.missing), are_known=lambda: True)
    reconcile = reconciler(server, kinds)
    server.missing.clear()
    again = asyncio.run(cast(Any, reconcile(Key("", "gang"))))
    assert again is not None, "nobody would look"
    assert server.told != ["KindsMissing"]
    server.missing.append(WORKLOAD)
    asyncio.run(cast(Any, reconcile(Key("", "gang"))))
    assert server.told[-1] == "KindsMissing"


def test_a_check_that_is_being_deleted_is_inactive_and_none_is_counted_as_active() -> None:
    """Kueue sends Workloads only to an active check."""
    server = _Server()
    server.missing.clear()
    body = {
        "metadata": {"name": "gang", "deletionTimestamp": "2026-11-23T10:00:00Z", "generation": 2},
        "spec": {"controllerName": CONTROLLER_NAME},
    }
    checks = cached(ADMISSION_CHECK, [msgspec.convert(body, AdmissionCheck)])
    kinds, metrics = Kinds(missing=list, are_known=lambda: True), Metrics(CollectorRegistry())
    reconciler = CheckReconciler(
        cast(Client, server),
        checks,
        Policies(cached(GANG_POLICY, [])),
        kinds,
        metrics=metrics,
        clock=lambda: START,
    )
    with structlog.testing.capture_logs() as logs:
        asyncio.run(cast(Any, reconciler.reconcile(Key("", "gang"))))
    assert server.told == ["BeingDeleted"]
    assert metrics.registry.get_sample_value("muster_admission_checks", {"active": "true"}) == 0
    assert [line["log_level"] for line in logs] == ["warning"]
    assert "pulumi up" in logs[0]["reason"]


def test_a_name_that_no_label_holds_is_refused() -> None:
    server, name = _Server(), "g" * 64
    server.missing.clear()
    kinds = Kinds(missing=list, are_known=lambda: True)
    asyncio.run(cast(Any, _check(server, kinds, name=name)(Key("", name))))
    assert server.told == ["BadName"]


@pytest.mark.parametrize(("missing", "reason"), [((), "Accepted"), (("l4",), "FlavorsMissing")])
def test_a_policy_says_which_flavors_do_not_exist(missing: Sequence[str], reason: str) -> None:
    server = _Server()
    kinds = Kinds(missing=list, are_known=lambda: True)
    asyncio.run(cast(Any, _policy(server, kinds, missing=missing)(Key("", "gang"))))
    assert server.told == [reason]


@pytest.mark.parametrize(("before", "since"), [("True", EARLIER), ("False", START), (None, START)])
def test_a_condition_keeps_its_time_while_only_its_words_change(before: str | None, since: datetime) -> None:
    written: list[Any] = []

    class Server:
        async def apply(self, _resource: object, _key: Key, body: Any, **_: object) -> None:
            written.extend(body["status"]["conditions"])

    policy = msgspec.convert(to_manifest(POLICY, name="gang"), GangPolicyObject)
    held = (
        [Condition(type=ACCEPTED, status=before, reason="Old", last_transition_time=EARLIER)]
        if before
        else []
    )
    status = msgspec.structs.replace(policy.status, conditions=tuple(held))
    asyncio.run(
        apply_condition(
            cast(Client, Server()),
            GANG_POLICY,
            msgspec.structs.replace(policy, status=status),
            Condition(type=ACCEPTED, status="True", reason="New"),
            now=START,
        )
    )
    assert [each["lastTransitionTime"] for each in written] == [f"{since:%Y-%m-%dT%H:%M:%SZ}"]
