"""Leaves out of a short run what length.py says."""

from pathlib import Path

import pytest

from tests.length import is_long, is_short


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Not even imported; None leaves the decision to pytest."""
    inside = collection_path.is_relative_to(config.rootpath)
    path = collection_path.relative_to(config.rootpath).as_posix() if inside else ""
    return True if is_short() and is_long(path) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if is_short():
        long = [item for item in items if is_long(item.nodeid)]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not is_long(item.nodeid)]
