"""One control plane with the real Kueue for all tests of the library."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from muster.config import load
from muster.render import kueue
from tests import built, envtest
from tests.clouds.engine import ROOT, Workspace, workspace
from tests.envtest.kueue import definitions
from tests.integration.library.world import EXAMPLES, Cluster, Engine

_CHART: Final = "kueue-chart"
_NEEDED: Final = (
    ("etcd", "kube-apiserver", "kube-controller-manager", "kueue"),
    ("kueue-crds", "provisioningrequest-crd", _CHART),
)
_PYTHON: Final = {"PYTHONPATH": str(ROOT), "PULUMI_PYTHON_CMD": str(ROOT / ".venv" / "bin" / "python")}


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    programs = built.programs(*_NEEDED)
    built.tools()
    folder = tmp_path_factory.mktemp("library")
    with envtest.control_plane(folder, programs, kinds=definitions(programs)) as plane:
        config = kueue.manager_config(load(EXAMPLES / "queues-alone" / "teams.yaml"))
        with (
            envtest.controllers(
                plane,
                programs,
                ("garbage-collector-controller", "namespace-controller", "resourcequota-controller"),
            ),
            envtest.kueue(plane, programs, config=config, chart=programs.assets[_CHART]),
        ):
            yield Cluster(plane, folder)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """A new stack of a program, which lies as deep below the checkout as the examples do."""
    _forget_schemas()
    for name in ("muster", "components", "policies"):
        (tmp_path / name).symlink_to(ROOT / name)
    programs = tmp_path / "examples" / "library"
    shutil.copytree(EXAMPLES, programs)
    for name in ("cluster", "remote"):
        shutil.copytree(Path(__file__).parent / name, programs / name)

    def of(name: str, *, state: Path | None = None, **environment: str) -> Workspace:
        known = dict(_PYTHON)
        if state is not None:
            known["PULUMI_BACKEND_URL"] = state.as_uri()
        return workspace(tmp_path / f"engine-{name}", programs / name, "test", {**known, **environment})

    yield of
    _forget_schemas()


def _forget_schemas() -> None:
    """The engine keeps the schema beside a plugin, and does not notice that components changed."""
    for schema in (ROOT / "components").rglob("schema-muster-components*.json"):
        schema.unlink(missing_ok=True)
