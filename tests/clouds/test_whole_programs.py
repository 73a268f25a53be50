"""The project's whole program, every shipped stack of a cloud, previewed without a cloud, a registry or a
cluster, and judged by the shipped policy pack.

Charts come from a folder, as they do for a user whose cluster reaches no registry; those that cannot be had
offline are recorded ones.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clouds.engine import ROOT, checkout, workspace
from tests.clouds.stack_files import SHIPPED, completed, provider
from tests.clouds.standin.serve import Clouds

RELEASE = "kubernetes:helm.sh/v3:Release"


@pytest.mark.parametrize("stack", SHIPPED, ids=lambda stack: stack.stem)
def test_a_shipped_stack_is_previewed_whole_before_anything_stands(
    stack: Path, clouds: Clouds, charts: Path, tmp_path: Path
) -> None:
    name = stack.stem.removeprefix("Pulumi.")
    project = checkout(tmp_path / "project", completed(stack, tmp_path / stack.name, charts))
    # A breach of a mandatory policy ends the preview with an error.
    run = workspace(tmp_path / "ws", project, name, dict(clouds.environment)).preview(
        "--policy-pack", f"{ROOT / 'policies'}"
    )

    types = {step.type for step in run.changes}
    assert {step.op for step in run.changes} == {"create"}
    assert {"muster:k8s:Bundle", RELEASE, "muster:index:Guard"} <= types
    assert any(type_.startswith("gcp:" if provider(stack) == "gke" else "aws:") for type_ in types)
    assert "muster@v" in run.output
    assert not clouds.gcp.standing
    assert not clouds.aws.standing
