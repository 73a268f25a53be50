"""A seeded node shares what never changes and owns what does."""

from pathlib import Path

import pytest

from muster.local import LocalClusterError
from muster.local.builder.store import _COPIED, _LINKED, seed


@pytest.fixture
def store(tmp_path: Path) -> Path:
    root = tmp_path / "store"
    for relative in _LINKED:
        (root / relative / "1").mkdir(parents=True)
        (root / relative / "1" / "file").write_text("layer")
    for relative in _COPIED:
        (root / relative).parent.mkdir(parents=True, exist_ok=True)
        (root / relative).write_text("database")
    return root


def test_layers_are_linked_and_databases_are_copied(store: Path, tmp_path: Path) -> None:
    node = tmp_path / "node"
    seed(store, node)
    for relative in _LINKED:
        file = f"{relative}/1/file"
        assert (node / file).samefile(store / file)
    for relative in _COPIED:
        assert (node / relative).read_text() == "database"
        assert not (node / relative).samefile(store / relative)


def test_what_a_node_writes_or_removes_stays_its_own(store: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    seed(store, first)
    seed(store, second)
    (first / _COPIED[0]).write_text("changed")
    (first / _LINKED[0] / "1" / "file").unlink()
    (first / _LINKED[1] / "2").mkdir()
    for other in (store, second):
        assert (other / _COPIED[0]).read_text() == "database"
        assert (other / _LINKED[0] / "1" / "file").read_text() == "layer"
        assert not (other / _LINKED[1] / "2").exists()


def test_another_disk_is_one_clear_error(store: Path) -> None:
    node = Path("/dev/shm/muster-seed-test")
    if node.parent.stat().st_dev == store.stat().st_dev:
        pytest.skip("/dev/shm is on the disk of the temporary directory")
    try:
        with pytest.raises(LocalClusterError, match="file system of the cache"):
            seed(store, node)
    finally:
        for path in sorted(node.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        if node.exists():
            node.rmdir()
