"""Two stacks that describe the same cluster are refused, with the other stack's name."""

from pathlib import Path

import pytest

from muster import config
from muster.config.project import load_document
from muster.config.stack import examine

_GKE = """config:
  muster:cluster: {{provider: gke, name: {name}, project: {project}, region: {region}}}
  muster:pools: {{cpu: {{machine: e2-standard-4, maxNodes: 2}}}}
  muster:departments: {{research: {{teams: {{team-a: {{quota: {{cpu: 1}}}}}}}}}}
"""
_EKS = """config:
  muster:cluster: {provider: eks, name: ml, region: us-east-1, zones: [us-east-1a, us-east-1b]}
  muster:pools: {cpu: {machine: m6i.xlarge, maxNodes: 2}}
  muster:departments: {research: {teams: {team-a: {quota: {cpu: 1}}}}}
"""


def gke(*, name: str = "ml", project: str = "acme", region: str = "us-central1") -> str:
    return _GKE.format(name=name, project=project, region=region)


def two(folder: Path, mine: str, other: str) -> Path:
    (folder / "Pulumi.other.yaml").write_text(other)
    path = folder / "Pulumi.mine.yaml"
    path.write_text(mine)
    return path


def test_a_cluster_that_another_stack_describes_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(config.ConfigError) as refused:
        config.load(two(tmp_path, gke(), gke()))
    message = str(refused.value)
    assert "muster:cluster.name" in message
    assert "'ml' in us-central1 of project acme is also described by stack other" in message
    assert "give one of them another name, or another region or project" in message


def test_what_the_engine_hands_over_is_held_to_the_files_beside_it(tmp_path: Path) -> None:
    path = two(tmp_path, gke(), gke())
    with pytest.raises(config.ConfigError):
        config.parse(dict(load_document(path).values), source=path)


@pytest.mark.parametrize("other", [{"name": "ml2"}, {"project": "acme2"}, {"region": "us-east1"}])
def test_another_name_region_or_project_is_another_cluster(tmp_path: Path, other: dict[str, str]) -> None:
    assert config.load(two(tmp_path, gke(), gke(**other))).cluster.name == "ml"


def test_aws_accounts_are_in_no_file_so_eks_is_only_warned_of(tmp_path: Path) -> None:
    stack, found = examine(load_document(two(tmp_path, _EKS, _EKS)))
    assert stack is not None
    assert [(each.path, each.level) for each in found if "stack other" in each.message] == [
        ("muster:cluster.name", "warning")
    ]


@pytest.mark.parametrize("other", ["", "config: [ml]", "config:\n  muster:cluster: ml\n", "{ml"])
def test_what_is_wrong_with_another_stack_is_left_to_its_own_reader(tmp_path: Path, other: str) -> None:
    assert config.load(two(tmp_path, gke(), other)).cluster.name == "ml"
