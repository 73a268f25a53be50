"""The shipped example of 40 teams is a stack without a warning, and its comments are true."""

from pathlib import Path
from typing import Final

import pytest

from muster.cli import main
from muster.config import load
from muster.config.project import load_document
from muster.config.stack import examine

EXAMPLE: Final = Path(__file__).parents[3] / "examples" / "forty-teams" / "stacks" / "Pulumi.company.yaml"


def test_it_has_no_mistake_and_no_warning() -> None:
    assert [str(each) for each in examine(load_document(EXAMPLE))[1]] == []
    assert main(["validate", str(EXAMPLE)]) == 0


def test_the_report_lists_every_team(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", str(EXAMPLE), "--base", "none"]) == 0
    report, teams = capsys.readouterr().out, [team.name for _, team in load(EXAMPLE).teams()]
    assert len(teams) == 40
    assert [name for name in teams if f"`{name}`" not in report] == []
