"""A project outside the checkout takes over the stack of the checkout, changes it, and runs the gang."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

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

    _weigh(stack, "weight: 2,", "weight: 3,")
    try:
        pulumi("up", "--yes", "--skip-preview")
        assert _weight(muster) == "3"
        told = outside(installed.muster, "local", "story", "gang", "--json")
        assert json.loads(told.splitlines()[-1])["result"] == "succeeded"
    finally:
        _weigh(stack, "weight: 3,", "weight: 2,")
        pulumi("up", "--yes", "--skip-preview")
    assert _weight(muster) == "2"


def _weigh(stack: Path, before: str, after: str) -> None:
    text = stack.read_text(encoding="utf-8")
    assert before in text
    stack.write_text(text.replace(before, after), encoding="utf-8")


def _weight(muster: Muster) -> str:
    queue = muster.cluster.get("ClusterQueue", "team-a") or {}
    return str(queue["spec"]["fairSharing"]["weight"])
