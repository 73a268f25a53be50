"""Images: the right wheels, the right scripts, and a reference that follows the content."""

import hashlib
import io
import json
import os
import platform
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from muster.local import LocalClusterError
from muster.local.builder import base_image
from muster.local.builder.base_image import (
    base_entry,
    ensure_base,
    ensure_foreign_base,
    for_image,
    unrecorded,
    with_interpreter,
)
from muster.local.builder.cache import Cache
from muster.local.builder.children import Children
from muster.local.builder.images import (
    CONTROLLER_PARTS,
    Image,
    _sources,
    copy_source,
    manifest_digest,
    package_list,
)
from muster.local.builder.versions import load
from muster.paths import PACKAGE, REQUIREMENTS

PINS = """# a comment
plain==1.0 \\
    --hash=sha256:aa
windows==1.0 ; sys_platform == 'win32' \\
    --hash=sha256:bb
old==1.0 ; python_full_version < '3.13' \\
    --hash=sha256:cc \\
    --hash=sha256:dd
    # via plain
"""


@pytest.mark.parametrize("program", ["muster.controller", "muster.replay"])
def test_the_controllers_image_holds_all_that_its_programs_import(program: str, tmp_path: Path) -> None:
    for part in CONTROLLER_PARTS:
        copy_source(PACKAGE / part, tmp_path / "muster" / part)
    # The finder of an editable installation would find what the image lacks.
    code = f"""import sys
sys.meta_path = [each for each in sys.meta_path if "editable" not in str(each)]
import {program}.__main__
print(*sys.modules)"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {each.partition(".")[0] for each in done.stdout.split()}
    # What the command line needs is not in the image.
    assert loaded.isdisjoint({"click", "yaml", "pulumi"})


def test_markers_are_judged_for_the_image_and_not_for_the_host() -> None:
    inside = for_image(PINS, python="3.11", machine="x86_64")
    assert "plain==1.0" in inside
    assert "windows" not in inside
    assert "old==1.0" in inside
    assert "old" not in for_image(PINS, python="3.13", machine="x86_64")


def test_every_kept_requirement_keeps_all_its_hashes_and_no_marker() -> None:
    inside = for_image(PINS, python="3.11", machine="x86_64")
    assert inside.count("--hash") == 3
    assert ";" not in inside


@pytest.mark.parametrize("name", ["ray.txt", "controller.txt"])
def test_the_real_requirements_stay_pinned_and_hashed(name: str) -> None:
    text = (REQUIREMENTS / name).read_text()
    kept = for_image(text, python="3.11", machine="x86_64").replace("\\\n", " ").splitlines()
    assert len(kept) > 3
    for line in kept:
        requirement = Requirement(line.split("--hash")[0])
        assert str(requirement.specifier).startswith("=="), line
        assert "--hash=sha256:" in line


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"#!/opt/venv/bin/python\nimport x\n", b"#!/usr/bin/python3\nimport x\n"),
        (b"#!/opt/venv/bin/python3.12\nx\n", b"#!/usr/bin/python3\nx\n"),
        (b"#!/bin/sh\n'''exec' \"/very long/python\" \"$0\" \"$@\"\n' '''\nx\n", b"#!/usr/bin/python3\nx\n"),
        (b"#!/bin/sh\necho\n", b"#!/bin/sh\necho\n"),
        (b"\x7fELF\x00\x01", b"\x7fELF\x00\x01"),
        (b"", b""),
    ],
)
def test_only_python_scripts_get_the_image_s_interpreter(before: bytes, after: bytes) -> None:
    assert with_interpreter(before) == after


def test_bytecode_is_no_source(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a")
    before = _sources("muster/x", tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").write_text("a")
    assert _sources("muster/x", tmp_path) == before
    (tmp_path / "b.py").write_text("b")
    assert _sources("muster/x", tmp_path) != before


def test_the_package_list_is_that_of_the_directory(tmp_path: Path) -> None:
    for name in ("aiohttp-3.1.0.dist-info", "prometheus_client-0.2.dist-info"):
        (tmp_path / name).mkdir()
    assert package_list(tmp_path) == ["aiohttp==3.1.0", "prometheus_client==0.2"]


def archive(path: Path, *digests: str) -> Path:
    index = json.dumps({"manifests": [{"digest": digest} for digest in digests]}).encode()
    with tarfile.open(path, "w") as tar:
        member = tarfile.TarInfo("index.json")
        member.size = len(index)
        tar.addfile(member, io.BytesIO(index))
    return path


def test_the_digest_is_that_of_the_manifest(tmp_path: Path) -> None:
    assert manifest_digest(archive(tmp_path / "a.tar", "sha256:1")) == "sha256:1"


def test_an_archive_with_two_images_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LocalClusterError, match="holds 2 images"):
        manifest_digest(archive(tmp_path / "a.tar", "sha256:1", "sha256:2"))


def test_an_image_is_referred_to_by_digest(tmp_path: Path) -> None:
    entry = Cache(tmp_path).entry("images", "kueue", "k")
    image = Image(name="kueue", tag="v1", digest="sha256:1", entry=entry)
    assert image.reference == "muster.local/kueue@sha256:1"
    assert image.tagged == "muster.local/kueue:v1"


class Archive(Children):
    """A distribution's archive, and its snapshots, "" where they cannot be reached."""

    def __init__(self, archive: str, snapshots: str) -> None:
        super().__init__()
        self._archive, self._snapshots = archive, snapshots

    def check(self, argv: Sequence[str], *, where: str, **_: Any) -> None:
        sources = [each for each in argv if each.startswith("deb ")]
        content = self._snapshots if sources else self._archive
        if not content:
            raise LocalClusterError(where, "no answer", fix="-")
        assert all("/20261129T050000Z " in each for each in sources)
        target = next(each for each in argv if each.endswith(".tar"))
        Path(target).write_text(content)


@pytest.mark.parametrize(
    ("archive", "snapshots", "made", "is_recorded"),
    [
        ("as recorded", "", "as recorded", True),
        ("newer", "as recorded", "as recorded", True),
        ("newer", "", "newer", False),
        ("newer", "of other days", "newer", False),
    ],
)
@pytest.mark.parametrize("machine", ["", "another"])
def test_the_recorded_packages_are_taken_where_they_can_be_had(
    archive: str,
    snapshots: str,
    made: str,
    is_recorded: bool,
    machine: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(base_image, "_DEBIAN", {"another": "another"})
    digest = hashlib.sha256(b"as recorded").hexdigest()
    here = platform.machine()
    recorded = {here: digest, "another-unpacked": digest}
    base = replace(load().python_base, sha256=recorded, snapshot="20261129T050000Z")
    cache, children = Cache(tmp_path), Archive(archive, snapshots)
    if machine:
        entry = ensure_foreign_base(cache, children, base=base, machine=machine)
    else:
        entry = ensure_base(cache, children, base=base)
    assert (entry.path / "base.tar").read_text() == made
    assert (not list(unrecorded(cache, base, [machine or here]))) is is_recorded


def test_a_base_of_one_s_own_is_told_from_another_by_content(tmp_path: Path) -> None:
    base, cache, own = load().python_base, Cache(tmp_path / "cache"), tmp_path / "own.tar"
    own.write_text("one")
    first = base_entry(cache, base, own=own)
    own.write_text("two")
    assert len({first.key, base_entry(cache, base, own=own).key, base_entry(cache, base, own=None).key}) == 3


def test_a_base_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(LocalClusterError, match="is not a file"):
        base_entry(Cache(tmp_path), load().python_base, own=tmp_path / "none.tar")
