"""A bundle arrives whole or not at all."""

import gzip
import io
import json
import platform
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from muster.local import LocalClusterError
from muster.local.builder import bundle
from muster.local.builder.bundle import Part
from muster.local.builder.cache import Cache, Entry
from muster.local.builder.versions import How, load, origin_of

PINS = "the pins of both sides"
PROGRAM = load().programs["etcd"]


@pytest.fixture
def parts(tmp_path: Path) -> list[Part]:
    """A program and a chart, as a cache has them."""
    cache = Cache(tmp_path / "exporter")
    made = []
    for kind, name, record in (("imported", "etcd", {"version": "v3"}), ("assets", "chart-v1", None)):
        entry = cache.entry(kind, name, "key")
        with cache.scratch(name) as scratch:
            tree = scratch / "tree"
            (tree / "deep").mkdir(parents=True)
            (tree / name).write_text(f"content of {name}")
            (tree / name).chmod(0o755)
            (tree / "deep" / "other").write_text("other")
            (tree / "deep" / "link").symlink_to("../" + name)
            cache.publish(entry, tree)
        made.append(Part(kind=kind, name=name, key="key", folder=entry.path, record=record))
    return made


@pytest.fixture
def importer(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "importer")


def written(tmp_path: Path, parts: list[Part]) -> Path:
    target = tmp_path / "bundle.tar.gz"
    bundle.write(target, parts, pins=PINS)
    return target


def contents(cache: Cache) -> list[str]:
    """Every file of the cache but its locks."""
    files = (path for path in cache.root.rglob("*") if path.is_file() and path.parent.name != "locks")
    return sorted(str(path.relative_to(cache.root)) for path in files)


def refusal(source: Path, importer: Cache, *, pins: str = PINS) -> str:
    before = contents(importer)
    with pytest.raises(LocalClusterError) as error:
        bundle.read(source, importer, pins=pins)
    assert contents(importer) == before
    return str(error.value)


def rewritten(source: Path, change: Callable[[str, bytes], tuple[str, bytes] | None]) -> Path:
    """The bundle with each member as `change` has it."""
    target = source.with_name("changed.tar.gz")
    with tarfile.open(source) as old, tarfile.open(target, "w:gz") as new:
        for member in old:
            content = old.extractfile(member) if member.isreg() else None
            changed = change(member.name, content.read() if content else b"")
            if changed is None:
                continue
            member.name, data = changed
            if member.isreg():
                member.size = len(data)
            new.addfile(member, io.BytesIO(data) if member.isreg() else None)
    return target


def with_manifest(source: Path, change: Callable[[Any], None]) -> Path:
    def changed(name: str, content: bytes) -> tuple[str, bytes]:
        if name != bundle.MANIFEST:
            return name, content
        manifest = json.loads(content)
        change(manifest)
        return name, json.dumps(manifest).encode()

    return rewritten(source, changed)


def test_an_imported_entry_is_the_exported_one(tmp_path: Path, parts: list[Part], importer: Cache) -> None:
    entries = bundle.read(written(tmp_path, parts), importer, pins=PINS)
    assert [entry.name for entry in entries] == ["etcd", "chart-v1"]
    for entry, part in zip(entries, parts, strict=True):
        assert entry.fault() is None
        program = entry.path / part.name
        assert program.read_text() == f"content of {part.name}"
        assert program.stat().st_mode & 0o777 == 0o755
        assert (entry.path / "deep" / "link").resolve() == program


def test_an_imported_program_is_known_as_such(tmp_path: Path, parts: list[Part], importer: Cache) -> None:
    entry = bundle.read(written(tmp_path, parts), importer, pins=PINS)[0]
    origin = origin_of(PROGRAM, entry.path / "etcd", cache=importer.root)
    assert (origin.how, origin.version, origin.source) == (How.IMPORTED, "v3", "bundle.tar.gz")


def test_importing_twice_changes_nothing(tmp_path: Path, parts: list[Part], importer: Cache) -> None:
    source = written(tmp_path, parts)
    bundle.read(source, importer, pins=PINS)
    before = contents(importer)
    assert bundle.read(source, importer, pins=PINS) == []
    assert contents(importer) == before


def test_a_damaged_entry_is_replaced(tmp_path: Path, parts: list[Part], importer: Cache) -> None:
    source = written(tmp_path, parts)
    entry = bundle.read(source, importer, pins=PINS)[0]
    (entry.path / "etcd").write_text("damaged")
    assert bundle.read(source, importer, pins=PINS) == [entry]
    assert entry.fault() is None


def test_a_bundle_of_other_pins_is_refused(tmp_path: Path, parts: list[Part], importer: Cache) -> None:
    said = refusal(written(tmp_path, parts), importer, pins="other pins")
    assert "other versions of the programs" in said


def test_a_bundle_for_another_processor_is_refused(
    tmp_path: Path, parts: list[Part], importer: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = written(tmp_path, parts)
    here = platform.machine()
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert f"is for {here}, this machine is riscv64" in refusal(source, importer)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.8])
def test_a_part_of_a_bundle_is_refused(
    tmp_path: Path, parts: list[Part], importer: Cache, share: float
) -> None:
    source = written(tmp_path, parts)
    content = source.read_bytes()
    source.write_bytes(content[: int(len(content) * share)])
    assert "is not a whole bundle" in refusal(source, importer)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda name, data: None if name.endswith("/chart-v1") else (name, data),
            "files of its manifest are missing",
        ),
        (
            lambda name, data: (name, data.replace(b"content", b"CONTENT")),
            "does not have the digest of its manifest",
        ),
        (
            lambda name, data: (f"../../{name}" if name.endswith("other") else name, data),
            "is not in its manifest",
        ),
    ],
    ids=["it ends between two members", "changed bytes", "a file that no manifest names"],
)
def test_a_tar_of_other_files_than_those_of_its_manifest_is_refused(
    tmp_path: Path,
    parts: list[Part],
    importer: Cache,
    change: Callable[[str, bytes], tuple[str, bytes] | None],
    says: str,
) -> None:
    assert says in refusal(rewritten(written(tmp_path, parts), change), importer)


@pytest.mark.parametrize("name", ["../../escaped", "/etc/escaped", "deep/../../escaped", ""])
def test_no_file_leads_out_of_its_entry(
    tmp_path: Path, parts: list[Part], importer: Cache, name: str
) -> None:
    def change(manifest: Any) -> None:
        files = manifest["entries"][0]["files"]
        files[name] = files.pop("deep/other")

    assert "leads out of its entry" in refusal(with_manifest(written(tmp_path, parts), change), importer)


@pytest.mark.parametrize(
    ("where", "value", "says"),
    [
        *(
            (("files", "deep/link", "link"), link, "leads out of its entry")
            for link in ("../../escaped", "/etc/passwd", "../deep/../../x")
        ),
        (("files", "etcd", "size"), 2**60, "are free in"),
        *(
            ((word,), value, "is no entry of a cache")
            for word, value in (("kind", "locks"), ("name", ".."), ("key", "a/b"))
        ),
    ],
)
def test_an_entry_that_leads_elsewhere_or_has_no_room_is_refused(
    tmp_path: Path, parts: list[Part], importer: Cache, where: tuple[str, ...], value: Any, says: str
) -> None:
    def change(manifest: Any) -> None:
        *path, last = where
        entry = manifest["entries"][0]
        for key in path:
            entry = entry[key]
        entry[last] = value

    assert says in refusal(with_manifest(written(tmp_path, parts), change), importer)


def test_no_link_leads_out_through_another(tmp_path: Path, parts: list[Part], importer: Cache) -> None:
    """Each alone stays inside: the second is as deep as it looks only while the first is a folder."""
    tree = parts[0].folder
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "a" / "b" / "up").symlink_to("../..")
    (tree / "out").symlink_to("a/b/up/../../../../outside")
    source = tmp_path / "bundle.tar.gz"
    bundle.write(source, parts, pins=PINS)
    assert "the link" in refusal(source, importer)


def test_a_bundle_unpacks_to_what_its_manifest_names(
    tmp_path: Path, parts: list[Part], importer: Cache
) -> None:
    """Headers of a tar are read into memory, whatever size they name."""
    source = written(tmp_path, parts)
    with tarfile.open(source) as old:
        manifest = old.extractfile(bundle.MANIFEST)
        assert manifest is not None
        content = manifest.read()
    bomb = tmp_path / "bomb.tar.gz"
    with tarfile.open(bomb, "w:gz", format=tarfile.PAX_FORMAT) as tar:
        first = tarfile.TarInfo(bundle.MANIFEST)
        first.size = len(content)
        tar.addfile(first, io.BytesIO(content))
        tar.addfile(tarfile.TarInfo("x" * 2 * 1024**2))
    assert "unpacks to more than its manifest names" in refusal(bomb, importer)


def test_what_is_no_bundle_is_refused(tmp_path: Path, importer: Cache) -> None:
    other = tmp_path / "other.tar.gz"
    other.write_bytes(gzip.compress(b"something else"))
    assert "is not a whole bundle" in refusal(other, importer)
    assert "is not a whole bundle" in refusal(tmp_path / "absent", importer)


@pytest.mark.parametrize("survivors", [0, 1])
def test_an_interrupt_leaves_the_cache_as_it_was(
    tmp_path: Path, parts: list[Part], importer: Cache, monkeypatch: pytest.MonkeyPatch, survivors: int
) -> None:
    source = written(tmp_path, parts)
    adopt, left = Cache.adopt, [survivors]

    def interrupted(self: Cache, entry: Entry, folder: Path) -> None:
        adopt(self, entry, folder)
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1

    monkeypatch.setattr(Cache, "adopt", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bundle.read(source, importer, pins=PINS)
    assert contents(importer) == []


def test_a_failed_export_leaves_no_file(tmp_path: Path, parts: list[Part]) -> None:
    target = tmp_path / "absent" / "bundle.tar.gz"
    with pytest.raises(LocalClusterError, match="cannot be written"):
        bundle.write(target, parts, pins=PINS)
    assert not target.parent.exists()
