"""Each thing that stops a local cluster is one line with its fix, before any work is done."""

import os
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from muster.local import LocalClusterError, preflight
from muster.local.builder.versions import load

ROOT = Path(__file__).resolve().parents[3]
Usage = namedtuple("Usage", "total used free")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_CACHE", str(tmp_path))


def refusal() -> str:
    with pytest.raises(LocalClusterError) as caught:
        preflight.check()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_another_system_than_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "runs darwin; a local cluster needs Linux" in refusal()


def test_no_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "is not root" in refusal()
    assert "sudo" in refusal()


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**12, 10**12, 10**9))
    assert f"{tmp_path}: has 0.9 GiB free, 3 GiB are needed" in refusal()
    assert "MUSTER_CACHE=" in refusal()


def test_root_is_asked_for_before_any_python_package_is_there() -> None:
    """`make up` runs it before it installs."""
    code = (
        f"import os, runpy, sys; sys.path.insert(0, {str(ROOT)!r}); os.geteuid = lambda: 1; "
        "runpy.run_module('muster.local.preflight', run_name='__main__')"
    )
    command = [sys.executable, "-I", "-S", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: this user: is not root; ")
    assert done.stderr.endswith("run with sudo\n")


def test_a_missing_package_that_may_not_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(preflight, "_memory", lambda: None)
    monkeypatch.setenv("MUSTER_NO_INSTALL", "1")
    gone = load().packages["buildah"]
    monkeypatch.setattr(preflight, "missing", lambda: [gone])
    assert refusal() == "this machine: lacks buildah; install them: apt-get install buildah"


def test_the_doctor_installs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "check_host", lambda: None)
    monkeypatch.setattr(preflight, "missing", lambda: [load().packages["buildah"]])
    monkeypatch.setattr(preflight, "install", lambda _: pytest.fail("installs"))
    with pytest.raises(LocalClusterError, match="lacks buildah; apt-get install buildah, or let `muster"):
        preflight.check(may_install=False)


def test_a_failed_installation_shows_the_package_managers_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 100, "", "noise\nE: Unable to locate package runc\n")

    monkeypatch.delenv("MUSTER_NO_INSTALL", raising=False)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: "/usr/bin/apt-get")
    monkeypatch.setattr(subprocess, "run", failing)
    with pytest.raises(
        LocalClusterError, match="E: Unable to locate package runc; install by hand: apt-get install runc"
    ):
        preflight.install([load().packages["runc"]])
