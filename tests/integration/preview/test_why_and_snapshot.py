"""`muster why` and `muster snapshot` against a real API server, which validates every object of the test."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from muster.cli import main
from tests.integration.conftest import ApiServer

NAMESPACE = "team-a"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
IN = f"/namespaces/{NAMESPACE}"
SECRET = "hunter2"
WAITS = "2 of 4 l4 nodes for workers (limit 30m); releases at 10:42 UTC"
LACKS = "insufficient unused quota for nvidia.com/gpu in flavor l4, 1 more needed"


def _workload(name: str, *, priority: int, **spec: Any) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "example.com/train",
        "env": [{"name": "PASSWORD", "value": SECRET}],
        "command": [SECRET],
        "resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}},
    }
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "queueName": "default",
            "priority": priority,
            "podSets": [{"name": "main", "count": 2, "template": template}],
            **spec,
        },
    }


def _condition(kind: str, status: str, message: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": "Said",
        "message": message,
        "lastTransitionTime": "2026-11-21T10:00:00Z",
    }


def _admission() -> dict[str, Any]:
    assignment = {
        "name": "main",
        "count": 2,
        "flavors": {"cpu": "l4", "nvidia.com/gpu": "l4"},
        "resourceUsage": {"cpu": "2", "nvidia.com/gpu": "2"},
    }
    return {"clusterQueue": "team-a", "podSetAssignments": [assignment]}


@pytest.fixture(scope="module")
def cluster(kueue_api: ApiServer) -> Iterator[ApiServer]:
    """A queue of four: one that waits for capacity, two for quota, one outside of it; and an unqueued Job."""
    api = kueue_api

    def put(manifest: dict[str, Any], path: str) -> Any:
        return api.apply(manifest, f"{path}/{manifest['metadata']['name']}")

    def set_status(name: str, **status: Any) -> None:
        manifest = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": name}}
        api.apply({**manifest, "status": status}, f"{KUEUE}{IN}/workloads/{name}/status")

    put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, "/api/v1/namespaces")
    v1 = {"apiVersion": "kueue.x-k8s.io/v1beta2"}
    put({**v1, "kind": "ClusterQueue", "metadata": {"name": "team-a"}, "spec": {}}, f"{KUEUE}/clusterqueues")
    local = {"metadata": {"name": "default", "namespace": NAMESPACE}, "spec": {"clusterQueue": "team-a"}}
    put({**v1, "kind": "LocalQueue", **local}, f"{KUEUE}{IN}/localqueues")
    reserved = put(_workload("reserved", priority=100), f"{KUEUE}{IN}/workloads")
    put(_workload("first", priority=1000), f"{KUEUE}{IN}/workloads")
    put(_workload("second", priority=100), f"{KUEUE}{IN}/workloads")
    outside = _workload("outside", priority=100, active=False)
    outside["metadata"]["annotations"] = {
        "muster.dev/retry-at": "2099-01-01T00:00:00Z",
        "muster.dev/tries": "1",
        "muster.dev/last-failure": "out of stock",
    }
    put(outside, f"{KUEUE}{IN}/workloads")
    check = {
        "name": "gang",
        "state": "Pending",
        "message": WAITS,
        "lastTransitionTime": "2026-11-21T10:00:00Z",
    }
    set_status(
        "reserved",
        conditions=[_condition("QuotaReserved", "True", "Quota reserved")],
        admission=_admission(),
        admissionChecks=[check],
    )
    set_status("second", conditions=[_condition("QuotaReserved", "False", LACKS)])
    _request(api, reserved["metadata"]["uid"])
    _event(api, reserved)
    yield api
    api.call("DELETE", f"/api/v1/namespaces/{NAMESPACE}")


def _request(api: ApiServer, uid: str) -> None:
    path = f"/apis/autoscaling.x-k8s.io/v1{IN}/provisioningrequests/muster-1"
    pod_sets = [{"count": 2, "podTemplateRef": {"name": "muster-1"}}]
    manifest = {
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": "ProvisioningRequest",
        "metadata": {"name": "muster-1", "labels": {"muster.dev/workload-uid": uid}},
        "spec": {"provisioningClassName": "queued-provisioning.gke.io", "podSets": pod_sets},
    }
    api.apply(manifest, path)
    status = {"conditions": [_condition("Accepted", "True", "in the queue of the cloud")]}
    head = {key: manifest[key] for key in ("apiVersion", "kind")} | {"metadata": {"name": "muster-1"}}
    api.apply({**head, "status": status}, f"{path}/status")


def _event(api: ApiServer, workload: dict[str, Any]) -> None:
    metadata = workload["metadata"]
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "reserved.1", "namespace": NAMESPACE},
        "involvedObject": {
            "kind": "Workload",
            "namespace": NAMESPACE,
            "name": metadata["name"],
            "uid": metadata["uid"],
        },
        "reason": "QuotaReserved",
        "type": "Normal",
        "message": "Quota reserved in ClusterQueue team-a",
        "lastTimestamp": "2026-11-21T10:00:00Z",
    }
    api.call("POST", f"/api/v1{IN}/events", event)


def _why(cluster: ApiServer, capsys: pytest.CaptureFixture[str], name: str, *more: str) -> str:
    assert main(["why", f"{NAMESPACE}/{name}", "--kubeconfig", str(cluster.admin), *more]) == 0
    return capsys.readouterr().out


def test_a_gang_waiting_for_capacity_shows_progress_and_deadline(
    cluster: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    said = _why(cluster, capsys, "reserved")
    assert said.startswith("team-a/reserved: has quota, waits for capacity\n")
    assert f"check gang: Pending: {WAITS}" in said
    assert "request muster-1 (2 pods in pool l4): Accepted: in the queue of the cloud" in said
    assert "QuotaReserved: Quota reserved in ClusterQueue team-a" in said


def test_a_job_waiting_for_quota_shows_the_shortage_and_its_position(
    cluster: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    said = _why(cluster, capsys, "second")
    assert "waits for quota" in said
    assert "position 2 of 2 in its queue, behind team-a/first" in said
    assert "1 more needed" in said


def test_a_job_outside_the_quota_shows_its_next_attempt(
    cluster: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    said = _why(cluster, capsys, "outside")
    assert "waits outside the quota" in said
    assert "released everything (out of stock); holds no quota; try 2 at 00:00 UTC" in said
    assert "to stop it: kubectl -n team-a annotate workload outside muster.dev/stop=true" in said


def test_a_stopped_job_shows_who_keeps_it_and_how_it_goes_on(
    cluster: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    def annotate(value: str | None) -> None:
        body = {"metadata": {"annotations": {"muster.dev/stop": value}}}
        content_type = "application/merge-patch+json"
        cluster.call("PATCH", f"{KUEUE}{IN}/workloads/outside", body, content_type=content_type)

    annotate("true")
    said = _why(cluster, capsys, "outside")
    annotate(None)
    assert said.startswith("team-a/outside: stopped\n")
    assert "stopped by annotation muster.dev/stop; holds no quota. Remove the annotation" in said
    assert "  in " not in said


def test_status_is_available_as_json(cluster: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(_why(cluster, capsys, "second", "--json"))
    assert (found["state"], found["line"]["position"], found["cluster_queue"]) == ("pending", 2, "team-a")
    assert SECRET not in json.dumps(found)


def test_a_job_without_a_queue_shows_the_label_to_set(
    cluster: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "lonely"}}
    cluster.apply({**job, "spec": {"template": {"spec": pod}}}, f"/apis/batch/v1{IN}/jobs/lonely")
    said = _why(cluster, capsys, "lonely")
    assert "not queued" in said
    assert "Fix: add the label kueue.x-k8s.io/queue-name: default." in said


def test_a_job_with_an_unknown_queue_shows_the_known_ones(
    cluster: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}
    metadata = {"name": "astray", "labels": {"kueue.x-k8s.io/queue-name": "nowhere"}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}
    cluster.apply({**job, "spec": {"template": {"spec": pod}}}, f"/apis/batch/v1{IN}/jobs/astray")
    said = _why(cluster, capsys, "astray")
    assert "uses queue 'nowhere', which this namespace does not have" in said
    assert "Fix: set the label kueue.x-k8s.io/queue-name: default." in said


def test_a_missing_job_is_reported(cluster: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "team-a/nobody", "--kubeconfig", str(cluster.admin)]) == 1
    assert "no job and no Workload" in capsys.readouterr().err


def test_an_invalid_token_is_refused_and_not_printed(
    cluster: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["why", "team-a/first", "--kubeconfig", str(cluster.kubeconfig("not-a-token"))]) == 3
    said = capsys.readouterr().err
    assert "answered 401" in said
    assert "not-a-token" not in said


def test_a_snapshot_of_a_real_server_is_written_and_read_again(
    cluster: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["snapshot", "--kubeconfig", str(cluster.admin)]) == 0
    text = capsys.readouterr().out
    found = json.loads(text)
    assert [each["name"] for each in found["workloads"]] == ["first", "outside", "reserved", "second"]
    assert [each["state"] for each in found["workloads"]] == ["pending", "inactive", "reserved", "pending"]
    assert found["workloads"][2]["pod_sets"][0]["usage"] == {"cpu": 2000, "nvidia.com/gpu": 2}
    assert SECRET not in text
