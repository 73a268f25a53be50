"""Commands that run other programs: the demo's steps and the benchmark of a checkout."""

from pathlib import Path

import pytest

from muster.cli import main


@pytest.mark.parametrize(("ended", "code"), [(1, 1), (3, 3), (130, 130), (255, 3), (-9, 3)])
def test_a_step_of_the_demo_that_fails_ends_it_with_a_code_of_the_table(
    ended: int, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steps: list[list[str]] = []

    def run(_: str, command: list[str], *__: object, **___: object) -> int:
        steps.append(command)
        return ended

    monkeypatch.setattr("muster.local.demo.tour.run_step", run)
    assert main(["local", "demo", "--name", "x"]) == code
    assert [command[-2:] for command in steps] == [["local", "build"]]
    error, fix = capsys.readouterr().err.splitlines()
    assert error == f"Error: build ended with exit code {ended}."
    assert "muster local status" in fix


def test_the_demo_on_another_system_names_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    assert main(["local", "demo"]) != 0
    assert "a local cluster needs Linux" in capsys.readouterr().err


def test_the_benchmark_outside_of_a_checkout_names_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("muster.cli.commands.bench.IMPORT_ROOT", tmp_path)
    assert main(["bench"]) == 2
    assert "Fix: run it in a checkout of Muster" in capsys.readouterr().err
