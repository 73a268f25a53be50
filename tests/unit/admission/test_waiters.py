"""Whom news of a node concerns."""

from typing import Any

import msgspec

from muster.controller.gangs.objects import Node
from muster.controller.gangs.waiters import Waiters
from muster.controller.kube.resource import Key

_ONE, _OTHER = Key("team-a", "one"), Key("team-a", "other")


def _node(version: str, **more: Any) -> Node:
    body = {"metadata": {"name": "node", "resourceVersion": version, **more.pop("metadata", {})}, **more}
    return msgspec.convert(body, Node)


def _ready(status: str) -> dict[str, Any]:
    return {"status": {"conditions": [{"type": "Ready", "status": status}]}}


def test_a_gang_with_leases_is_affected_by_their_nodes_only() -> None:
    waiters = Waiters()
    waiters.add(_ONE, frozenset({"lease-1", "lease-2"}))
    waiters.add(_OTHER, frozenset())
    assert set(waiters.affected_by(None, _node("1"), lease="lease-2")) == {_ONE, _OTHER}
    assert set(waiters.affected_by(None, _node("1"), lease="lease-3")) == {_OTHER}
    assert set(waiters.affected_by(None, _node("1"), lease="")) == {_OTHER}


def test_a_gang_is_affected_only_by_what_it_waits_for_now() -> None:
    waiters = Waiters()
    waiters.add(_ONE, frozenset({"lease-1"}))
    waiters.add(_ONE, frozenset({"lease-2"}))
    waiters.add(_OTHER, frozenset())
    waiters.discard(_OTHER)
    waiters.discard(_OTHER)
    assert set(waiters.affected_by(None, _node("1"), lease="lease-1")) == set()
    assert set(waiters.affected_by(None, _node("1"), lease="lease-2")) == {_ONE}


def test_a_heartbeat_is_no_node_change() -> None:
    waiters = Waiters()
    waiters.add(_ONE, frozenset())
    before = _node("1", **_ready("True"))

    def hears(after: Node | None) -> bool:
        return bool(waiters.affected_by(before, after, lease=""))

    assert not hears(_node("2", **_ready("True")))
    assert hears(_node("2", **_ready("False")))
    assert hears(_node("2", metadata={"labels": {"a": "b"}}, **_ready("True")))
    assert hears(_node("2", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}, **_ready("True")))
    assert hears(_node("2", spec={"unschedulable": True}, **_ready("True")))
    assert hears(None)
