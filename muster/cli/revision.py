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
    if _git(folder, "rev-parse", "--verify", "HEAD") is None:
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
    if not is_revision(revision, folder):
        raise MusterError(
            f"--base {revision}: is no file and no commit.",
            fix="name a stack file, a git revision such as origin/main, or none.",
        )


def is_revision(text: str, folder: Path) -> bool:
    """Whether git knows the text as a commit."""
    commit = f"{text}^{{commit}}"
    return _git(folder, "rev-parse", "--quiet", "--verify", "--end-of-options", commit) is not None


def files_at(revision: str, inside: str, folder: Path) -> list[tuple[str, bytes]] | None:
    """Every file below a path at that revision, by its name below it; of a file the name is "". None when the
    path was not there. `inside` begins at the repository's root, or with `./` at the folder.
    """
    at = f"{revision}:{inside}"
    kind = _git(folder, "cat-file", "-t", at)
    if kind is None:
        return None
    if kind.strip() == b"blob":
        return [("", _git(folder, "cat-file", "blob", at) or b"")]
    listed = (_git(folder, "ls-tree", "-r", "-z", "--full-tree", at) or b"").split(b"\0")
    entries = [each.partition(b"\t") for each in listed if each.startswith(b"100")]
    blobs = _git(
        folder, "cat-file", "--batch", stdin=b"".join(head.split()[2] + b"\n" for head, _, _ in entries)
    )
    found, start = [], 0
    for _, _, name in entries:
        end = (blobs or b"").index(b"\n", start)
        size = int((blobs or b"")[start:end].split()[2])
        found.append((name.decode(errors="replace"), (blobs or b"")[end + 1 : end + 1 + size]))
        start = end + size + 2
    return found


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


def _git(folder: Path, *arguments: str, stdin: bytes = b"") -> bytes | None:
    """Standard output; None when git refuses. MusterError where it trusts no repository of another user."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            timeout=_SECONDS,
            check=False,
            input=stdin,
        )
    except FileNotFoundError:
        fix = "install git, or name the base's file: --base FILE."
        raise MusterError("git is not on PATH.", fix=fix, exit_code=ExitCode.OUTSIDE) from None
    if done.returncode and b"dubious ownership" in done.stderr:
        raise MusterError(
            f"{folder}: git refuses the repository, because another user owns it (dubious ownership).",
            fix=f"git config --global --add safe.directory {_top(folder)}",
            exit_code=ExitCode.OUTSIDE,
        )
    return done.stdout if done.returncode == 0 else None


def _top(folder: Path) -> Path:
    """The repository's folder."""
    above = (folder.absolute(), *folder.absolute().parents)
    return next((each for each in above if (each / ".git").exists()), folder.absolute())
