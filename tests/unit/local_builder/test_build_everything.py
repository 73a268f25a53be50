"""Where a missing program comes from: its publisher or its pinned module."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from muster.local import LocalClusterError
from muster.local.builder.cache import Cache
from muster.local.builder.everything import PROGRAMS_VARIABLE, Programs, Run, chosen_programs
from muster.local.builder.go import GoBuilder
from muster.local.builder.releases import DownloadError, Releases
from muster.local.builder.versions import Program, load

RELEASED, COMPILED = load().programs["kube-scheduler"], load().programs["kueue"]


class Go:
    """Compiles anything at once."""

    def __init__(self) -> None:
        self.built: list[str] = []

    def imported(self, program: Program) -> Path | None:
        return None

    ready = imported

    def fetch(self, program: Program) -> None:
        pass

    def build(self, program: Program) -> Path:
        self.built.append(program.name)
        return Path("built", program.name)


class Publishers:
    def __init__(self, *, answer: bool = True, fault: str = "") -> None:
        self.answer = answer
        self.fault = fault

    def ready(self, program: Program) -> Path | None:
        return None

    def reachable(self, programs: Sequence[Program]) -> set[str]:
        return {program.name for program in programs} if self.answer else set()

    def fetch(self, program: Program) -> Path:
        if self.fault:
            raise DownloadError(program.name, self.fault, fix="--programs build")
        return Path("downloaded", program.name)


def made(
    cache: Path, source: Programs, publishers: Publishers, *, wanted: Sequence[Program] = (RELEASED, COMPILED)
) -> dict[str, str]:
    run = Run(Cache(cache), base=None, source=source)
    run.go, run.releases = cast(GoBuilder, Go()), cast(Releases, publishers)
    for program in wanted:
        run.board.add(program.name, 1)
    return {name: str(path.parent) for name, path in run.programs(wanted).items()}


def test_what_is_released_is_downloaded_and_the_rest_compiled(tmp_path: Path) -> None:
    for source in (Programs.AUTO, Programs.DOWNLOAD):
        assert made(tmp_path, source, Publishers()) == {"kube-scheduler": "downloaded", "kueue": "built"}


def test_build_asks_no_publisher(tmp_path: Path) -> None:
    assert made(tmp_path, Programs.BUILD, Publishers()) == {"kube-scheduler": "built", "kueue": "built"}


def test_auto_compiles_where_no_publisher_answers_and_reports_it_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert made(tmp_path, Programs.AUTO, Publishers(answer=False))["kube-scheduler"] == "built"
    assert capsys.readouterr().err.count("publishers cannot be reached: compiling kube-scheduler") == 1


def test_auto_compiles_what_cannot_be_verified_and_reports_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publishers = Publishers(fault="has another sha256")
    assert made(tmp_path, Programs.AUTO, publishers)["kube-scheduler"] == "built"
    assert "has another sha256; compiling kube-scheduler" in capsys.readouterr().err


def test_download_ends_with_the_fault_instead(tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="has another sha256"):
        made(tmp_path, Programs.DOWNLOAD, Publishers(fault="has another sha256"))


@pytest.fixture
def outside_ci(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv(PROGRAMS_VARIABLE, raising=False)
    return monkeypatch


def test_the_option_outweighs_the_variable(outside_ci: pytest.MonkeyPatch) -> None:
    assert chosen_programs() is Programs.AUTO
    outside_ci.setenv(PROGRAMS_VARIABLE, "download")
    assert chosen_programs() is Programs.DOWNLOAD
    assert chosen_programs("build") is Programs.BUILD


def test_ci_compiles_whatever_is_asked_for(outside_ci: pytest.MonkeyPatch) -> None:
    outside_ci.setenv("CI", "true")
    assert chosen_programs("download") is Programs.BUILD


def test_another_word_is_refused_with_the_words_that_are_known(outside_ci: pytest.MonkeyPatch) -> None:
    with pytest.raises(LocalClusterError, match="use auto, download, build"):
        chosen_programs("maybe")
    outside_ci.setenv(PROGRAMS_VARIABLE, "perhaps")
    with pytest.raises(LocalClusterError, match=f"{PROGRAMS_VARIABLE}=perhaps"):
        chosen_programs()
