"""Released programs: downloaded from their publishers, compared with checksums, kept in the cache.

Responsible for: which publishers answer, one verified download with an end to it, and unpacking the program.
Nothing is kept that was not compared with the publisher's checksum file, and with the digest in versions.toml
where one is recorded.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO, Any, Final, TypeVar
from urllib.parse import urlsplit

from muster.local import LocalClusterError
from muster.local.builder.cache import Cache, Entry, key_of
from muster.local.builder.children import BuildStoppedError, Children
from muster.local.builder.progress import Board
from muster.local.builder.versions import RECORD, How, Program, Release, load
from muster.paths import VERSIONS_FILE

Answer = TypeVar("Answer")

_BLOCK: Final = 1 << 20
_TRIES: Final = 3
_CHECKSUMS_LIMIT: Final = 1 << 20
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_AGAIN: Final = frozenset({429, 500, 502, 503, 504})


class DownloadError(LocalClusterError):
    """A released program that cannot be used: not served, not whole, or not what its publisher published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Seconds. `silence` is the longest wait for the next bytes, `whole` the longest download of one file."""

    probe: float = 3.0
    silence: float = 15.0
    whole: float = 900.0
    pause: float = 1.0


class Releases:
    """The published releases of programs, for one processor."""

    def __init__(
        self, cache: Cache, children: Children, *, board: Board, arch: str, limits: Limits | None = None
    ) -> None:
        self._cache = cache
        self._children = children
        self._board = board
        self._arch = arch
        self._limits = limits or Limits()
        self._opener = urllib.request.build_opener(_SafeRedirects())

    def ready(self, program: Program) -> Path | None:
        """The downloaded program when the cache holds it unharmed, and no other digest was recorded since."""
        if program.release is None:
            return None
        entry = self.entry(program, program.release)
        if not entry.exists:
            return None
        recorded = program.release.digests.get(self._arch)
        if entry.fault() or (recorded and _origin(entry).get("file") != recorded):
            self._cache.discard(entry)
            return None
        self._cache.touch(entry)
        return entry.path / program.name

    def entry(self, program: Program, release: Release) -> Entry:
        described = [release.filled(text, arch=self._arch) for text in (release.url, release.member)]
        return self._cache.entry("released", program.name, key_of(json.dumps([*described, program.beside])))

    def reachable(self, programs: Sequence[Program]) -> set[str]:
        """Names of the programs whose publisher answers now; takes a few seconds at most."""
        probes = {
            urlsplit(release.checksums).netloc: release.filled(release.checksums, arch=self._arch)
            for program in programs
            if (release := program.release)
        }
        if not probes:
            return set()
        with ThreadPoolExecutor(max_workers=len(probes)) as pool:
            answers = dict(zip(probes, pool.map(self._answers, probes.values()), strict=True))
        return {
            program.name
            for program in programs
            if program.release and answers[urlsplit(program.release.checksums).netloc]
        }

    def fetch(self, program: Program) -> Path:
        """Download, verify and unpack into the cache. Raises DownloadError when that is not possible."""
        release = program.release
        assert release is not None
        entry = self.entry(program, release)
        with self._cache.lock(f"released-{program.name}", stopping=self._children.stopping):
            if not entry.exists:
                with self._cache.scratch(program.name) as scratch:
                    self._fetch(program, release, entry=entry, scratch=scratch)
        return entry.path / program.name

    def _fetch(self, program: Program, release: Release, *, entry: Entry, scratch: Path) -> None:
        url = release.filled(release.url, arch=self._arch)
        published = self.published_digest(release, arch=self._arch)
        recorded = release.digests.get(self._arch)
        if recorded and recorded != published:
            raise DownloadError(
                url,
                f"has sha256 {recorded} in versions.toml and {published} in its publisher's checksum file",
                fix="do not use it: --programs build",
            )
        file, tree = scratch / "file", scratch / "tree"
        digest = self._download(url, file, name=program.name)
        if digest != published:
            raise DownloadError(
                url,
                f"has sha256 {digest}, its publisher's checksum file has {published}",
                fix="do not use it: try again later, or --programs build",
            )
        tree.mkdir()
        _unpack(file, tree, program=program, member=release.filled(release.member, arch=self._arch))
        origin = {
            "how": How.DOWNLOADED,
            "version": release.version,
            "source": url,
            "file": digest,
            "checked": "digest in versions.toml" if recorded else "publisher's checksum file",
        }
        (tree / RECORD).write_text(json.dumps(origin) + "\n", encoding="utf-8")
        self._cache.publish(entry, tree, unsummed=[RECORD])  # a bundle writes a record of its own

    def published_digest(self, release: Release, *, arch: str) -> str:
        """The SHA-256 that the publisher's checksum file has for the release's file."""
        url = release.filled(release.checksums, arch=arch)
        file = Path(urlsplit(release.filled(release.url, arch=arch)).path).name
        text = self._tried(url, self._read_text)
        if digest := digest_in(text, file=file):
            return digest
        raise DownloadError(url, f"has no SHA-256 of {file}", fix="--programs build")

    def _read_text(self, url: str) -> str:
        with self._open(url, timeout=self._limits.silence) as answer:
            return str(answer.read(_CHECKSUMS_LIMIT).decode("utf-8", errors="replace"))

    def _download(self, url: str, target: Path, *, name: str) -> str:
        return self._tried(url, lambda address: self._stream(address, target, name=name))

    def _stream(self, url: str, target: Path, *, name: str) -> str:
        digest, got = hashlib.sha256(), 0
        deadline = time.monotonic() + self._limits.whole
        with self._open(url, timeout=self._limits.silence) as answer, target.open("wb") as file:
            expected = int(answer.headers.get("Content-Length") or 0)
            while block := answer.read(_BLOCK):
                if self._children.stopping.is_set():
                    raise BuildStoppedError
                if time.monotonic() > deadline:
                    raise DownloadError(
                        url,
                        f"is not downloaded after {self._limits.whole:.0f} s",
                        fix="--programs build, or a faster network",
                    )
                digest.update(block)
                file.write(block)
                got += len(block)
                if expected:
                    self._board.advance(name, got / expected, "downloading")
        if expected and got != expected:
            raise ConnectionError(f"it ended after {got} of {expected} bytes")
        return digest.hexdigest()

    def _tried(self, url: str, call: Callable[[str], Answer]) -> Answer:
        for left in reversed(range(_TRIES)):
            try:
                return call(url)
            except urllib.error.HTTPError as refused:
                refused.close()
                if refused.code not in _AGAIN or not left:
                    raise DownloadError(
                        url, f"is not served (HTTP {refused.code})", fix="--programs build"
                    ) from refused
            except (OSError, HTTPException) as broken:
                if not left:
                    reason = getattr(broken, "reason", broken)
                    raise DownloadError(
                        url,
                        f"cannot be downloaded ({reason}), after {_TRIES} attempts",
                        fix="check the network and its proxy, or --programs build",
                    ) from broken
            if self._children.stopping.wait(self._limits.pause):
                raise BuildStoppedError
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _answers(self, url: str) -> bool:
        """Any answer of the host will do: what it serves is judged when it is downloaded."""
        try:
            self._open(url, timeout=self._limits.probe).close()
        except urllib.error.HTTPError as refused:
            refused.close()
            return refused.code < 500 and refused.code not in (403, 407)
        except (OSError, HTTPException, DownloadError):
            return False
        return True

    def _open(self, url: str, *, timeout: float) -> Any:
        _require_safe(url)
        return self._opener.open(url, timeout=timeout)


def digest_in(text: str, *, file: str) -> str | None:
    """A digest out of a checksum file: "DIGEST" alone, or lines of "DIGEST  FILE"."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if len(lines) == 1 and len(lines[0]) == 1:
        lines[0].append(file)
    for words in lines:
        if len(words) == 2 and Path(words[1].lstrip("*")).name == file and _is_sha256(words[0]):
            return words[0].lower()
    return None


def _is_sha256(word: str) -> bool:
    return len(word) == 64 and all(letter in "0123456789abcdef" for letter in word.lower())


def _unpack(file: Path, tree: Path, *, program: Program, member: str) -> None:
    """Copy the program, and the scripts that come with it, out of an archive; nothing else is written."""
    if not member:
        shutil.move(file, tree / program.name)
        (tree / program.name).chmod(0o755)
        return
    folder = Path(member).parent
    wanted = {member: program.name}
    wanted |= {str(folder / Path(script).name): Path(script).name for script in program.beside}
    try:
        with tarfile.open(file) as archive:
            for inside, name in wanted.items():
                source = archive.extractfile(inside)
                if source is None:
                    raise KeyError(inside)
                with source, (tree / name).open("wb") as target:
                    shutil.copyfileobj(source, target)
                (tree / name).chmod(0o755)
    except (KeyError, tarfile.TarError, EOFError, OSError) as problem:
        raise DownloadError(
            f"the release of {program.name}", f"cannot be unpacked ({problem})", fix="--programs build"
        ) from problem


def _origin(entry: Entry) -> dict[str, str]:
    found: dict[str, str] = json.loads((entry.path / RECORD).read_text(encoding="utf-8"))
    return found


def _require_safe(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise DownloadError(url, "is not an https address", fix="--programs build")


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Publishers redirect to their storage; a redirect to plain http is refused."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        _require_safe(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


# Records the digests of released programs in versions.toml.

ARCHITECTURES: Final = ("amd64", "arm64")


def pin(*, path: Path = VERSIONS_FILE, releases: Releases | None = None) -> dict[str, dict[str, str]]:
    """Write every digest into the file, or none. Returns what is new or changed: program, processor, digest.

    Raises DownloadError when a publisher does not answer.
    """
    reader = releases or Releases(Cache(), Children(), board=Board(), arch=ARCHITECTURES[0])
    text = path.read_text(encoding="utf-8")
    changed: dict[str, dict[str, str]] = {}
    for name, program in load(path).programs.items():
        if program.release is None:
            continue
        release = program.release
        found = {arch: reader.published_digest(release, arch=arch) for arch in ARCHITECTURES}
        text = with_digests(text, name=name, digests=found)
        if fresh := {arch: value for arch, value in found.items() if release.digests.get(arch) != value}:
            changed[name] = fresh
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise LocalClusterError(
            str(path), f"cannot be written ({problem.strerror})", fix="run it in a checkout of Muster"
        ) from problem
    return changed


def with_digests(text: str, *, name: str, digests: Mapping[str, str]) -> str:
    """The text of versions.toml with these digests in the table [releases.NAME]; all else stays as it is."""
    written = ", ".join(f"{arch} = {json.dumps(digest)}" for arch, digest in digests.items())
    lines = text.splitlines(keepends=True)
    start = lines.index(f"[releases.{name}]\n") + 1
    end = next((at for at in range(start, len(lines)) if re.match(r"\s*(\[|#|$)", lines[at])), len(lines))
    table = [line for line in lines[start:end] if not line.startswith("sha256 = ")]
    return "".join([*lines[:start], *table, f"sha256 = {{{written}}}\n", *lines[end:]])
