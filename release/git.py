"""What git says of the checkout."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from release.errors import ReleaseError

_TIMEOUT: Final = 60


def commit(root: Path) -> str:
    """The commit in full."""
    return _git(root, "rev-parse", "HEAD")


def committed_at(root: Path) -> int:
    """Seconds since 1970: the one time that everything in a release carries, so that it can be made again."""
    return int(_git(root, "log", "-1", "--format=%ct"))


def committer(root: Path) -> tuple[str, str]:
    """Name and address of the person whose commit it is."""
    name, _, email = _git(root, "log", "-1", "--format=%cn%x00%ce").partition("\0")
    return name, email


def commit_of_tag(root: Path, tag: str) -> str:
    """The commit that the tag stands for; "" where there is no such tag."""
    known = _git(root, "tag", "--list", tag)
    return _git(root, "rev-list", "-n", "1", tag) if known else ""


def changed(root: Path) -> list[str]:
    """Tracked files that differ from the commit, and files that git neither tracks nor ignores."""
    return [line[3:] for line in _git(root, "status", "--porcelain", "--untracked-files=all").splitlines()]


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ("git", *arguments), cwd=root, capture_output=True, text=True, timeout=_TIMEOUT, check=True
        )
    except FileNotFoundError as error:
        raise ReleaseError("git is not installed. Fix: install git.") from error
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        said = str(error.stderr or "").strip()
        raise ReleaseError(
            f"git {arguments[0]} in {root} failed: {said}. Fix: run `make release` in a checkout."
        ) from error
    return done.stdout.rstrip()
