"""What a project sets for all of its stacks is read as the engine reads it."""

from pathlib import Path
from typing import Final

import pytest

from muster import config
from muster.cli import main
from muster.config.project import load_document
from muster.model.stack import GangMode, Scheduler
from tests.unit.preview.preview_world import commit

PROJECT: Final = """\
name: muster
runtime: python
stackConfigDir: stacks
config:
  gcp:project:
    value: mine
  muster:scheduler:
    type: string
    default: kueue
  muster:gangAdmission: off
  muster:pools:
    value:
      cpu: {machine: local-cpu, maxNodes: 4}
      l4: {machine: local-l4, maxNodes: 8}
"""
STACK: Final = """\
config:
  muster:cluster: {provider: existing, name: a, context: a}
  muster:departments: {research: {teams: {team-a: {quota: {l4: 4}}}}}
"""


def written(folder: Path, *, project: str = PROJECT, stack: str = STACK) -> Path:
    (folder / "stacks").mkdir()
    (folder / "Pulumi.yaml").write_text(project)
    path = folder / "stacks" / "Pulumi.dev.yaml"
    path.write_text(stack)
    return path


def test_a_stack_has_the_values_of_its_project(tmp_path: Path) -> None:
    path = written(tmp_path)
    stack = config.load(path)
    assert [pool.name for pool in stack.pools] == ["cpu", "l4"]
    assert stack.gang_admission.mode is GangMode.OFF
    assert stack.scheduler is Scheduler.KUEUE
    assert main(["validate", str(path)]) == 0
    assert config.parse(load_document(path).values, source=path) == stack


@pytest.mark.parametrize("written_as", ["scheduler", "muster:config:scheduler"])
def test_a_key_without_the_prefix_is_that_of_the_project(tmp_path: Path, written_as: str) -> None:
    """The engine reads it as `muster:scheduler`, because the project is called muster."""
    kai = PROJECT.replace("muster:scheduler:\n    type: string\n    default: kueue", f"{written_as}: kai")
    assert config.load(written(tmp_path, project=kai)).scheduler is Scheduler.KAI


def test_a_key_without_the_prefix_is_not_ours_in_a_project_of_another_name(tmp_path: Path) -> None:
    other = PROJECT.replace("name: muster", "name: other").replace(
        "  muster:gangAdmission", "  gangAdmission"
    )
    assert config.load(written(tmp_path, project=other)).gang_admission.mode is not GangMode.OFF


def test_a_value_of_the_stack_goes_before(tmp_path: Path) -> None:
    own = (
        STACK
        + "  muster:pools: {cpu: {machine: local-cpu, maxNodes: 1}, l4: {machine: local-l4, maxNodes: 5}}\n"
    )
    assert [pool.max_nodes for pool in config.load(written(tmp_path, stack=own)).pools] == [1, 5]


def test_a_diff_reads_them_on_both_sides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of the base are of the base's commit."""
    path = written(tmp_path)
    monkeypatch.chdir(tmp_path)
    commit(tmp_path)
    (tmp_path / "Pulumi.yaml").write_text(PROJECT.replace("maxNodes: 8", "maxNodes: 16"))
    assert main(["diff", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "mistake" not in printed
    assert "8 → 16" in printed


def test_a_mistake_in_them_is_reported_where_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, project=PROJECT.replace("local-l4", "local-l5"))
    assert main(["validate", str(path)]) == 1
    assert f"{tmp_path}/Pulumi.yaml:14: muster:pools.l4.machine" in capsys.readouterr().out
    with pytest.raises(config.ConfigError, match=r"Pulumi[.]yaml:14: muster:pools[.]l4[.]machine"):
        config.load(path)


@pytest.mark.parametrize(
    "project", ["name: x\nruntime: python\n", "a: [", "- 1", PROJECT.replace("stacks", "x")]
)
def test_a_file_that_is_not_of_this_project_is_left_alone(tmp_path: Path, project: str) -> None:
    document = load_document(written(tmp_path, project=project))
    assert set(document.values) == {"muster:cluster", "muster:departments"}
