"""A new project takes along the wheel that Muster was installed from."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

import pytest

from muster.cli import main
from muster.cli.version import version
from muster.scaffold.wheel import installed_wheel

NAME = f"muster-{version()}-py3-none-any.whl"


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What pip recorded about the installation: a file to write."""
    folder = tmp_path / "muster.dist-info"
    folder.mkdir()
    monkeypatch.setattr(metadata, "distribution", lambda _: metadata.PathDistribution(folder))
    return folder / "direct_url.json"


@pytest.fixture
def wheel(tmp_path: Path, recorded: Path) -> Path:
    made = tmp_path / "with space" / NAME
    made.parent.mkdir()
    made.write_bytes(b"wheel")
    recorded.write_text(json.dumps({"archive_info": {}, "url": made.as_uri()}), encoding="utf-8")
    return made


def test_wheel_of_the_installation_goes_into_the_project(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "project"
    assert main(["init", str(folder)]) == 0
    assert (folder / "wheels" / NAME).read_bytes() == wheel.read_bytes()
    assert f"wrote {folder / 'wheels' / NAME}" in capsys.readouterr().out


def test_wheel_that_the_project_has_already_stays(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "project" / "wheels" / NAME
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"theirs")
    assert main(["init", str(tmp_path / "project"), "--force"]) == 0
    assert kept.read_bytes() == b"theirs"
    assert f"kept  {kept}" in capsys.readouterr().out


def test_another_version_is_not_taken(wheel: Path) -> None:
    assert installed_wheel("99.0.0") is None


@pytest.mark.parametrize(
    "content",
    [
        None,
        {"url": "file:///a/checkout", "dir_info": {"editable": True}},
        {"url": f"https://example.org/{NAME}", "archive_info": {}},
        {"url": f"file:///gone/{NAME}", "archive_info": {}},
    ],
    ids=["from an index", "a checkout", "from the web", "deleted"],
)
def test_where_there_is_no_file_the_user_learns_what_to_do(
    content: object, recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        recorded.write_text(json.dumps(content), encoding="utf-8")
    folder = tmp_path / "project"
    assert main(["init", str(folder)]) == 0
    assert not (folder / "wheels").exists()
    assert f"Put Muster's wheel into {folder / 'wheels'}" in capsys.readouterr().err
