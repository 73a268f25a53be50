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


def test_it_has_forty_teams_whose_quotas_fit_into_the_pools() -> None:
    stack = load(EXAMPLE)
    teams = [team for _, team in stack.teams()]
    assert len(teams) == len({team.namespace for team in teams}) == 40
    given = {
        pool.name: sum(
            int(amount.gpus or 0) for team in teams if (amount := team.allowance.quota.get(pool.name))
        )
        for pool in stack.pools
        if pool.is_gpu
    }
    assert given == {"l4": 63, "a100": 96, "h100": 240}
    assert {pool.name: pool.max_nodes * pool.gpus_per_node for pool in stack.pools if pool.is_gpu} == {
        "l4": 64,
        "a100": 96,
        "h100": 256,
    }


def test_the_report_lists_every_team(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", str(EXAMPLE), "--base", "none"]) == 0
    report = capsys.readouterr().out
    assert all(f"`{team.name}`" in report for _, team in load(EXAMPLE).teams())
