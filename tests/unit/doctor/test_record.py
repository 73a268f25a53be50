"""The record of a first run holds figures and findings, and no name of the user's."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster import config
from muster.cli import main
from muster.cli.commands import doctor as command
from muster.cloud.doctor import support
from muster.cloud.doctor.findings import Anonymizer, failed, record
from muster.model.regions import Provider
from tests.unit.model.model_stacks import new_config

SECRETS = (
    "proj-blue-42", "vision-x", "arn:aws:iam::123456789012:user/jane", "jane.doe@example.org", "10.20.30.40",
    "gs://blue-state/x", "0f8fad5b-d9cb-469f-a165-70867728950e", "/home/jane/keys", "vpc-0a1b2c3d4e",
    "jane@acme-laptop", "ip-10-0-0-7.acme.internal", "fd00:1:2:3::7", "acme-corp", "ml",
)  # fmt: skip


def document() -> dict[str, Any]:
    image = "ghcr.io/acme-corp/muster/gang-admission@sha256:" + "ab" * 32
    teams: dict[str, Any] = {"vision-x": {}, "ml": {}}
    written = new_config(Provider.GKE, departments={"blue": {"teams": teams}}, image=image)
    written["muster:cluster"]["project"] = "proj-blue-42"
    return written


def test_nothing_that_names_the_user_is_in_a_record() -> None:
    stack = config.parse(document(), source="x")
    message = f"denied: {', '.join(SECRETS)}, stack Blue-Prod: roles/compute.viewer is missing"
    content = record(
        stack,
        document=document(),
        findings=[
            failed("credentials", message, "gcloud auth --project proj-blue-42"),
            failed("lock", "held by process 7 of smith on box7", "wait"),
        ],
        updates=[],
        name="blue-prod",
        version="1.0",
    )
    text = json.dumps(content)
    for secret in (*SECRETS, "blue-prod", "proj-blue"):
        assert not re.search(rf"(?<![a-z]){re.escape(secret)}(?![a-z])", text, re.IGNORECASE), secret
    finding, lock = content["findings"]
    assert (lock["check"], lock["message"]) == ("lock", "")
    assert finding["message"].endswith("roles/compute.viewer is missing")
    assert finding["check"] == "credentials"
    assert finding["fix"].startswith("gcloud auth --project NAME-")


def test_figures_and_words_of_the_language_stay() -> None:
    stack = config.parse(document(), source="x")
    content = record(stack, document=document(), findings=[], updates=[], name="x", version="1.0")
    assert content["cluster"]["provider"] == "gke"
    assert {pool["machine"] for pool in content["pools"]} == {pool.machine.name for pool in stack.pools}
    assert content["teams"] == 2
    without_names = Anonymizer(document(), "x")
    assert without_names("g2-standard-8 is queued in a pool") == "g2-standard-8 is queued in a pool"


NAMES = st.from_regex(r"zz[a-z0-9-]{3,20}[a-z0-9]", fullmatch=True)  # No word of the language.


@given(st.lists(NAMES, min_size=1, max_size=5, unique=True))
def test_no_name_of_a_document_survives(names: list[str]) -> None:
    content: dict[str, Any] = {
        "muster:departments": {name: {"teams": {f"{name}-t": {"quota": {}}}} for name in names}
    }
    text = Anonymizer(content)(" ".join(f"{name} {name}-t" for name in names))
    assert not [name for name in names if name in text.split() or f"{name}-t" in text.split()]


def test_a_history_is_taken_without_messages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answer = [
        {
            "kind": "update",
            "result": "failed",
            "startTime": "2026-11-23T10:00:00.000Z",
            "endTime": "2026-11-23T10:09:00.000Z",
            "resourceChanges": {"create": 12},
            "message": "jane's commit",
            "environment": {"git.author.email": "jane@example.org"},
            "config": {"muster:cluster": {"value": "proj-blue-42"}},
        }
    ]
    program = tmp_path / "pulumi"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(answer)}\nEND\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (found,) = support.updates("prod", project=tmp_path)
    assert found == {
        key: answer[0][key] for key in ("kind", "result", "startTime", "endTime", "resourceChanges")
    }


@pytest.fixture
def stack_file(tmp_path: Path) -> Path:
    file = tmp_path / "Pulumi.blue-prod.yaml"
    file.write_text(yaml.safe_dump({"config": document()}))
    return file


def test_the_command_writes_it_also_without_a_history(
    stack_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def found(*_: object, **__: object) -> Iterator[Any]:
        yield failed("APIs", "disabled in proj-blue-42", "enable them")

    monkeypatch.setattr(command, "examine", found)
    monkeypatch.setenv("PATH", str(tmp_path))
    target = tmp_path / "record.json"
    assert main(["doctor", str(stack_file), "--record", str(target)]) == 1
    content = json.loads(target.read_text())
    assert content["updates"] == []
    assert "proj-blue-42" not in target.read_text()
    assert "history was not read" in capfd.readouterr().err
