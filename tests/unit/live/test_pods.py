"""What keeps the pods of a job from running, as `muster why` says it."""

from datetime import UTC, datetime
from typing import Any

import pytest

from muster.kubernetes.client import Client
from muster.kubernetes.kubeconfig import Access
from muster.live.fields import text
from muster.live.why.format import format_status
from muster.live.why.job_status import (
    fetch_job_pods,
    fetch_status,
    fetch_waiting,
    parse_kai_status,
    parse_status,
)
from muster.live.why.pods import PodIndex, PodStatus, pod_status, with_logs
from muster.model.work import PARTS, QUEUED
from tests.unit.preview.http_world import Asked, Reply, listing, serving
from tests.unit.preview.snapshot_world import workload

IMAGE = "rayproject/ray:2.54.1"


def pod(name: str, *, role: str = "", owner: str = "job", **status: Any) -> dict[str, Any]:
    labels = {"kueue.x-k8s.io/podset": role} if role else {}
    return {
        "metadata": {
            "namespace": "team-a",
            "name": name,
            "uid": f"uid-{name}",
            "labels": labels,
            "ownerReferences": [{"uid": owner}],
        },
        "spec": {"containers": [{"name": "main", "image": IMAGE}], "initContainers": [{"name": "wait"}]},
        "status": {"phase": "Pending", **status},
    }


def condition(kind: str, status: str, reason: str = "", message: str = "") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


READY: dict[str, Any] = {"phase": "Running", "conditions": [condition("Ready", "True")]}


def container(state: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "main", "state": state, **more}]}


def ended(reason: str, code: int) -> dict[str, Any]:
    return {"terminated": {"reason": reason, "exitCode": code}}


def only_reason(status: PodStatus) -> tuple[str, str]:
    (found,) = status.reasons
    return found.reason, found.message


@pytest.mark.parametrize(
    ("status", "reason", "message"),
    [
        (
            {"conditions": [condition("PodScheduled", "False", "Unschedulable", "0/3 nodes are available")]},
            "Unschedulable",
            "0/3 nodes are available",
        ),
        (
            container({"waiting": {"reason": "ErrImagePull", "message": "not found"}}),
            "ErrImagePull",
            f"{IMAGE}: not found",
        ),
        (container({"waiting": {"reason": "ContainerCreating"}}), "ContainerCreating", ""),
        (
            container(
                {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
                lastState=ended("OOMKilled", 137),
                restartCount=3,
            ),
            "CrashLoopBackOff",
            "container main ended: OOMKilled, exit code 137, 3 restarts",
        ),
        (
            {"phase": "Failed", **container(ended("Error", 2))},
            "Error",
            "container main ended: Error, exit code 2",
        ),
        (
            {
                "conditions": [condition("Initialized", "False")],
                "initContainerStatuses": [{"name": "wait", "state": {"running": {"startedAt": "now"}}}],
                **container({"waiting": {"reason": "PodInitializing"}}),
            },
            "Init",
            "init container wait runs",
        ),
        (
            {"phase": "Failed", "reason": "Evicted", "message": "low on memory"},
            "Evicted",
            "low on memory",
        ),
        (
            {"phase": "Running", "conditions": [condition("Ready", "False", "", "unready status: [main]")]},
            "NotReady",
            "unready status: [main]",
        ),
    ],
)
def test_a_pod_that_is_not_ready_has_its_reason(status: dict[str, Any], reason: str, message: str) -> None:
    found = pod_status([pod("a", **status)], 1)
    assert only_reason(found) == (reason, message)
    assert not found.is_running


def test_pods_with_the_same_reason_are_one_entry_with_their_roles() -> None:
    pulls = container({"waiting": {"reason": "ErrImagePull"}})
    gone = pod("gone", **pulls)
    gone["metadata"]["deletionTimestamp"] = "2026-11-21T10:00:00Z"
    pods = [
        pod("h", role="head", **READY),
        pod("a", role="l4", **pulls),
        pod("b", role="h100", **pulls),
        gone,
    ]
    found = pod_status(pods, 3)
    (reason,) = found.reasons
    assert (found.ready, reason.roles, reason.pods) == (1, ("l4", "h100"), ("a", "b"))


def test_completed_pods_count_beside_the_ready_ones() -> None:
    assert pod_status([pod("a", phase="Succeeded"), pod("b", **READY)], 2).is_running
    assert not pod_status([pod("b", **READY)], 2).is_running
    retried = pod_status([pod("a", phase="Failed", reason="Evicted"), pod("b", **READY)], 1)
    assert (retried.is_running, retried.reasons[0].reason) == (True, "Evicted")


def test_a_completed_pod_of_a_job_stands_for_none_of_those_that_follow() -> None:
    done = [pod("a", phase="Succeeded"), pod("b", phase="Succeeded")]
    assert pod_status([*done, pod("c", **READY), pod("d", **READY)], 2).is_running
    assert not pod_status([*done, pod("c", **READY), pod("d")], 2).is_running


def test_kai_expects_no_pod_beside_the_one_that_took_its_place() -> None:
    gone = pod("gone", **READY)
    gone["metadata"]["deletionTimestamp"] = "2026-11-21T10:00:00Z"
    pods = [pod("lost", phase="Failed", reason="Evicted"), gone, pod("a", **READY), pod("b", **READY)]
    group = {"metadata": {"namespace": "team-a", "name": "g"}, "spec": {"queue": "q", "minMember": 1}}
    found = parse_kai_status(group, {("team-a", "g"): [*pods]}).pods
    assert found is not None
    assert (found.is_running, found.expected) == (True, 2)


@pytest.mark.parametrize("kind", QUEUED, ids=lambda each: each.kind)
def test_pods_are_found_below_whatever_the_job_made(kind: Any) -> None:
    """Of each kind: its own pods, and those of the objects that it may have made, at any depth."""
    owned = workload(state="admitted")
    owned["metadata"]["ownerReferences"] = [{"kind": kind.kind, "name": "train", "uid": "job"}]
    parts = [
        {"metadata": {"uid": part.kind, "ownerReferences": [{"uid": above}]}}
        for above, part in zip(("job", *(each.kind for each in PARTS)), PARTS, strict=False)
    ]
    pods = [pod("own"), pod("below", owner=PARTS[-1].kind), pod("other", owner="another job")]
    assert [text(each, "metadata", "name") for each in PodIndex(pods, parts).of(owned)] == ["below", "own"]


def test_the_headline_counts_the_pods_of_an_admitted_job() -> None:
    owned = workload(state="admitted")
    owned["metadata"]["ownerReferences"][0]["uid"] = "job"
    now = parse_status(owned).workload.created  # type: ignore[union-attr]
    pulls = container({"waiting": {"reason": "ErrImagePull"}})

    def headline(*pods: dict[str, Any]) -> str:
        return format_status(parse_status(owned, PodIndex(pods, ())), now=now).splitlines()[0]

    assert headline(pod("a", **READY), pod("b", **pulls)) == "team-a/train: started: 1 of 2 pods ready"
    assert headline(pod("a", **READY), pod("b", **READY)) == "team-a/train: runs: 2 pods"
    assert headline() == "team-a/train: started: 0 of 2 pods ready"


def test_the_last_lines_of_a_container_that_ended_are_read_without_terminal_escapes() -> None:
    crashed = pod(
        "a",
        **container({"waiting": {"reason": "CrashLoopBackOff"}}, lastState=ended("Error", 1), restartCount=2),
    )

    def answer(asked: Asked) -> Reply:
        assert asked.path.startswith("/api/v1/namespaces/team-a/pods/a/log?")
        assert "previous=true" in asked.path
        assert "container=main" in asked.path
        return Reply(body=b"starts\n\x1b]0;owned\x07CUDA out of memory\n")

    with serving(answer) as server:
        found = with_logs(Client(Access(server=server.url)), "team-a", pod_status([crashed], 1))
    assert found.reasons[0].log == ("starts", "CUDA out of memory")


def test_an_account_without_the_right_to_list_pods_gets_the_rest() -> None:
    owned = workload(state="admitted")

    def answer(asked: Asked) -> Reply:
        if "/workloads?" in asked.path:
            return Reply(body={"items": [owned]})
        return Reply(status=403) if "/pods?" in asked.path else Reply(body={"items": []})

    with serving(answer) as server:
        status = fetch_status(Client(Access(server=server.url)), "team-a", "train")
    assert status is not None
    assert status.pods is None
    assert "admitted: its pods may start" in format_status(status, now=status.workload.created)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("job", "first"),
    [
        ({}, "team-a/train: waits: 0 of 3 pods ready"),
        ({"status": {"conditions": [condition("Failed", "True")]}}, "team-a/train: finished"),
    ],
)
def test_with_kai_a_job_is_its_pod_group_and_what_the_controller_wrote(
    job: dict[str, Any], first: str
) -> None:
    group = {"metadata": {"namespace": "team-a", "name": "pg-1", "ownerReferences": [{"name": "train"}]}}
    gated = pod("a", conditions=[condition("PodScheduled", "False", "SchedulingGated")])
    message = "1 of 2 l4 nodes (limit 30m); releases at 10:42 UTC"
    gated["metadata"]["annotations"] = {"pod-group-name": "pg-1", "muster.dev/gang-status": message}
    lists = listing({"podgroups": [group | {"spec": {"queue": "q", "minMember": 3}}], "pods": [gated]})

    def answer(asked: Asked) -> Reply:
        if asked.path.partition("?")[0] == "/apis/batch/v1/namespaces/team-a/jobs/train":
            return Reply(body={"metadata": {"name": "train", "uid": "job"}, **job})
        return lists(asked)

    with serving(answer) as server:
        api = Client(Access(server=server.url))
        status = fetch_status(api, "team-a", "train")
        (waiting,) = fetch_waiting(api, "team-a")
    assert status is not None
    text = format_status(status, now=datetime.now(UTC))
    assert text.splitlines()[0] == first
    assert (message in text) is not status.is_finished
    assert status.result == ("Failed" if status.is_finished else "")
    assert (waiting.name, waiting.outside) == ("train", message)


def test_a_deployment_shows_the_first_of_its_pods_that_waits() -> None:
    """Kueue counts each of them by itself, and names none of their Deployments."""

    def counted(name: str, minute: int, *, admitted: bool) -> dict[str, Any]:
        owner = {"kind": "Pod", "name": name, "uid": f"uid-{name}"}
        created = f"2026-11-21T10:0{minute}:00Z"
        meta: dict[str, Any] = {"namespace": "team-a", "name": f"pod-{name}", "creationTimestamp": created}
        conditions = [condition("Admitted", "True" if admitted else "False")]
        spec = {"queueName": "default", "podSets": [{"name": "main", "count": 1, "template": {"spec": {}}}]}
        meta |= {"uid": f"uid-pod-{name}", "ownerReferences": [owner]}
        return {"metadata": meta, "spec": spec, "status": {"conditions": conditions}}

    def made(name: str, of: str) -> dict[str, Any]:
        found = pod(name)
        found["metadata"]["labels"] = {"pod-template-hash": "5b9d"}
        found["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": f"{of}-5b9d", "uid": of}]
        return found

    lists = {
        "workloads": [
            counted("runs", 1, admitted=True),
            counted("next", 2, admitted=False),
            counted("last", 3, admitted=False),
            counted("other", 0, admitted=False),
        ],
        "pods": [made(name, "serve") for name in ("runs", "next", "last")] + [made("other", "serve-2")],
    }

    with serving(listing(lists)) as server:
        api = Client(Access(server=server.url))
        status = fetch_status(api, "team-a", "serve")
        pods = fetch_job_pods(api, "team-a", "serve")
        assert fetch_status(api, "team-a", "serves") is None
    assert status is not None
    assert status.name == "pod-next"
    assert [text(each, "metadata", "name") for each in pods or ()] == ["last", "next", "runs"]
