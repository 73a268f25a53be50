"""Which locks of Pulumi's file backend are left over, and what `make up` does about them."""

import json
import os
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from muster.local import LocalClusterError
from muster.local.demo.tour import free_stack
from muster.local.pulumi_locks import PulumiLock, locks_of

NOW = datetime.now(UTC)


def lock(backend: Path, *, pid: int, host: str | None = None, since: datetime = NOW) -> Path:
    folder = backend / ".pulumi/locks/organization/muster/local"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{pid}.json"
    # Go prints nanoseconds and `Z`.
    stamp = f"{since:%Y-%m-%dT%H:%M:%S.%f}000Z"
    content = {"pid": pid, "username": "ada", "hostname": host or socket.gethostname(), "timestamp": stamp}
    path.write_text(json.dumps(content))
    return path


def the_only(backend: Path) -> PulumiLock:
    (found,) = locks_of(backend, stack="local")
    return found


@pytest.fixture
def ended() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_lock_of_a_process_that_has_ended_is_left_over_and_removed(
    tmp_path: Path, ended: int, capsys: pytest.CaptureFixture[str]
) -> None:
    path = lock(tmp_path, pid=ended)
    assert the_only(tmp_path).is_left_over
    free_stack(tmp_path, named=())
    assert not path.exists()
    assert f"process {ended} of ada" in capsys.readouterr().out


def test_a_zombie_has_ended(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # ended, and its exit code is still there
        lock(tmp_path, pid=process.pid)
        assert the_only(tmp_path).is_left_over


def test_a_number_that_another_process_has_now_is_left_over(tmp_path: Path) -> None:
    lock(tmp_path, pid=os.getpid(), since=NOW - timedelta(days=900))
    assert the_only(tmp_path).is_left_over


def test_an_update_that_still_runs_keeps_its_lock_and_is_named(tmp_path: Path) -> None:
    path = lock(tmp_path, pid=os.getpid(), since=NOW + timedelta(seconds=1))
    with pytest.raises(LocalClusterError, match=rf"process {os.getpid()} of ada") as refused:
        free_stack(tmp_path, named=("--name", "second"))
    assert path.exists()
    assert "wait until that update has ended" in refused.value.fix
    assert 'eval "$(muster local env --name second)" && pulumi cancel --stack local' in refused.value.fix


def test_a_running_update_that_proc_does_not_show_keeps_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with `hidepid`, for an update of another user."""
    (tmp_path / "proc" / "self").mkdir(parents=True)
    monkeypatch.setattr("muster.local.pulumi_locks._PROC", tmp_path / "proc")
    lock(tmp_path, pid=os.getpid())
    assert not the_only(tmp_path).is_left_over


def test_a_lock_of_another_machine_is_kept(tmp_path: Path, ended: int) -> None:
    path = lock(tmp_path, pid=ended, host="elsewhere")
    assert not the_only(tmp_path).is_left_over
    with pytest.raises(LocalClusterError, match="on elsewhere") as refused:
        free_stack(tmp_path, named=())
    assert path.exists()
    assert "cannot be seen from here" in refused.value.fix


@pytest.mark.parametrize("text", ["", "[]", '{"pid": "x"}'])
def test_a_lock_that_cannot_be_read_is_kept_and_named(tmp_path: Path, text: str) -> None:
    path = lock(tmp_path, pid=1)
    path.write_text(text)
    with pytest.raises(LocalClusterError, match="cannot be read") as refused:
        free_stack(tmp_path, named=())
    assert str(path) in refused.value.what
    assert path.exists()


def test_locks_of_other_stacks_and_projects_are_not_touched(tmp_path: Path, ended: int) -> None:
    path = lock(tmp_path, pid=ended)
    other = path.parents[1] / "other"
    path.parent.rename(other)
    assert locks_of(tmp_path, stack="local") == []
    assert [found.pid for found in locks_of(tmp_path, stack="other")] == [ended]
