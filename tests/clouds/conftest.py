"""Stand-in clouds for a module's tests, each test with empty ones."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.clouds.charts import offline
from tests.clouds.cluster import Standing, standing
from tests.clouds.engine import ROOT, Workspace, workspace
from tests.clouds.handed import NOBODY
from tests.clouds.legal import trust
from tests.clouds.standin.cloud import PACE
from tests.clouds.standin.serve import Clouds
from tests.clouds.standin.tables.eks import ROLE_TYPE
from tests.clouds.standin.tables.google_project import ACCOUNT_TYPE

PROGRAMS = Path(__file__).parent / "programs"
# Every cluster of GKE serves it.
_CLASSES = Path(__file__).parent / "cluster" / "computeclasses.yaml"
# Identities that the tests' own stacks name, made by somebody else before.
_ACCOUNT = "projects/acme-data/serviceAccounts/vision@acme-data.iam.gserviceaccount.com"
_ROLE = "arn:aws:iam::123456789012:role/vision"
ClusterOf = Callable[[Path], Workspace]


@pytest.fixture(scope="session")
def serving() -> Iterator[Clouds]:
    with Clouds().serving() as clouds:
        yield clouds


@pytest.fixture(scope="session")
def charts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `muster:charts.path` names for a stack of a cloud."""
    return offline(tmp_path_factory.mktemp("charts"))


@pytest.fixture(scope="module")
def cluster(serving: Clouds, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    """A Kubernetes that the clouds can hand out; each test leaves it empty."""
    with standing(tmp_path_factory.mktemp("cluster"), serving) as made:
        made.plane.define([yaml.safe_load(_CLASSES.read_text())])
        yield made


@pytest.fixture
def clouds(serving: Clouds) -> Clouds:
    """Clouds without faults, at their usual pace, that hold what others made and nothing else."""
    for cloud in (serving.gcp, serving.aws):
        for part in (cloud.handed, cloud.given, cloud.standing, cloud.faults, cloud.log):
            part.clear()
        cloud.pace, cloud.takes_deprecated = PACE, False
    serving.gcp.given[ACCOUNT_TYPE, _ACCOUNT] = {}
    trusting = trust("pods.eks.amazonaws.com", "sts:AssumeRole", "sts:TagSession")
    serving.aws.given[ROLE_TYPE, _ROLE] = {"assumeRolePolicy": trusting}
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
