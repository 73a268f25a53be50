"""The statement names every file of a release by its digest, and the commit that they were made from."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from release.provenance import statement

MOMENT = datetime(2026, 11, 24, 12, 0, tzinfo=UTC)


def made() -> Any:
    digests = {"muster_gpu-0.2.0-py3-none-any.whl": "1" * 64, "NOTES.md": "2" * 64}
    return json.loads(
        statement(
            digests,
            commit="a" * 40,
            inputs={"requirements/dev.txt": "3" * 64},
            version="0.2.0",
            started=MOMENT,
            finished=MOMENT,
        )
    )


def test_subjects_and_source_are_named_by_digest() -> None:
    written = made()
    assert {each["name"]: each["digest"]["sha256"] for each in written["subject"]} == {
        "muster_gpu-0.2.0-py3-none-any.whl": "1" * 64,
        "NOTES.md": "2" * 64,
    }
    source, lock = written["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert source["digest"] == {"gitCommit": "a" * 40}
    assert lock == {"name": "requirements/dev.txt", "digest": {"sha256": "3" * 64}}
    assert written["predicate"]["runDetails"]["metadata"]["startedOn"] == "2026-11-24T12:00:00Z"


def test_the_builder_is_the_workflow_where_one_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_WORKFLOW_REF", raising=False)
    assert made()["predicate"]["runDetails"]["builder"]["id"] == "urn:muster:by-hand"
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://github.example")
    monkeypatch.setenv("GITHUB_WORKFLOW_REF", "acme/muster/.github/workflows/release.yml@refs/tags/v0.2.0")
    assert made()["predicate"]["runDetails"]["builder"]["id"].startswith(
        "https://github.example/acme/muster/"
    )
