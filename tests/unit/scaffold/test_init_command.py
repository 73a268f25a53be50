"""`muster init`: what it prints and the exit code of each outcome."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.cli import main
from muster.distribution import version, wheel_name


def test_new_project_is_listed_file_by_file_and_has_the_installed_version(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "clusters"
    assert main(["init", str(folder), "--provider", "eks", "--name", "ml", "--name", "ml-prod"]) == 0
    listed = {line.removeprefix("wrote ") for line in capsys.readouterr().out.splitlines()}
    assert listed == {str(path) for path in folder.rglob("*") if path.is_file()}
    assert wheel_name(version()) in (folder / "requirements.txt").read_text(encoding="utf-8")
    assert (folder / "stacks" / "Pulumi.ml-prod.yaml").is_file()


def test_without_a_provider_it_is_the_local_cluster(tmp_path: Path) -> None:
    assert main(["init", str(tmp_path)]) == 0
    assert (tmp_path / "stacks" / "Pulumi.local.yaml").is_file()


def test_existing_file_is_kept_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "README.md").write_text("mine\n", encoding="utf-8")
    assert main(["init", str(tmp_path)]) == 0
    assert f"kept  {tmp_path / 'README.md'}" in capsys.readouterr().out
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == "mine\n"
    assert main(["init", "--force", str(tmp_path)]) == 0
    assert (tmp_path / "README.md").read_text(encoding="utf-8") != "mine\n"


def test_a_project_is_not_written_into_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", str(tmp_path), "--provider", "gke", "--name", "dev", "--name", "prod"]) == 0
    record = (tmp_path / ".muster.yaml").read_bytes()
    assert main(["init", str(tmp_path), "--provider", "gke"]) == 2
    assert f"muster init --update {tmp_path}" in capsys.readouterr().err
    assert (tmp_path / ".muster.yaml").read_bytes() == record


def test_a_stack_that_is_named_twice_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "clusters"
    assert main(["init", str(folder), "--name", "dev", "--name", "dev"]) == 2
    assert "a stack is named twice: dev, dev." in capsys.readouterr().err
    assert not folder.exists()


def test_update_exits_with_1_for_a_difference_and_with_0_once_it_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["init", str(tmp_path), "--provider", "gke"])
    assert main(["init", "--update", str(tmp_path)]) == 0
    monkeypatch.setattr("muster.cli.commands.project.version", lambda: "99.0.0")
    capsys.readouterr()
    assert main(["init", "--update", str(tmp_path)]) == 1
    assert f"\n+file:./wheels/{wheel_name('99.0.0')}\n" in capsys.readouterr().out
    assert "99.0.0" not in (tmp_path / "requirements.txt").read_text(encoding="utf-8")
    assert main(["init", "--update", "--write", str(tmp_path)]) == 0
    assert main(["init", "--update", str(tmp_path)]) == 0


@pytest.mark.parametrize(
    "arguments", [["--write"], ["--update"], ["--update", "--force"], ["--name", "Not A Name"]]
)
def test_unusable_options_exit_with_2_and_a_fix(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", *arguments, str(tmp_path)]) == 2
    assert "Fix: " in capsys.readouterr().err
