"""`muster submit`, `muster logs` and `muster top` against a real API server."""

import json
import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.cli import main
from tests.integration.conftest import ApiServer
from tests.integration.preview.test_why_and_snapshot import KUEUE
from tests.waiting import eventually

NAMESPACE = "team-s"
IN = f"/namespaces/{NAMESPACE}"
JOBS = f"/apis/batch/v1{IN}/jobs"
V1 = {"apiVersion": "kueue.x-k8s.io/v1beta2"}
POD = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}


@pytest.fixture
def cluster(kueue_api: ApiServer) -> Iterator[ApiServer]:
    """A team with a namespace and one queue, which is not called `default`."""
    labels = {"muster.dev/team": "vision"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}
    kueue_api.apply(namespace, f"/api/v1/namespaces/{NAMESPACE}")
    quota = {"name": "nvidia.com/gpu", "nominalQuota": "4"}
    group = {"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "l4", "resources": [quota]}]}
    queue = {
        **V1,
        "kind": "ClusterQueue",
        "metadata": {"name": "vision"},
        "spec": {"resourceGroups": [group]},
    }
    kueue_api.apply(queue, f"{KUEUE}/clusterqueues/vision")
    local = {**V1, "kind": "LocalQueue", "metadata": {"name": "gpus"}, "spec": {"clusterQueue": "vision"}}
    kueue_api.apply(local, f"{KUEUE}{IN}/localqueues/gpus")
    yield kueue_api
    for path in (f"{KUEUE}{IN}/workloads", f"{KUEUE}{IN}/localqueues", f"/api/v1{IN}/pods", JOBS):
        kueue_api.call("DELETE", path)
    kueue_api.call("DELETE", f"{KUEUE}/clusterqueues/vision")


def job_file(folder: Path, name: str, **spec: Any) -> str:
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": {"spec": POD}, **spec},
    }
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(body))
    return str(file)


def submit(cluster: ApiServer, file: str, *more: str) -> int:
    return main(["submit", file, "--team", "vision", "--kubeconfig", str(cluster.admin), *more])


def jobs(cluster: ApiServer) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in cluster.call("GET", JOBS)["items"]}


def finish(cluster: ApiServer, name: str, reason: str) -> None:
    """What Kueue would do: a Workload of the job, which ends."""
    eventually("the job is created", lambda: name in jobs(cluster))
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "controller": True}
    owner["uid"] = jobs(cluster)[name]["metadata"]["uid"]
    pod_sets = [{"name": "main", "count": 1, "template": {"spec": POD}}]
    head = {**V1, "kind": "Workload", "metadata": {"name": f"job-{name}", "ownerReferences": [owner]}}
    place = f"{KUEUE}{IN}/workloads/job-{name}"
    cluster.apply({**head, "spec": {"queueName": "gpus", "podSets": pod_sets}}, place)
    condition = {"type": "Finished", "status": "True", "reason": reason, "message": "it is over"}
    condition["lastTransitionTime"] = "2026-11-21T10:00:00Z"
    head["metadata"] = {"name": f"job-{name}"}
    cluster.apply({**head, "status": {"conditions": [condition]}}, f"{place}/status")


@pytest.mark.parametrize(("reason", "code"), [("Succeeded", 0), ("Failed", 1)])
def test_a_submitted_job_gets_namespace_and_queue_and_is_followed_to_its_end(
    cluster: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], reason: str, code: int
) -> None:
    name = f"train-{code}"
    threading.Thread(target=finish, args=(cluster, name, reason)).start()
    assert submit(cluster, job_file(tmp_path, name)) == code
    shown = capsys.readouterr()
    assert f"created Job team-s/{name} in queue gpus" in shown.err
    assert "it is over" in shown.out
    assert jobs(cluster)[name]["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "gpus"


def test_what_the_cluster_refuses_is_named_and_nothing_is_created(
    cluster: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert submit(cluster, job_file(tmp_path, "broken", paralelism=2)) == 1
    assert "Job broken: " in (error := capsys.readouterr().err)
    assert "paralelism" in error
    assert "broken" not in jobs(cluster)


def test_a_dry_run_prints_what_would_be_created(
    cluster: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert submit(cluster, job_file(tmp_path, "dry"), "--dry-run") == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    assert printed["metadata"]["namespace"] == NAMESPACE
    assert printed["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "gpus"}
    assert "dry" not in jobs(cluster)


def test_logs_of_a_job_without_pods_say_so(
    cluster: ApiServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert submit(cluster, job_file(tmp_path, "quiet"), "--no-follow") == 0
    assert main(["logs", f"{NAMESPACE}/quiet", "--kubeconfig", str(cluster.admin)]) == 1
    assert main(["logs", f"{NAMESPACE}/absent", "--kubeconfig", str(cluster.admin)]) == 1
    error = capsys.readouterr().err
    assert "team-s/quiet: no pods." in error
    assert "team-s/absent: there is no job of this name." in error


def test_top_shows_a_real_server_once_and_as_json(
    cluster: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["top", "--kubeconfig", str(cluster.admin), "--json"]) == 0
    queues = {each["name"]: each for each in json.loads(capsys.readouterr().out)["queues"]}
    assert queues["vision"]["flavors"] == [
        {"flavor": "l4", "resource": "nvidia.com/gpu", "quota": 4.0, "used": 0.0}
    ]
    assert main(["top", "--kubeconfig", str(cluster.admin), "--once"]) == 0
    assert "vision" in capsys.readouterr().out


def test_top_on_a_terminal_follows_changes_and_leaves_it_clean(cluster: ApiServer) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "60", "LINES": "20"}
    environment.pop("CI", None)
    command = [sys.executable, "-m", "muster", "top", "--kubeconfig", str(cluster.admin)]
    process = subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL, env=environment)
    os.close(theirs)
    written = bytearray()

    def has(text: bytes) -> bool:
        written.extend(os.read(ours, 1 << 16))
        return text in written

    eventually("the queue is shown", lambda: has(b"vision"))
    body = {**V1, "kind": "Workload", "metadata": {"name": "fresh"}}
    spec = {"queueName": "gpus", "podSets": [{"name": "main", "count": 1, "template": {"spec": POD}}]}
    cluster.apply({**body, "spec": spec}, f"{KUEUE}{IN}/workloads/fresh")
    eventually("the new job is shown", lambda: has(b"team-s/fresh"))
    process.send_signal(signal.SIGINT)
    eventually("the screen is given back", lambda: has(b"\x1b[?25h\x1b[?1049l"))
    assert process.wait() == 130
    os.close(ours)
    assert written.startswith(b"\x1b[?1049h\x1b[?25l")


def test_with_a_stack_a_job_is_judged_and_filled_in_before_the_cluster_is_asked(
    cluster: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-c"}}
    cluster.apply(namespace, "/api/v1/namespaces/team-c")
    command = ["submit", "examples/batch/job.yaml", "--stack", "stacks/Pulumi.local.yaml", "--dry-run"]
    command += ["--kubeconfig", str(cluster.admin)]
    assert main([*command, "--team", "team-c"]) == 0
    shown = capsys.readouterr()
    assert "Job primes: would be admitted" in shown.err
    assert yaml.safe_load(shown.out)["metadata"]["namespace"] == "team-c"
    assert main([*command, "--team", "team-a"]) == 1
    assert "Job primes: would be refused" in capsys.readouterr().err
