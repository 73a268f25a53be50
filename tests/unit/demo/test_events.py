"""A story tells each fact once, in the words that a user needs, and a second attempt like the first."""

import copy
from typing import Any

from muster.local.demo.events import Mood, Snapshot, events_of

Object = dict[str, Any]
Lists = dict[str, list[Object]]
FIRST, LATER = "2026-01-01T10:00:00Z", "2026-01-01T10:30:00Z"


def condition(kind: str, status: str, *, at: str = FIRST, **more: str) -> Object:
    return {"type": kind, "status": status, "lastTransitionTime": at, "reason": "R", "message": "m", **more}


def job() -> Object:
    return {
        "kind": "RayJob",
        "metadata": {"name": "gang", "uid": "j", "creationTimestamp": FIRST},
        "status": {},
    }


def workload(*conditions: Object, annotations: dict[str, str] | None = None, active: bool = True) -> Object:
    assigned = [
        {"name": "head", "flavors": {"cpu": "cpu", "memory": "cpu"}},
        {"name": "w", "flavors": {"cpu": "l4"}},
    ]
    return {
        "metadata": {
            "name": "rayjob-gang",
            "uid": "w",
            "creationTimestamp": FIRST,
            "ownerReferences": [{"uid": "j"}],
            "annotations": annotations or {},
        },
        "spec": {"queueName": "default", "active": active},
        "status": {"conditions": list(conditions), "admission": {"podSetAssignments": assigned}},
    }


def asking(kind: str, uid: str, *, pool: str, nodes: int, conditions: list[Object] | None = None) -> Lists:
    """A request of an owner for nodes of a pool, and its template."""
    request = {
        "metadata": {"name": "r", "uid": "r", "labels": {f"muster.dev/{kind}-uid": uid}},
        "spec": {"podSets": [{"count": nodes, "podTemplateRef": {"name": "t"}}]},
        "status": {"conditions": conditions or []},
    }
    template = {"metadata": {"name": "t"}, "template": {"spec": {"nodeSelector": {"muster.dev/pool": pool}}}}
    return {"ProvisioningRequest": [request], "PodTemplate": [template]}


def told(held: Object, **others: list[Object]) -> list[str]:
    snapshot = Snapshot({"RayJob": [job()], "Workload": [held], **others})
    return [event.text for event in events_of(snapshot, ["gang"])]


def test_a_job_is_told_from_its_queue_to_its_flavors() -> None:
    assert told(workload(condition("QuotaReserved", "True"))) == [
        "RayJob created",
        "suspended, waits in queue default",
        "quota reserved: head on cpu, w on l4",
    ]


def test_a_released_gang_is_told_why_and_until_when() -> None:
    notes = {"muster.dev/retry-at": LATER, "muster.dev/last-failure": "no stock of h100"}
    found = told(workload(annotations=notes, active=False))
    assert f"released everything, holds no quota, tries again at {LATER}: no stock of h100" in found
    assert not any("not be tried again" in text for text in found)


def test_what_somebody_else_deactivated_is_told_as_the_end() -> None:
    assert "deactivated: it will not be tried again" in told(workload(active=False))


def test_the_same_snapshot_twice_tells_nothing_new_and_a_second_attempt_is_told_again() -> None:
    def keys(held: Object) -> set[str]:
        snapshot = Snapshot({"RayJob": [job()], "Workload": [held]})
        return {event.key for event in events_of(snapshot, ["gang"])}

    first = workload(condition("QuotaReserved", "True"))
    assert keys(first) == keys(copy.deepcopy(first))
    assert len(keys(workload(condition("QuotaReserved", "True", at=LATER))) - keys(first)) == 1


def test_a_failed_request_is_told_with_the_clouds_words() -> None:
    failed = condition("Failed", "True", reason="OutOfResources", message="no stock")
    asked = asking("workload", "w", pool="h100", nodes=2, conditions=[failed])
    snapshot = Snapshot({"RayJob": [job()], "Workload": [workload()], **asked})
    found = {event.text: event.mood for event in events_of(snapshot, ["gang"])}
    assert "h100: asked for 2 nodes (r)" in found
    assert found["h100: Failed: OutOfResources: no stock"] is Mood.BAD


def test_another_jobs_pods_are_not_told() -> None:
    pods = [
        {
            "metadata": {"name": name, "uid": name, "labels": {"ray.io/cluster": cluster}},
            "spec": {"nodeName": "n"},
        }
        for name, cluster in (("ours", "gang-ab1cd"), ("theirs", "gang-two-ab1cd"))
    ]
    found = told(workload(), Pod=pods)
    assert "pod ours starts on node n" in found
    assert not any("theirs" in text for text in found)


def test_a_gang_with_kai_is_told_from_its_gate_to_its_nodes() -> None:
    cluster = {"metadata": {"name": "gang", "uid": "c", "creationTimestamp": FIRST}}
    head = {
        "metadata": {
            "name": "head",
            "uid": "h",
            "labels": {"ray.io/cluster": "gang"},
            "annotations": {"muster.dev/gang-status": "waits for 4 nodes"},
        },
        "spec": {"schedulingGates": [{"name": "muster.dev/gang"}]},
    }
    asked = asking("raycluster", "c", pool="l4", nodes=4, conditions=[condition("Accepted", "True")])
    found = events_of(Snapshot({"RayCluster": [cluster], "Pod": [head], **asked}), ["gang"])
    assert [event.text for event in found] == [
        "RayCluster created",
        "l4: asked for 4 nodes (r)",
        "l4: Accepted",
        "gang: waits for 4 nodes",
        "pod head created",
    ]


def test_a_service_is_told_with_the_cluster_that_kuberay_made_for_it() -> None:
    service = {
        "kind": "RayService",
        "metadata": {"name": "model", "uid": "s", "creationTimestamp": FIRST},
        "status": {"conditions": [condition("Ready", "True")]},
    }
    cluster = {"metadata": {"name": "model-x7k2p", "uid": "c", "ownerReferences": [{"uid": "s"}]}}
    pod = {
        "metadata": {"name": "worker", "uid": "p", "labels": {"ray.io/cluster": "model-x7k2p"}},
        "spec": {"nodeName": "l4-0"},
    }
    asked = asking("raycluster", "c", pool="l4", nodes=1)
    snapshot = Snapshot({"RayService": [service], "RayCluster": [cluster], "Pod": [pod], **asked})
    found = events_of(snapshot, ["model"])
    assert [event.text for event in found] == [
        "RayService created",
        "l4: asked for 1 node (r)",
        "pod worker starts on node l4-0",
        "RayService Ready",
    ]
