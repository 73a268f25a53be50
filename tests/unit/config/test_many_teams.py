"""A stack of many teams is checked with a bounded amount of work for each, whether it is right or wrong.

Function calls are counted: unlike seconds they are the same on every machine.
"""

import cProfile
import gc
import pstats
from pathlib import Path
from typing import Final

import pytest

from muster.cli import main
from muster.config.document import parse_text
from muster.preview.validate import check_file

_STACK: Final = """\
config:
  muster:artifacts: local
  muster:cluster: {provider: existing, name: a, context: a}
  muster:pools:
    cpu: {machine: local-cpu, maxNodes: 4000}
    l4: {accelerator: nvidia-l4, machine: local-l4, maxNodes: 4000}
  muster:priorities: {prod: 1000, dev: 100}
  muster:departments:
    research:
      departments:
        all:
          teams:
"""
# What every team has. `%d` is the number of the team.
_TEAMS: Final = {
    "valid": "{quota: {l4: 1}, borrow: {l4: 2}, weight: 2, priorities: [prod]}",
    "a key that does not exist": "{quota: {l4: 1}, wieght: 2}",
    "a pool that does not exist": "{quota: {l5: 1}}",
    "an amount of a wrong kind": "{quota: {l4: many}}",
    "another unknown key in each": "{quota: {l4: 1}, experiment-%d-owner: 2}",
}


def stack_file(folder: Path, teams: int, words: str) -> Path:
    path = folder / "Pulumi.many.yaml"
    lines = [f"            team-{each:05d}: {words.replace('%d', str(each))}\n" for each in range(teams)]
    path.write_text(_STACK + "".join(lines))
    return path


def calls_of_a_check(path: Path) -> int:
    profile = cProfile.Profile()
    profile.enable()
    check_file(path)
    profile.disable()
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


@pytest.mark.parametrize("words", _TEAMS.values(), ids=_TEAMS.keys())
def test_a_team_costs_a_bounded_number_of_calls(words: str, tmp_path: Path) -> None:
    few, many = (calls_of_a_check(stack_file(tmp_path, teams, words)) for teams in (50, 250))
    assert (many - few) / 200 < 2200


def test_a_mistake_of_every_team_is_printed_for_twenty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the message names the team."""
    path = stack_file(tmp_path, 300, "{quota: {l4: 1}, borrow: all}")
    text = path.read_text().replace("      departments:\n        all:\n", "")
    path.write_text(text.replace("          teams:", "      kueue: {cohort: none}\n      teams:"))
    assert main(["validate", str(path)]) == 1
    printed = capsys.readouterr().out
    assert printed.count("has no cohort to borrow in") == 20
    assert "And 280 more of this kind." in printed


def test_mistakes_of_several_kinds_in_every_team_fit_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "{quota: {l5: 1}, borrow: {l6: 1}, lend: {l7: 1}, priorities: [no], queueing: fast}"
    assert main(["validate", str(stack_file(tmp_path, 300, words))]) == 1
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) < 100
    for pool in ("l5", "l6", "l7"):
        assert f"pool '{pool}' is unknown" in printed
    assert "priority 'no' is unknown" in printed


def test_yaml_that_is_too_deep_is_a_mistake_and_not_a_crash() -> None:
    for text in ("config: " + "[" * 100_000, "config:\n  muster:a: " + "[" * 5000 + "]" * 5000):
        (problem,) = parse_text(text, source="stack").violations
        assert "is not YAML" in problem.message


def test_the_collector_runs_again_after_a_check(tmp_path: Path) -> None:
    check_file(stack_file(tmp_path, 1, _TEAMS["valid"]))
    assert gc.isenabled()
