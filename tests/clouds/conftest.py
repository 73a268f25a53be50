"""Stand-in clouds for a module's tests, each test with empty ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clouds.engine import ROOT, Workspace, workspace
from tests.clouds.handed import NOBODY
from tests.clouds.standin.cloud import PACE
from tests.clouds.standin.serve import Clouds

PROGRAMS = Path(__file__).parent / "programs"
ClusterOf = Callable[[Path], Workspace]


@pytest.fixture(scope="session")
def serving() -> Iterator[Clouds]:
    with Clouds().serving() as clouds:
        yield clouds


@pytest.fixture
def clouds(serving: Clouds) -> Clouds:
    """Empty clouds without faults, at their usual pace."""
    for cloud in (serving.gcp, serving.aws):
        for part in (cloud.handed, cloud.given, cloud.standing, cloud.faults, cloud.log):
            part.clear()
        cloud.pace = PACE
    NOBODY.to(serving)
    return serving


@pytest.fixture
def cluster_of(clouds: Clouds, tmp_path: Path) -> ClusterOf:
    """A workspace for the cluster half of a stack file."""

    def of(stack: Path) -> Workspace:
        environment = {
            **clouds.environment,
            "PYTHONPATH": str(ROOT),
            "PULUMI_PYTHON_CMD": str(ROOT / ".venv" / "bin" / "python"),
            "CLUSTER_STACK": str(stack),
        }
        return workspace(tmp_path / "pulumi", PROGRAMS / "cluster", stack.stem.lower(), environment)

    return of
