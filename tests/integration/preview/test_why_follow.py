"""`muster why` beyond admission, against a real API server: pods, everything that waits, `--watch`."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from muster.cli import main
from tests.integration.conftest import ApiServer
from tests.integration.preview.test_why_and_snapshot import KUEUE

NAMESPACE = "team-f"
IN = f"/namespaces/{NAMESPACE}"
IMAGE = "rayproject/ray:2.54.1"
V1 = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload"}


@pytest.fixture
def cluster(kueue_api: ApiServer) -> Iterator[ApiServer]:
    """A Job of two pods that was admitted, and one Workload that waits for quota."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    kueue_api.apply(namespace, f"/api/v1/namespaces/{NAMESPACE}")
    containers = [{"name": "main", "image": IMAGE}]
    pod: dict[str, Any] = {"restartPolicy": "Never", "containers": containers}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}}
    made = kueue_api.apply({**job, "spec": {"template": {"spec": pod}}}, f"/apis/batch/v1{IN}/jobs/train")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": made["metadata"]["uid"]}
    for name, owners in (("job-train", [{**owner, "controller": True}]), ("later", [])):
        spec = {"queueName": "default", "podSets": [{"name": "main", "count": 2, "template": {"spec": pod}}]}
        metadata: dict[str, Any] = {"name": name, "ownerReferences": owners}
        kueue_api.apply({**V1, "metadata": metadata, "spec": spec}, f"{KUEUE}{IN}/workloads/{name}")
    set_conditions(kueue_api, "job-train", QuotaReserved="True", Admitted="True")
    for name in ("train-0", "train-1"):
        metadata = {
            "name": name,
            "labels": {"kueue.x-k8s.io/podset": "main"},
            "ownerReferences": [owner],
        }
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod}
        kueue_api.apply(body, f"/api/v1{IN}/pods/{name}")
        pulling = {"name": "main", "image": IMAGE, "imageID": "", "ready": False, "restartCount": 0}
        pulling["state"] = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
        set_status(kueue_api, name, phase="Pending", containerStatuses=[pulling])
    yield kueue_api
    for path in (f"{KUEUE}{IN}/workloads", f"/api/v1{IN}/pods", f"/apis/batch/v1{IN}/jobs"):
        kueue_api.call("DELETE", path)


def set_conditions(api: ApiServer, workload: str, **conditions: str) -> None:
    since = {"reason": "Succeeded", "message": "", "lastTransitionTime": "2026-11-21T10:00:00Z"}
    listed = [{"type": kind, "status": status, **since} for kind, status in conditions.items()]
    body = {**V1, "metadata": {"name": workload}, "status": {"conditions": listed}}
    api.apply(body, f"{KUEUE}{IN}/workloads/{workload}/status")


def set_status(api: ApiServer, pod: str, **status: Any) -> None:
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod}, "status": status}
    api.apply(body, f"/api/v1{IN}/pods/{pod}/status")


def test_pods_that_cannot_pull_their_image_are_named_in_the_context_s_namespace(
    cluster: ApiServer, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    config = yaml.safe_load(cluster.admin.read_text())
    config["contexts"][0]["context"]["namespace"] = NAMESPACE
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(config))
    assert main(["why", "train", "--kubeconfig", str(file)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("team-f/job-train: started: 0 of 2 pods ready\n")
    assert f"2 pods (main): ErrImagePull: {IMAGE}: not found" in text


def test_without_a_name_everything_that_waits_is_listed(
    cluster: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    for which in (("-n", NAMESPACE), ("--all-namespaces",)):
        assert main(["why", *which, "--kubeconfig", str(cluster.admin)]) == 0
        rows = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
        assert ["team-f/train", "started:"] in rows
        assert ["team-f/later", "waits"] in rows
    set_status(cluster, "train-0", phase="Succeeded")
    set_status(cluster, "train-1", phase="Succeeded")
    assert main(["why", "-n", NAMESPACE, "--json", "--kubeconfig", str(cluster.admin)]) == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)["waiting"]] == ["later"]


def test_watch_shows_what_changes_and_ends_with_the_job(
    cluster: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-21T10:00:00Z"}

    def go_on() -> None:
        set_status(cluster, "train-0", phase="Running", conditions=[ready])
        set_conditions(cluster, "job-train", QuotaReserved="True", Admitted="True", Finished="True")

    threading.Timer(1.0, go_on).start()
    assert main(["why", f"{NAMESPACE}/train", "--watch", "--kubeconfig", str(cluster.admin)]) == 0
    lines = [line.partition(" UTC  ")[2] for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "team-f/job-train: started: 0 of 2 pods ready"
    assert "team-f/job-train: finished" in lines
    assert len(lines) == len(set(lines))
