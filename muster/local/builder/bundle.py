"""A built cache in one file, for a colleague or an offline site.

Responsible for the form of the file, its manifest of digests, which entries it holds for this Muster's pins,
and that an import changes nothing until all of it was verified.

A bundle is a gzip-compressed tar: manifest.json, then `entries/KIND/NAME/KEY/FILE`. Node stores are left out:
they depend on the machine's containerd and are made from the images within half a minute.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import platform
import re
import shutil
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

from muster.errors import ExitCode
from muster.local import LocalClusterError
from muster.local.builder.base_image import base_entry, packages_entry
from muster.local.builder.cache import SUMS, Cache, Entry, file_sha256, key_of, seal
from muster.local.builder.everything import Programs, Run
from muster.local.builder.go import architecture, imported_entry
from muster.local.builder.store import Artifacts, asset_entry
from muster.local.builder.versions import RECORD, How, Origin, Program, Versions, load
from muster.paths import REQUIREMENTS

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
KINDS: Final = ("imported", "assets", "base", "python", "images")
_ENTRIES: Final = "entries"
_MANIFEST_LIMIT: Final = 64 * 1024**2
# Of one file in a tar: its header, a long name, and the padding.
_HEADERS: Final = 64 * 1024
_BLOCK: Final = 1 << 20
_LEVEL: Final = 1  # programs shrink to a third, in a quarter of the time of the default level
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One entry of a bundle: `folder` holds its files and their SHA256SUMS.

    `record`, where given, is added to the bundle: the version and the check of a program.
    """

    kind: str
    name: str
    key: str
    folder: Path
    record: Mapping[str, str] | None = None


def write(target: Path, parts: Sequence[Part], *, pins: str) -> str:
    """Write the bundle in one step; returns its SHA-256. A failure or Ctrl-C leaves no file."""
    partial = target.with_name(f".{target.name}.partial")
    listed = [(part, _files(part)) for part in parts]
    manifest = {
        "format": FORMAT,
        "machine": platform.machine(),
        "pins": pins,
        "entries": [
            {
                "kind": part.kind,
                "name": part.name,
                "key": part.key,
                "record": dict(part.record or {}),
                "files": {name: _described(path) for name, path in files.items()},
            }
            for part, files in listed
        ],
    }
    try:
        with tarfile.open(partial, "w:gz", compresslevel=_LEVEL) as tar:
            _add_bytes(tar, MANIFEST, json.dumps(manifest).encode())
            for part, files in listed:
                for name, path in files.items():
                    tar.add(path, f"{_ENTRIES}/{part.kind}/{part.name}/{part.key}/{name}", recursive=False)
        digest = file_sha256(partial)
        partial.replace(target)
    except OSError as problem:
        raise LocalClusterError(
            str(target), f"cannot be written ({problem.strerror})", fix="free some space or name another file"
        ) from problem
    finally:
        partial.unlink(missing_ok=True)
    return digest


def read(source: Path, cache: Cache, *, pins: str) -> list[Entry]:
    """Verify the whole bundle, then put what the cache lacks into it; returns the new entries.

    Raises LocalClusterError for a bundle of other pins or another processor, and for one that is not whole.
    The cache is then as it was before; so it is after Ctrl-C.
    """
    with cache.scratch("import") as scratch:
        with _reading(source), gzip.open(source) as packed:
            unpacked = _Bounded(packed)
            with tarfile.open(fileobj=io.BufferedReader(unpacked), mode="r|") as tar:
                members = iter(tar)
                entries = _manifest(tar, next(members, None), source=source, pins=pins)
                unpacked.left = _room(entries, scratch, source=source)
                _extract(tar, members, entries, scratch=scratch)
        return _publish(cache, entries, scratch=scratch, source=source)


class _Bounded(io.RawIOBase):
    """What gzip unpacks to, up to `left` bytes: first of the manifest, then of the files that it names. A tar
    has headers of any size, which are read into memory.
    """

    def __init__(self, packed: gzip.GzipFile) -> None:
        super().__init__()
        self._packed = packed
        self.left = _MANIFEST_LIMIT + _HEADERS

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content: bytes = self._packed.read(len(buffer))
        self.left -= len(content)
        if self.left < 0:
            raise ValueError("it unpacks to more than its manifest names")
        buffer[: len(content)] = content
        return len(content)


def _room(entries: Sequence[Mapping[str, Any]], scratch: Path, *, source: Path) -> int:
    """How many bytes the files of the manifest unpack to, with their headers."""
    sizes = [each.get("size", 0) for entry in entries for each in entry["files"].values()]
    if not all(isinstance(size, int) and size >= 0 for size in sizes):
        raise ValueError("a file of its manifest has no size")
    needed: int = sum(sizes)
    free = shutil.disk_usage(scratch).free
    if needed > free:
        what = f"unpacks to {needed} bytes, and {free} are free in {scratch.parent}"
        raise LocalClusterError(str(source), what, fix="free the room, or set MUSTER_CACHE to a larger disk")
    return needed + _HEADERS * (len(sizes) + 1)


def _files(part: Part) -> dict[str, Path]:
    paths = sorted(path for path in part.folder.rglob("*") if path.is_symlink() or path.is_file())
    return {str(path.relative_to(part.folder)): path for path in paths if path != part.folder / RECORD}


def _described(path: Path) -> dict[str, Any]:
    if path.is_symlink():
        return {"link": os.readlink(path)}  # noqa: PTH115 - Path.readlink would normalise it
    state = path.stat()
    return {"sha256": file_sha256(path), "size": state.st_size, "mode": state.st_mode & 0o777}


def _add_bytes(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


@contextmanager
def _reading(source: Path) -> Iterator[None]:
    try:
        yield
    except (EOFError, zlib.error, tarfile.TarError, OSError, ValueError, KeyError, TypeError) as problem:
        raise LocalClusterError(
            str(source),
            f"is not a whole bundle ({problem})",
            fix="copy it again, and compare its sha256 with the one that the export printed",
        ) from problem


def _manifest(
    tar: tarfile.TarFile, member: tarfile.TarInfo | None, *, source: Path, pins: str
) -> list[dict[str, Any]]:
    if member is None or member.name != MANIFEST or not member.isreg() or member.size > _MANIFEST_LIMIT:
        raise ValueError(f"its first member is not {MANIFEST}")
    manifest = json.loads(_content(tar, member).read())
    if manifest["format"] != FORMAT:
        raise _unusable(source, f"has format {manifest['format']}, this Muster reads {FORMAT}")
    if manifest["machine"] != platform.machine():
        raise _unusable(source, f"is for {manifest['machine']}, this machine is {platform.machine()}")
    if manifest["pins"] != pins:
        raise _unusable(source, "was made for other versions of the programs than this Muster pins")
    entries: list[dict[str, Any]] = manifest["entries"]
    for entry in entries:
        _require_safe(entry)
    return entries


def _unusable(source: Path, what: str) -> LocalClusterError:
    fix = "export it again from the same version of Muster and the same kind of machine"
    return LocalClusterError(str(source), what, fix=fix, exit_code=ExitCode.UNUSABLE)


def _require_safe(entry: Mapping[str, Any]) -> None:
    """No name leads out of the entry's own folder, in the manifest or by a link."""
    words = (entry["name"], entry["key"])
    if entry["kind"] not in KINDS or not all(_WORD.fullmatch(word) for word in words):
        raise ValueError(f"{entry['kind']}/{entry['name']}/{entry['key']} is no entry of a cache")
    if SUMS not in entry["files"]:
        raise ValueError(f"{entry['kind']}/{entry['name']} has no {SUMS}")
    for name, described in entry["files"].items():
        if not _stays_inside(PurePosixPath(name)):
            raise ValueError(f"{name} leads out of its entry")
        link = described.get("link")
        if link is not None and not _stays_inside(PurePosixPath(name).parent / link):
            raise ValueError(f"the link {name} leads out of its entry")


def _stays_inside(path: PurePosixPath) -> bool:
    depth = 0
    for part in path.parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return False
    return not path.is_absolute() and depth > 0


def _extract(
    tar: tarfile.TarFile,
    members: Iterator[tarfile.TarInfo],
    entries: Sequence[Mapping[str, Any]],
    *,
    scratch: Path,
) -> None:
    expected = {
        f"{_ENTRIES}/{entry['kind']}/{entry['name']}/{entry['key']}/{name}": described
        for entry in entries
        for name, described in entry["files"].items()
    }
    links: list[tuple[Path, str]] = []
    for member in members:
        described = expected.pop(member.name, None)
        if described is None:
            raise ValueError(f"{member.name} is not in its manifest")
        target = scratch / member.name
        target.parent.mkdir(parents=True, exist_ok=True)
        if "link" in described:
            links.append((target, described["link"]))
            continue
        if not member.isreg() or member.size != described["size"]:
            raise ValueError(f"{member.name} is not the file of its manifest")
        if _copied(_content(tar, member), target) != described["sha256"]:
            raise ValueError(f"{member.name} does not have the digest of its manifest")
        target.chmod(described["mode"])
    if expected:
        raise ValueError(f"files of its manifest are missing ({len(expected)}), such as {min(expected)}")
    for target, link in links:  # last, so that no file is written through one
        target.symlink_to(link)
    for target, _ in links:  # each alone stays inside, and one may go on through another
        entry = scratch.resolve().joinpath(*target.relative_to(scratch).parts[:4])
        if not Path(os.path.realpath(target)).is_relative_to(entry):
            raise ValueError(f"the link {target.relative_to(scratch)} leads out of its entry")


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = tar.extractfile(member)
    if content is None:
        raise ValueError(f"{member.name} is not a file")
    return content


def _copied(content: IO[bytes], target: Path) -> str:
    digest = hashlib.sha256()
    with target.open("wb") as file:
        while block := content.read(_BLOCK):
            digest.update(block)
            file.write(block)
    return digest.hexdigest()


def _publish(
    cache: Cache, entries: Sequence[Mapping[str, Any]], *, scratch: Path, source: Path
) -> list[Entry]:
    made: list[Entry] = []
    try:
        for described in entries:
            entry = cache.entry(described["kind"], described["name"], described["key"])
            if entry.exists and entry.fault() is None:
                continue
            folder = scratch / _ENTRIES / entry.kind / entry.name / entry.key
            if record := described["record"]:
                imported = {**record, "how": How.IMPORTED, "source": source.name}
                (folder / RECORD).write_text(json.dumps(imported) + "\n", encoding="utf-8")
            made.append(entry)
            cache.adopt(entry, folder)
    except BaseException:
        for entry in made:
            cache.discard(entry)
        raise
    return made


def export(target: Path, *, programs: Programs | None = None) -> str:
    """Make what is missing and write everything into one file; returns the file's SHA-256."""
    cache = Cache()
    made = Run(cache, base=None, source=programs).whole()
    with cache.scratch("export") as scratch:
        parts = list(_parts(cache, made, versions=load(), scratch=scratch))
        return write(target, parts, pins=pins(cache, load()))


def import_(source: Path) -> list[Entry]:
    """Put a bundle's entries into the cache; returns those that the cache lacked."""
    cache = Cache()
    return read(source, cache, pins=pins(cache, load()))


def pins(cache: Cache, versions: Versions) -> str:
    """A digest of everything that decides which programs, charts and packages this Muster uses."""
    return key_of(*(f"{entry.kind}/{entry.name}/{entry.key}" for entry in _pinned(cache, versions)))


def _pinned(cache: Cache, versions: Versions) -> list[Entry]:
    """Without the images: they follow from these, and from the code of our own controller."""
    programs = [
        imported_entry(cache, program, arch=architecture())
        for program in versions.programs.values()
        if not program.on_demand
    ]
    assets = [asset_entry(cache, asset) for asset in versions.assets.values() if not asset.on_demand]
    return [
        *programs,
        *assets,
        base_entry(cache, versions.python_base, own=None),
        *_packages(cache, versions),
    ]


def _packages(cache: Cache, versions: Versions) -> list[Entry]:
    return [
        packages_entry(
            cache,
            name=name,
            requirements=REQUIREMENTS / file,
            python=versions.python_base.python,
            machine=platform.machine(),
        )
        for name, file in versions.requirements.items()
    ]


def _parts(cache: Cache, made: Artifacts, *, versions: Versions, scratch: Path) -> Iterable[Part]:
    for name, path in made.programs.items():
        program = versions.programs[name]
        entry = imported_entry(cache, program, arch=architecture())
        folder = _folder(cache, program, path, scratch=scratch)
        yield Part(
            kind=entry.kind, name=name, key=entry.key, folder=folder, record=_record(made.origins[name])
        )
    assets = (asset_entry(cache, asset) for asset in versions.assets.values() if not asset.on_demand)
    base = base_entry(cache, versions.python_base, own=None)
    images = (image.entry for image in made.images.values())
    for entry in (*assets, base, *_packages(cache, versions), *images):
        yield Part(kind=entry.kind, name=entry.name, key=entry.key, folder=entry.path)


def _folder(cache: Cache, program: Program, path: Path, *, scratch: Path) -> Path:
    """The program's entry. A program from PATH gets a folder of its own, with the scripts it needs."""
    if path.is_relative_to(cache.root):
        return path.parent
    folder = scratch / program.name
    folder.mkdir()
    for name in (program.name, *(Path(script).name for script in program.beside)):
        shutil.copy2(path.parent / name, folder / name)
    seal(folder)
    return folder


def _record(origin: Origin) -> Mapping[str, str]:
    return {key: value for key, value in origin.record().items() if key in ("version", "checked")}
