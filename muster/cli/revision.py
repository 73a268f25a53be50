"""The base of a comparison from git: which commit, and what a stack file was there."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from muster.errors import ExitCode, MusterError

_DEFAULT_BRANCHES: Final = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
_SECONDS: Final = 60


def default_revision(folder: Path) -> str:
    """The commit where this branch left the default branch; HEAD where there is no default branch.

    On the default branch itself that is HEAD, so that what is not committed is compared.
    """
    if (
        _git(folder, "rev-parse", "--git-dir") is None
        or _git(folder, "rev-parse", "--verify", "HEAD") is None
    ):
        raise MusterError(
            f"{folder}: is not in a git repository with a commit, so there is no base to compare with.",
            fix="name one: --base FILE, or --base none for a new stack.",
        )
    for branch in _DEFAULT_BRANCHES:
        if found := _git(folder, "merge-base", "HEAD", branch):
            return found.decode().strip()
    return "HEAD"


def check_revision(revision: str, folder: Path) -> None:
    """MusterError when git knows no such commit."""
    if _git(folder, "rev-parse", "--quiet", "--verify", "--end-of-options", f"{revision}^{{commit}}") is None:
        raise MusterError(
            f"--base {revision}: is no file and no commit.",
            fix="name a stack file, a git revision such as origin/main, or none.",
        )


def file_at(revision: str, file: Path, *, into: Path) -> Path | None:
    """Write the file as it was at that revision into a directory; None when it was not there."""
    folder = _existing(file.parent)
    inside = file.absolute().relative_to(folder.absolute())
    content = _git(folder, "cat-file", "blob", f"{revision}:./{inside.as_posix()}")
    if content is None:
        return None
    into.mkdir(parents=True, exist_ok=True)
    target = into / file.name
    target.write_bytes(content)
    return target


def _existing(folder: Path) -> Path:
    """The nearest directory at or above that is there: a change may delete the last stack of a directory."""
    return next(each for each in (folder.absolute(), *folder.absolute().parents) if each.is_dir())


def _git(folder: Path, *arguments: str) -> bytes | None:
    """Standard output; None when git refuses."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, timeout=_SECONDS, check=False
        )
    except FileNotFoundError:
        fix = "install git, or name the base's file: --base FILE."
        raise MusterError("git is not on PATH.", fix=fix, exit_code=ExitCode.OUTSIDE) from None
    return done.stdout if done.returncode == 0 else None
