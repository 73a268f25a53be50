"""The project's whole program, every shipped stack of it, previewed without a cloud, a registry or a cluster.

Charts and images that cannot be had offline are recorded ones; the rest is what the local plane built.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import stackconfig
from model.stack import Scheduler
from tests.clouds import recording
from tests.clouds.engine import ROOT, checkout, workspace
from tests.clouds.stack_files import SHIPPED, edited, provider
from tests.clouds.standin.serve import Clouds
from tests.unit.model import chart_values

RELEASE = "kubernetes:helm.sh/v3:Release"
# KAI comes from its registry alone.
OFFLINE = [stack for stack in SHIPPED if stackconfig.load(stack).scheduler is Scheduler.KUEUE]


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the plane built, with stand-ins for what nobody can build here."""
    folder = tmp_path_factory.mktemp("artifacts")
    file = folder / "artifacts.json"
    command = [sys.executable, "-m", "localplane.build", "--artifacts", str(file)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=600, stdout=subprocess.DEVNULL)
    found = json.loads(file.read_text())
    found["images"]["cluster-autoscaler"] = found["images"]["pause"]
    found["charts"]["gpu-operator"] = str(
        recording.chart(
            folder / "gpu-operator", name="gpu-operator", version="26.7.0", paths=recording.GPU_OPERATOR
        )
    )
    file.write_text(json.dumps(found))
    return file


@pytest.mark.parametrize("stack", OFFLINE, ids=lambda stack: stack.stem)
def test_a_shipped_stack_is_previewed_whole_before_anything_stands(
    stack: Path, clouds: Clouds, artifacts: Path, tmp_path: Path
) -> None:
    name = stack.stem.removeprefix("Pulumi.")
    local = edited(stack, tmp_path / stack.name, {"muster:artifacts": "local"})
    environment = {**clouds.environment, "MUSTER_ARTIFACTS": str(artifacts)}
    run = workspace(tmp_path / "ws", checkout(tmp_path / "project", local), name, environment).preview()

    types = {step.type for step in run.changes}
    assert {step.op for step in run.changes} == {"create"}
    assert {"muster:k8s:Bundle", RELEASE, "muster:index:Guard"} <= types
    assert any(type_.startswith("gcp:" if provider(stack) == "gke" else "aws:") for type_ in types)
    assert not clouds.gcp.standing
    assert not clouds.aws.standing


def test_the_recording_chart_knows_only_paths_that_the_chart_has() -> None:
    published = chart_values.published("gpu-operator-v26.7.0.yaml")
    if not published.is_file():
        return
    theirs = chart_values.read(published)
    for path in recording.GPU_OPERATOR:
        here = theirs
        for step in path.split("."):
            assert step in here, path
            here = here[step]
            if not here:
                break


def test_the_recording_chart_refuses_a_value_that_nobody_has_looked_up(tmp_path: Path) -> None:
    folder = recording.chart(tmp_path / "chart", name="c", version="1.0.0", paths=["driver.enabled"])
    schema = json.loads((folder / "values.schema.json").read_text())
    assert schema["additionalProperties"] is False
    assert schema["properties"]["driver"]["additionalProperties"] is False
    assert set(schema["properties"]["driver"]["properties"]) == {"enabled"}
