"""`muster why --recording`: what runs and waits is the cluster's, durations are the recording's."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.cli import main
from muster.model import names
from muster.model.stack import Scheduler
from muster.replay.player import PROGRAM
from muster.replay.recording import Header, Recording
from muster.replay.recording_file import write_recording
from tests import built
from tests.integration.conftest import ApiServer
from tests.integration.lab import recorded_job, run_of, write_stack

_KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
_HOUR = 3600.0
_START = 1_764_000_000.0


@pytest.fixture(scope="module", autouse=True)
def program() -> Path:
    return built.program(PROGRAM) or built.absent(PROGRAM, build=f"muster local build --only {PROGRAM}")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A stack, and a recording of an earlier day: the team's jobs took two hours each and had no GPU."""
    folder = tmp_path_factory.mktemp("live-forecast")
    write_stack(folder / "stack.yaml", {"forecast": {"quota": {"l4": 4}}}, nodes=4)
    jobs = tuple(
        recorded_job(
            f"past-{index:02}",
            "forecast",
            run_of(_START + index, 2 * _HOUR),
            created=_START + index,
            gpus=0,
            priority=0,
        )
        for index in range(24)
    )
    header = Header(scheduler=Scheduler.KUEUE, start=_START, end=_START + 30 * _HOUR, source="test")
    write_recording(folder / "month.jsonl", Recording(header=header, jobs=jobs))
    return folder / "stack.yaml", folder / "month.jsonl"


@pytest.fixture(scope="module")
def cluster(kueue_api: ApiServer) -> Iterator[ApiServer]:
    """One job of all 4 GPUs that has run for an hour, one that waits behind it, one outside the quota."""
    api = kueue_api
    space = f"{_KUEUE}/namespaces/forecast"

    def put(manifest: dict[str, Any], path: str) -> None:
        api.apply(manifest, f"{path}/{manifest['metadata']['name']}")

    put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "forecast"}}, "/api/v1/namespaces")
    for name in ("runs", "waits", "stopped"):
        put(_workload(name, active=name != "stopped"), f"{space}/workloads")
    since = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assignment = {
        "name": "main",
        "count": 4,
        "flavors": {"cpu": "l4", names.GPU_RESOURCE: "l4"},
        "resourceUsage": {"cpu": "4", names.GPU_RESOURCE: "4"},
    }
    status = {
        "admission": {"clusterQueue": "forecast", "podSetAssignments": [assignment]},
        "conditions": [
            {
                "type": kind,
                "status": "True",
                "reason": kind,
                "message": "as it is",
                "lastTransitionTime": since,
            }
            for kind in ("QuotaReserved", "Admitted")
        ],
    }
    body = {**_workload("runs"), "status": status}
    body.pop("spec")
    api.apply(body, f"{space}/workloads/runs/status")
    yield api
    for name in ("runs", "waits", "stopped"):
        api.call("DELETE", f"{space}/workloads/{name}")
    api.call("DELETE", "/api/v1/namespaces/forecast")


def _workload(name: str, *, active: bool = True) -> dict[str, Any]:
    resources = {"requests": {"cpu": "1", names.GPU_RESOURCE: "1"}}
    template = {
        "spec": {
            "containers": [{"name": "main", "image": "example.com/train", "resources": resources}],
            "restartPolicy": "Never",
            "nodeSelector": {names.POOL_LABEL: "l4"},
            "tolerations": [{"key": names.GPU_RESOURCE, "operator": "Exists"}],
        }
    }
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "forecast"},
        "spec": {
            "queueName": "default",
            "priority": 100,
            "active": active,
            "podSets": [{"name": "main", "count": 4, "template": template}],
        },
    }


def _why(cluster: ApiServer, files: tuple[Path, Path], *asked: str) -> int:
    stack, recording = files
    return main(
        [
            "why",
            *asked,
            *("--kubeconfig", str(cluster.admin), "--runs", "10"),
            *("--stack", str(stack), "--recording", str(recording)),
        ]
    )


def test_a_job_that_waits_in_the_cluster_starts_when_what_runs_there_has_ended(
    cluster: ApiServer, files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _why(cluster, files, "forecast/waits", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["state"], found["forecast"]["place"]) == ("pending", 1)
    forecast = found["forecast"]
    assert forecast["earliest"] == forecast["latest"] == pytest.approx(_HOUR, abs=120)
    assert [(each["jobs"], each["gpus"]) for each in forecast["ends"]] == [(1.0, 4.0)]


def test_the_text_has_the_status_and_the_forecast(
    cluster: ApiServer, files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _why(cluster, files, "forecast/waits") == 0
    shown = capsys.readouterr().out
    assert shown.startswith("forecast/waits: waits for quota\n")
    assert "Starts in" in shown
    assert "What runs and waits is read from the cluster" in shown


def test_a_job_that_is_not_submitted_waits_for_those_of_the_cluster(
    cluster: ApiServer, files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    resources = {"requests": {"cpu": "1"}, "limits": {names.GPU_RESOURCE: "1"}}
    pods = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i", "resources": resources}]}
    labels = {names.QUEUE_LABEL: "default", names.PRIORITY_LABEL: "dev"}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "labels": labels},
        "spec": {"parallelism": 4, "template": {"spec": pods}},
    }
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(job))
    assert _why(cluster, files, "-f", str(file), "--team", "forecast", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["place"], found["waiting"]) == (2, 2)
    assert found["median"] == pytest.approx(3 * _HOUR, abs=240)


def test_all_jobs_that_wait_in_the_cluster_are_forecast_and_no_other(
    cluster: ApiServer, files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _why(cluster, files, "--all", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["job"] for each in found["forecasts"]] == ["forecast/waits"]


def test_a_job_outside_the_quota_gets_no_forecast(
    cluster: ApiServer, files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _why(cluster, files, "forecast/stopped") == 0
    assert "no forecast: it does not wait for quota" in capsys.readouterr().out


def test_without_a_recording_the_place_is_all_that_is_known(
    cluster: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["why", "forecast/waits", "--kubeconfig", str(cluster.admin)]) == 0
    assert "no forecast of its start: that takes a recording of past jobs" in capsys.readouterr().out
