"""Ctrl-C during a build, and builds that are told to be quiet."""

import sys

import pytest

from muster.cli import main
from muster.local.builder import everything


@pytest.fixture(autouse=True)
def no_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.cli.commands.local_up.preflight.check", lambda: None)


def test_ctrl_c_names_what_is_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(everything, "ensure_all", interrupted)
    assert main(["local", "build"]) == 130
    assert capsys.readouterr().err == "Error: interrupted; what was built so far is kept.\n"


@pytest.mark.parametrize(("options", "shown"), [([], True), (["--quiet"], False), (["-q"], False)])
def test_quiet_leaves_out_the_progress_and_keeps_the_result(
    options: list[str], shown: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def built(*names: str, **_: object) -> list[tuple[str, str]]:
        print("1 of 2 done", file=sys.stderr)
        return [("program", f"/{name}") for name in names]

    monkeypatch.setattr(everything, "ensure_only", built)
    assert main(["local", "build", "--only", "x", "--only", "y", *options]) == 0
    found = capsys.readouterr()
    assert found.out == "program: /x\nprogram: /y\n"
    assert bool(found.err) is shown
