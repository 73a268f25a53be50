"""Recording digests changes the table of the release and nothing else."""

import tomllib
from pathlib import Path

import pytest

from muster.local.builder.cache import Cache
from muster.local.builder.children import Children
from muster.local.builder.progress import Board
from muster.local.builder.releases import DownloadError, Releases, pin, with_digests
from muster.local.builder.versions import Release, load
from muster.paths import VERSIONS_FILE


class Publishers(Releases):
    def __init__(self, root: Path, *, silent: str = "") -> None:
        super().__init__(Cache(root), Children(), board=Board(), arch="amd64")
        self.silent = silent

    def published_digest(self, release: Release, *, arch: str) -> str:
        if self.silent and self.silent in release.url:
            raise DownloadError(release.url, "cannot be downloaded", fix="check the network")
        return f"{release.filled(release.member or release.url, arch=arch)[-8:].encode().hex():0>64}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    copy = tmp_path / "versions.toml"
    copy.write_text(VERSIONS_FILE.read_text())
    return copy


def test_every_release_gets_the_digests_of_both_processors(file: Path, tmp_path: Path) -> None:
    changed = pin(path=file, releases=Publishers(tmp_path))
    released = {name for name, program in load(file).programs.items() if program.release}
    assert set(changed) == released >= {"etcd", "kubelet", "pulumi"}
    for name in released:
        release = load(file).programs[name].release
        assert release is not None
        assert set(release.digests) == {"amd64", "arm64"}


def test_recording_again_changes_nothing(file: Path, tmp_path: Path) -> None:
    pin(path=file, releases=Publishers(tmp_path))
    before = file.read_text()
    assert pin(path=file, releases=Publishers(tmp_path)) == {}
    assert file.read_text() == before


def test_all_else_stays_as_it_is(file: Path, tmp_path: Path) -> None:
    before = file.read_text().splitlines()
    pin(path=file, releases=Publishers(tmp_path))
    after = [line for line in file.read_text().splitlines() if not line.startswith("sha256 = ")]
    assert after == [line for line in before if not line.startswith("sha256 = ")]


def test_a_publisher_that_does_not_answer_leaves_the_file_as_it_was(file: Path, tmp_path: Path) -> None:
    before = file.read_text()
    with pytest.raises(DownloadError):
        pin(path=file, releases=Publishers(tmp_path, silent="coredns"))
    assert file.read_text() == before


def test_a_table_at_the_end_of_the_file_is_written_too() -> None:
    text = with_digests('[releases.x]\nurl = "u"\n', name="x", digests={"amd64": "d"})
    assert tomllib.loads(text)["releases"]["x"] == {"url": "u", "sha256": {"amd64": "d"}}
