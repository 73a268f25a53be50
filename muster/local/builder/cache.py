"""Where built things are kept between runs: one directory for each entry, whole or absent.

Responsible for: names, hashes, locks and the atomic step by which an entry appears. An entry is
`<root>/<kind>/<name>/<key>/` with a SHA256SUMS of its files; the key is a hash of everything that went in.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster.local import LocalClusterError

SUMS: Final = "SHA256SUMS"
_KEPT: Final = 3  # a branch switched back and forth should not rebuild; a year of branches should not stay
_POLL_SECONDS: Final = 0.2
_STALE_SECONDS: Final = 24 * 3600


def cache_root() -> Path:
    """$MUSTER_CACHE, else muster/ under $XDG_CACHE_HOME, else ~/.cache/muster."""
    if own := os.environ.get("MUSTER_CACHE"):
        return Path(own).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "muster"


def key_of(*parts: bytes | str) -> str:
    """A short hash of the parts; lengths are hashed too, so ("ab", "c") differs from ("a", "bc")."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(f"{len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()[:20]


def file_sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def census(tree: Path) -> str:
    """How many files a tree has and their bytes together: far cheaper than reading them all."""
    count = total = 0
    for directory, _, names in os.walk(tree):
        for name in names:
            count += 1
            total += os.lstat(os.path.join(directory, name)).st_size  # noqa: PTH118 - half the time of Path
    return f"{count} files, {total} bytes"


def seal(folder: Path, *, unsummed: Iterable[str] = ()) -> None:
    """Write the checksums of a folder's files into it; those below the paths `unsummed` are left out."""
    skipped = [folder / relative for relative in unsummed]
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink() and not any(path.is_relative_to(tree) for tree in skipped)
    )
    lines = [f"{file_sha256(path)}  {path.relative_to(folder)}" for path in files]
    (folder / SUMS).write_text("\n".join(lines) + "\n", encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Entry:
    """One built thing; `path` exists only when it is complete."""

    kind: str
    name: str
    key: str
    path: Path

    @property
    def exists(self) -> bool:
        return (self.path / SUMS).is_file()

    def fault(self) -> str | None:
        """None when every recorded file is there unchanged, else what is wrong with the entry."""
        try:
            lines = (self.path / SUMS).read_text(encoding="utf-8").splitlines()
        except OSError:
            return "its record of checksums is missing"
        for line in lines:
            recorded, _, relative = line.partition("  ")
            try:
                actual = file_sha256(self.path / relative)
            except OSError as problem:
                return f"{relative} cannot be read ({problem.strerror})"
            if actual != recorded:
                return f"{relative} does not have its recorded checksum"
        return None


class Cache:
    """The cache root and what is common to everything in it."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or cache_root()

    def entry(self, kind: str, name: str, key: str) -> Entry:
        return Entry(kind=kind, name=name, key=key, path=self.root / kind / name / key)

    def usable(self, entry: Entry, *, what: str) -> None:
        """Refuse to build on a damaged entry; it is removed, so that the next run makes it again."""
        if fault := entry.fault():
            self.discard(entry)
            raise LocalClusterError(
                what, f"was damaged in the cache ({fault}) and has been removed", fix="start again"
            )

    def make(self, *parts: str) -> Path:
        path = self.root.joinpath(*parts)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise _unwritable(path, problem) from problem
        return path

    @contextmanager
    def lock(
        self, name: str, *, stopping: threading.Event | None = None, waiting: Callable[[], None] | None = None
    ) -> Iterator[None]:
        """Hold `name` against every other process; `waiting` is called once when another process has it."""
        path = self.make("locks") / f"{name}.lock"
        with path.open("w") as handle:
            reported = False
            while not _try_lock(handle.fileno()):
                if waiting and not reported:
                    waiting()
                    reported = True
                if (stopping or threading.Event()).wait(_POLL_SECONDS):
                    raise LocalClusterError(
                        name, "was stopped while it waited for another build", fix="start again"
                    )
            yield

    @contextmanager
    def scratch(self, name: str) -> Iterator[Path]:
        """A directory on the cache's own disk that is gone afterwards, whatever happens."""
        parent = self.make("scratch")
        _forget_stale(parent)
        path = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=parent))
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def publish(self, entry: Entry, source: Path, *, unsummed: Iterable[str] = ()) -> None:
        """Record a finished directory's checksums and move it into place.

        `unsummed` are paths under `source` with too many files to hash at every start.
        """
        seal(source, unsummed=unsummed)
        self.adopt(entry, source)

    def adopt(self, entry: Entry, source: Path) -> None:
        """Move a directory that has its checksums into place in one step."""
        self.make(entry.kind, entry.name)
        self.discard(entry)
        source.chmod(0o755)
        try:
            source.rename(entry.path)
        except OSError as problem:
            raise _unwritable(entry.path, problem) from problem
        self._forget_old(entry)

    def discard(self, entry: Entry) -> None:
        """Take the entry away; it stops existing before its first file goes."""
        with suppress(FileNotFoundError):
            (entry.path / SUMS).unlink()
        if entry.path.exists():
            shutil.rmtree(entry.path)

    def touch(self, entry: Entry) -> None:
        """Mark as used, which is what decides who is forgotten."""
        with suppress(OSError):
            os.utime(entry.path)

    def _forget_old(self, entry: Entry) -> None:
        siblings = sorted(
            (path for path in entry.path.parent.iterdir() if path.is_dir() and path != entry.path),
            key=lambda path: path.stat().st_mtime,
            reverse=True,
        )
        for path in siblings[_KEPT - 1 :]:
            shutil.rmtree(path, ignore_errors=True)


def _forget_stale(parent: Path) -> None:
    """What a build that was killed left behind; no build takes a day."""
    for path in parent.iterdir():
        with suppress(OSError):
            if path.stat().st_mtime < time.time() - _STALE_SECONDS:
                shutil.rmtree(path, ignore_errors=True)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        if problem.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def _unwritable(path: Path, problem: OSError) -> LocalClusterError:
    if problem.errno == errno.ENOSPC:
        return LocalClusterError(
            str(path), "the disk is full", fix="free some space or point MUSTER_CACHE elsewhere"
        )
    return LocalClusterError(
        str(path),
        f"the cache cannot be written ({problem.strerror})",
        fix="fix the permissions or point MUSTER_CACHE at a directory that you own",
    )
