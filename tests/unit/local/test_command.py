"""Exit codes and messages of the command line, without a local cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.cli import main
from muster.local.cluster import local_cluster


@pytest.fixture(autouse=True)
def _no_clusters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_cluster, "RUN_ROOT", tmp_path / "run")
    monkeypatch.setenv("MUSTER_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("command", ["status", "logs", "kubeconfig", "env"])
def test_a_local_cluster_that_is_not_there_is_exit_code_3(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["local", command, "--name", "absent"]) == 3
    said = capsys.readouterr()
    assert "muster local up" in said.out + said.err


def test_taking_down_what_is_not_there_is_done_already(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["local", "down", "--name", "absent"]) == 0
    assert "there is no local cluster absent" in capsys.readouterr().out


def test_a_name_that_is_none_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["local", "status", "--name", "Bad!"]) == 2
    assert "lower-case letters" in capsys.readouterr().err
