"""Artifacts are complete, or the error names what is missing and how to get it."""

import json
from pathlib import Path

import pytest

from muster.artifacts import resolved
from muster.artifacts.resolved import ArtifactError
from muster.config import load


@pytest.fixture
def file(tmp_path: Path) -> Path:
    chart = tmp_path / "chart"
    chart.mkdir()
    path = tmp_path / "artifacts.json"
    document = {
        "charts": {"kueue": str(chart)},
        "images": {"kueue": "muster.local/kueue@sha256:" + "0" * 64},
        "programs": {"etcd": str(tmp_path / "gone")},
    }
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_artifacts_come_from_the_file_that_the_environment_names(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_ARTIFACTS", str(file))
    found = resolved.load()
    assert found.chart("kueue").reference == str(file.parent / "chart")
    assert found.image("kueue").startswith("muster.local/kueue@sha256:")


def test_an_unset_variable_is_reported_with_both_remedies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MUSTER_ARTIFACTS", raising=False)
    with pytest.raises(
        ArtifactError, match=r"MUSTER_ARTIFACTS is not set.*make up.*muster:artifacts: upstream"
    ):
        resolved.load()


def test_a_missing_file_entry_or_path_is_reported_by_name(file: Path) -> None:
    with pytest.raises(ArtifactError, match="does not exist"):
        resolved.load(file.parent / "other.json")
    found = resolved.load(file)
    with pytest.raises(ArtifactError, match=r"images\.ray is missing\. Fix: `make up`"):
        found.image("ray")
    with pytest.raises(ArtifactError, match=r"programs\.etcd: .*gone does not exist"):
        found.program("etcd")
    with pytest.raises(ArtifactError, match=r"crds\.x is missing"):
        found.crd("x")


def test_a_stack_of_kai_needs_a_local_cluster_that_runs_kai(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = load(Path(__file__).parents[3] / "stacks" / "Pulumi.local-kai.yaml")
    monkeypatch.setenv("MUSTER_ARTIFACTS", str(file))
    with pytest.raises(ArtifactError, match=r"runs no KAI\. Fix: .*muster local up --scheduler kai"):
        resolved.resolve_artifacts(stack, name="local-kai")
    document = json.loads(file.read_text())
    document["programs"]["kai-scheduler"] = "/kai-scheduler"
    file.write_text(json.dumps(document), encoding="utf-8")
    assert resolved.resolve_artifacts(stack, name="local-kai").images.keys() == {"kueue"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "cannot be read"),
        ("[]", "JSON object"),
        ('{"images": []}', "images must be"),
        ('{"charts": {"a": 1}}', "charts must be"),
        ('{"images": {"kueue": "muster.local/kueue:latest"}}', "has no digest"),
    ],
)
def test_a_malformed_file_is_refused_with_the_reason(text: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "artifacts.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ArtifactError, match=expected):
        resolved.load(path)
