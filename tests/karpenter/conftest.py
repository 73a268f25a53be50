"""One plane with Karpenter for all tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.karpenter.world import World
from tests.karpenter.world import world as fresh


@pytest.fixture(scope="session")
def _shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with fresh(tmp_path_factory.mktemp("karpenter")) as made:
        yield made


@pytest.fixture
def world(_shared: World) -> Iterator[World]:
    """Without work, without nodes, and with a cloud that has everything."""
    _shared.sells()
    yield _shared
    _shared.clear()
