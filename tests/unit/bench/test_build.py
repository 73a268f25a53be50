"""The commit that a trial records."""

import subprocess
from pathlib import Path

from bench.gangs import build


def _git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.com")
    done = subprocess.run(["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_build_is_its_commit_with_a_mark_for_changes(tmp_path: Path) -> None:
    assert build.here(tmp_path) == ""
    (tmp_path / "docs").mkdir()
    for name in ("program.py", "docs/results.json", "README.md"):
        (tmp_path / name).write_text("as it was\n")
    _git(tmp_path, "init", "-q")
    _git(tmp_path, "add", ".")
    _git(tmp_path, "commit", "-qm", "all of it")
    commit = _git(tmp_path, "rev-parse", "--short=7", "HEAD")
    (tmp_path / "docs" / "results.json").write_text("measured\n")
    (tmp_path / "README.md").write_text("said\n")
    (tmp_path / "notes").write_text("nobody's\n")
    assert build.here(tmp_path) == commit
    (tmp_path / "program.py").write_text("changed\n")
    assert build.here(tmp_path) == f"{commit}+"
