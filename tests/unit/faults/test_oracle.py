"""The oracle of the fault suite sees what must never be, also when it lasts for one revision only."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from model import names
from tests.faults.history import Change
from tests.faults.oracle import judge

Json = dict[str, Any]

_TEAM = "/registry/team-a"


def _condition(kind: str) -> Json:
    return {"type": kind, "status": "True"}


def _workload(state: str) -> Json:
    gpu = {"resources": {"requests": {names.GPU_RESOURCE: "1"}}}
    pod = {"nodeSelector": {names.POOL_LABEL: "l4"}, "containers": [gpu]}
    return {
        "metadata": {"name": "gang", "uid": "one"},
        "spec": {"podSets": [{"name": "main", "count": 2, "template": {"spec": pod}}]},
        "status": {"admissionChecks": [{"name": names.ADMISSION_CHECK, "state": state}]},
    }


def _request(name: str, *, attempt: str = "first", provisioned: bool = True, owner: str = "one") -> Json:
    labels = {names.WORKLOAD_UID_LABEL: owner, "muster.dev/check": "gang", "muster.dev/attempt": attempt}
    return {
        "metadata": {"name": name, "labels": labels, "annotations": {"muster.dev/requested-pool": "l4"}},
        "spec": {"podSets": [{"count": 2}]},
        "status": {
            "conditions": [_condition("Provisioned")] if provisioned else [],
            "provisioningClassDetails": {names.GKE_LEASE_DETAIL: "lease"},
        },
    }


def _node(name: str, *, ready: bool = True, lease: str = "lease") -> Json:
    status = {"conditions": [_condition("Ready")] if ready else []}
    return {
        "metadata": {"name": name, "labels": {names.GKE_LEASE_LABEL: lease}},
        "spec": {},
        "status": status,
    }


def _story(*steps: tuple[str, Json | None, str]) -> Iterator[Change]:
    """Kind, object as it is now (None: gone), its name."""
    held: dict[str, Json] = {}
    for (kind, after, name), revision in zip(steps, itertools.count(2), strict=False):
        before = held.pop(name, None)
        if after is not None:
            held[name] = after
        yield Change(revision, kind, f"{_TEAM}/{kind}/{name}", before, after)


_WHOLE = (
    ("Workload", _workload("Pending"), "gang"),
    ("ProvisioningRequest", _request("a"), "a"),
    ("Node", _node("n0"), "n0"),
    ("Node", _node("n1"), "n1"),
)
_READY = ("Workload", _workload("Ready"), "gang")


def test_a_whole_gang_may_be_ready_and_lose_everything_later() -> None:
    judge(_story(*_WHOLE, _READY, ("Node", None, "n0"), ("ProvisioningRequest", None, "a")), since=1)


@pytest.mark.parametrize(
    "step",
    [
        ("Node", None, "n0"),
        ("Node", _node("n0", ready=False), "n0"),
        ("Node", _node("n0", lease="another"), "n0"),
        ("ProvisioningRequest", None, "a"),
        ("ProvisioningRequest", _request("a", provisioned=False), "a"),
        ("ProvisioningRequest", _request("a", owner="two"), "a"),
    ],
    ids=["no node", "not ready", "not its lease", "no request", "not provisioned", "not its own"],
)
def test_ready_without_all_of_it_is_seen(step: tuple[str, Json | None, str]) -> None:
    with pytest.raises(AssertionError, match="gang is Ready with"):
        judge(_story(*_WHOLE, step, _READY), since=1)


def test_a_second_request_of_a_shape_is_seen_though_it_is_gone_at_once() -> None:
    twin = ("ProvisioningRequest", _request("b"), "b")
    with pytest.raises(AssertionError, match="more than one live request"):
        judge(_story(*_WHOLE, twin, ("ProvisioningRequest", None, "b")), since=1)


def test_another_attempt_may_ask_again() -> None:
    judge(_story(*_WHOLE, ("ProvisioningRequest", _request("b", attempt="second"), "b")), since=1)
