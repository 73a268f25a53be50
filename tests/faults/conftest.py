"""One plane for all tests of a process, and what each of them begins and ends with."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests import built
from tests.faults import ending, gangs
from tests.faults import plane as planes
from tests.faults.plane import Plane
from tests.faults.proxy import Proxy
from tests.faults.seeds import is_soak
from tests.faults.stage import Stage

NEEDED: Final = (("etcd", "kube-apiserver", "kueue"), ("kueue-crds", "provisioningrequest-crd"))


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    programs = built.programs(*NEEDED)
    with planes.plane(tmp_path_factory.mktemp("faults"), programs) as made:
        yield made


@pytest.fixture(scope="session")
def undisturbed(plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """How a gang's story ends when nothing happens: what all the others are compared with."""
    with Proxy(plane.server).serving() as proxy:
        stage = Stage(plane, proxy, tmp_path_factory.mktemp("undisturbed"))
        with stage.manager().kept() as manager:
            stage.opens()
            name = stage.submit()
            stage.eventually("it is admitted", lambda: gangs.is_admitted(plane, name))
            seen = ending.picture(plane, name)
            stage.end(name)
            stage.judge()
        stage.finish()
        assert manager.exits == []
        assert (seen["state"], seen["templates"], len(seen["requests"])) == ("Ready", 2, 2)
        return seen


@pytest.fixture
def stage(plane: Plane, undisturbed: dict[str, Any], tmp_path: Path) -> Iterator[Stage]:
    with Proxy(plane.server).serving() as proxy:
        made = Stage(plane, proxy, tmp_path, undisturbed)
        try:
            yield made
        finally:
            made.clear()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is marked `soak` takes minutes: `make soak` runs it."""
    if not is_soak():
        for item in items:
            if item.get_closest_marker("soak"):
                item.add_marker(pytest.mark.skip(reason="exhaustive: make soak"))
