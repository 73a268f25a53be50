"""The oracle of the gang stories judges a complete record and rejects an incomplete one."""

import pytest

from muster.local.demo.cluster import Object
from tests.e2e import gangs
from tests.e2e.recorder import Recorder

_BEFORE, _AFTER = "2026-01-01T10:00:00Z", "2026-01-01T10:00:05Z"


def test_a_worker_that_was_made_twice_and_taken_away_unbound_needed_no_node() -> None:
    record = _recorded(node_ready_at=30)
    twin = _pod("twin", version=41)
    record.note("Pod", "ADDED", twin)
    record.note("Pod", "DELETED", _at(twin, 45))

    gangs.assert_capacity_came_first(record, "gang", pools=["l4"])


def test_a_pod_that_still_waits_for_a_node_is_not_passed_over() -> None:
    record = _recorded(node_ready_at=30)
    record.note("Pod", "ADDED", _pod("waiting", version=41))

    with pytest.raises(AssertionError, match="no node None stood when waiting was there"):
        gangs.assert_capacity_came_first(record, "gang", pools=["l4"])


def test_a_node_that_came_after_a_pod_is_found_out() -> None:
    record = _recorded(node_ready_at=50)

    with pytest.raises(AssertionError, match="existed before the node of worker was Ready"):
        gangs.assert_capacity_came_first(record, "gang", pools=["l4"])


def test_a_worker_that_was_made_twice_counts_as_the_gangs_first_pod() -> None:
    record = _recorded(node_ready_at=30)
    early = _pod("early", version=15)
    record.note("Pod", "ADDED", early)
    record.note("Pod", "DELETED", _at(early, 45))

    with pytest.raises(AssertionError, match="existed before request was Provisioned"):
        gangs.assert_capacity_came_first(record, "gang", pools=["l4"])


def test_the_record_is_behind_until_it_has_what_there_is() -> None:
    record, node = Recorder(""), _named("l4-0", version=30)
    assert not record.knows("Node", node)

    record.note("Node", "LISTED", node)
    assert record.knows("Node", node)
    assert not record.knows("Node", _at(node, 31))

    record.note("Node", "MODIFIED", _at(node, 32))
    assert record.knows("Node", _at(node, 31))


def test_the_record_is_not_behind_with_what_has_gone_meanwhile() -> None:
    record, node = Recorder(""), _named("l4-0", version=30)
    record.note("Node", "ADDED", node)
    record.note("Node", "DELETED", _at(node, 35))

    assert record.knows("Node", _at(node, 33))


def _recorded(*, node_ready_at: int) -> Recorder:
    """One RayCluster with one worker on one l4 node: asked for at 10, provisioned at 20, the worker at 40."""
    record = Recorder("")
    record.note("RayCluster", "ADDED", _named("gang", version=5))
    record.note("Workload", "ADDED", _named("workload", version=6, owner="gang"))
    template = _named("template", version=9)
    template["template"] = {"spec": {"nodeSelector": {"muster.dev/pool": "l4"}}}
    record.note("PodTemplate", "ADDED", template)
    request = _named("request", version=10, owner="workload")
    request["spec"] = {"podSets": [{"podTemplateRef": {"name": "template"}, "count": 1}]}
    record.note("ProvisioningRequest", "ADDED", request)
    record.note("ProvisioningRequest", "MODIFIED", _holding(_at(request, 20), "Provisioned"))
    record.note("Node", "ADDED", _holding(_named("l4-0", version=node_ready_at), "Ready"))
    record.note("Pod", "ADDED", _pod("worker", version=40))
    record.note("Pod", "MODIFIED", _pod("worker", version=42, node="l4-0"))
    return record


def _named(name: str, *, version: int, owner: str | None = None, created: str = _BEFORE) -> Object:
    owners = [{"uid": f"{owner}-uid"}] if owner else []
    metadata = {
        "name": name,
        "uid": f"{name}-uid",
        "resourceVersion": str(version),
        "creationTimestamp": created,
        "ownerReferences": owners,
    }
    return {"metadata": metadata}


def _pod(name: str, *, version: int, node: str | None = None) -> Object:
    pod = _named(name, version=version, created=_AFTER)
    pod["metadata"]["labels"] = {"ray.io/cluster": "gang"}
    return pod | {"spec": {"nodeName": node} if node else {}}


def _at(found: Object, version: int) -> Object:
    return found | {"metadata": found["metadata"] | {"resourceVersion": str(version)}}


def _holding(found: Object, kind: str) -> Object:
    held = {"type": kind, "status": "True", "lastTransitionTime": _BEFORE}
    return found | {"status": {"conditions": [held]}}
