"""A project outside the checkout takes over the stack of the checkout, changes it, and runs the gang."""

import json
import subprocess
from collections.abc import Callable
from functools import partial

import pytest

from muster.model.names import SYSTEM_NAMESPACE
from muster.render import recorder
from muster.replay.recording import End, Job
from muster.replay.recording_file import load_recording
from tests.e2e.local_cluster import Muster
from tests.project import Project, install_requirements, project, run

__all__ = ["project"]


@pytest.fixture(scope="module")
def installed(project: Project) -> Project:
    install_requirements(project)
    return project


@pytest.fixture
def outside(muster: Muster, installed: Project) -> Callable[..., str]:
    """Runs a command in the project's folder, on the local cluster."""
    return partial(run, folder=installed.folder, environment=muster.environment)


def test_project_of_the_wheel_deploys_a_change_and_runs_the_gang(
    muster: Muster, installed: Project, outside: Callable[..., str]
) -> None:
    stack = installed.folder / "stacks" / "Pulumi.local.yaml"
    pulumi = partial(outside, "pulumi", "--non-interactive", "--stack", "local")
    outside(installed.muster, "validate")
    # The checkout deployed this state. The program of the project finds nothing to change in it.
    pulumi("preview", "--expect-no-changes")

    before = stack.read_text(encoding="utf-8")
    stack.write_text(_changed(before), encoding="utf-8")
    try:
        pulumi("up", "--yes", "--skip-preview")
        assert _weight(muster) == "3"
        told = outside(installed.muster, "local", "story", "gang", "--json")
        assert json.loads(told.splitlines()[-1])["result"] == "succeeded"
        copy = installed.folder / "recording.jsonl.gz"
        copy.write_bytes(_recording(muster))
        assert any(_has_run(job) for job in load_recording(copy).jobs)
    finally:
        stack.write_text(before, encoding="utf-8")
        pulumi("up", "--yes", "--skip-preview")
    assert _weight(muster) == "2"


def _changed(text: str) -> str:
    """Another weight, and a recorder that forecasts. The local cluster has no StorageClass for it."""
    before, after = (
        "  muster:scheduler: kueue\n",
        "  muster:recording: {enabled: true, ephemeral: true, forecasts: true}\n",
    )
    assert "weight: 2," in text
    assert before in text
    return text.replace("weight: 2,", "weight: 3,").replace(before, before + after)


def _recording(muster: Muster) -> bytes:
    """The copy that a person takes out of the recorder's pod."""
    command = ["kubectl", "exec", "--namespace", SYSTEM_NAMESPACE, f"deployment/{recorder.NAME}", "--"]
    command += ["python3", "-m", "muster.replay", "print"]
    return subprocess.run(
        command, env=muster.environment, check=True, timeout=60, stdout=subprocess.PIPE
    ).stdout


def _has_run(job: Job) -> bool:
    return job.outcome is End.FINISHED and any(run.admitted for run in job.runs)


def _weight(muster: Muster) -> str:
    queue = muster.cluster.get("ClusterQueue", "team-a") or {}
    return str(queue["spec"]["fairSharing"]["weight"])
