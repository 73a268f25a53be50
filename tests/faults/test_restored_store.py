"""docs/restore.md: every API server stops, etcd goes back to an older backup, and all starts again."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests import built
from tests.faults import etcd, gangs, history
from tests.faults import plane as planes
from tests.faults.conftest import NEEDED
from tests.faults.plane import Plane
from tests.faults.proxy import Proxy
from tests.faults.seeds import is_soak
from tests.faults.stage import Stage

_FILLER: Final = "ZmlsbGVy"
# `make soak` runs both.
_REVISIONS: Final = (True, False) if is_soak() else (True,)


@pytest.fixture
def own_stage(undisturbed: dict[str, Any], tmp_path: Path) -> Iterator[Stage]:
    """A control plane for one test, because the restore would break the others that share one."""
    folder = tmp_path / "plane"
    folder.mkdir()
    with planes.plane(folder, built.programs(*NEEDED)) as plane, Proxy(plane.server).serving() as proxy:
        yield Stage(plane, proxy, tmp_path, undisturbed)


@pytest.mark.parametrize(
    "is_raised", _REVISIONS, ids=lambda is_raised: "raised" if is_raised else "as it was"
)
def test_gangs_go_on_from_an_older_backup_of_etcd(own_stage: Stage, is_raised: bool) -> None:
    """`is_raised`: the revision goes on above all that was ever seen, as with `etcdutl snapshot restore
    --bump-revision --mark-compacted`. Then Kueue lives on too.
    """
    stage = own_stage
    with stage.manager().kept() as manager:
        stage.opens()
        runs = stage.submit()
        stage.runs(runs)
        stage.plane.fault("silent", pool="l4", kind="silence")
        gathers = stage.submit()
        stage.waits(gathers)
        backup = _backed_up(stage)
        # What the backup does not know.
        stage.end(runs)
        stage.plane.mend()
        later = stage.submit()
        stage.runs(gathers, later)

        _restore(stage, backup, is_raised=is_raised)
        stage.eventually("its gangs are served", lambda: gangs.is_admitted(stage.plane, runs))
        assert not gangs.is_admitted(stage.plane, gathers)
        assert gangs.read(stage.plane, later) is None
        stage.plane.mend()
        stage.runs(runs, gathers)
        new = stage.submit()
        stage.runs(new)
        stage.end(runs, gathers, new)
        stage.judge()
    assert set(manager.exits) == {1}
    assert "as after a restore of etcd" in stage.log.read_text()
    stage.finish()


def _backed_up(stage: Stage) -> Path:
    store, folder = stage.plane.server.store, stage.folder / "backup"
    store.stop()
    shutil.copytree(_data(stage.plane), folder)
    store.start()
    stage.eventually("the API server reads again", lambda: stage.plane.server.call("GET", "/api/v1/nodes"))
    return folder


def _restore(stage: Stage, backup: Path, *, is_raised: bool) -> None:
    server, last = stage.plane.server, history.revision(stage.plane.server.etcd)
    server.kill()
    server.store.stop()
    shutil.rmtree(_data(stage.plane))
    shutil.copytree(backup, _data(stage.plane))
    server.store.start()
    stage.began = stage.eventually("the store is back", lambda: history.revision(server.etcd))
    assert stage.began < last
    if is_raised:
        stage.began = _raise(server.etcd, above=last)
    server.start()
    # The simulated cloud believes that what it saw deleted never comes back.
    restarted = [stage.plane.cloud] if is_raised else [stage.plane.cloud, stage.plane.kueue]
    for process in restarted:
        process.kill()
        process.start()


def _raise(store: str, *, above: int) -> int:
    """The revision from which the store knows its history."""
    while (revision := history.revision(store)) <= above:
        etcd.ask(store, "kv/put", {"key": _FILLER})
    etcd.ask(store, "kv/compaction", {"revision": str(revision), "physical": True})
    return revision


def _data(plane: Plane) -> Path:
    return plane.server.folder / "etcd"
