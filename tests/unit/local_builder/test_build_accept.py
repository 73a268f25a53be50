"""Which programs of the machine are taken instead of being built."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from muster.local.builder.everything import accepted, cli_fits, kubectl_fits, plugin_fits
from muster.local.builder.versions import Program, load

PROGRAMS = load().programs


@pytest.mark.parametrize(
    ("said", "fits"),
    [
        ("v3.200.0", True),
        ("v3.214.1\n", True),
        ("v3.199.9", False),
        ("v4.0.0", False),
        ("v2.250.0", False),
        ("command not found", False),
        ("", False),
    ],
)
def test_a_cli_from_3_200_up_to_4_fits(said: str, fits: bool) -> None:
    assert cli_fits(said) is fits


@pytest.mark.parametrize(
    ("client", "fits"), [("v1.33.9", True), ("v1.35.0", True), ("v1.32.0", False), ("v1.36.0", False)]
)
def test_kubectl_fits_within_one_minor_release(client: str, fits: bool) -> None:
    said = json.dumps({"clientVersion": {"gitVersion": client}})
    assert kubectl_fits(said, server="v1.34.4") is fits


@pytest.mark.parametrize("said", ["", "null", "[]", '{"clientVersion": {}}', "not json"])
def test_a_kubectl_that_answers_nonsense_does_not_fit(said: str) -> None:
    assert not kubectl_fits(said, server="v1.34.4")


def test_a_plugin_older_than_the_sdk_does_not_fit() -> None:
    assert plugin_fits("4.34.2", wanted="4.34.2")
    assert plugin_fits("v4.40.0", wanted="4.34.2")
    assert not plugin_fits("4.34.1", wanted="4.34.2")
    assert not plugin_fits("5.0.0", wanted="4.34.2")


def executable(path: Path, answer: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{answer}'\n")
    path.chmod(0o755)
    return path


def test_a_fitting_program_on_path_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = executable(tmp_path / "bin" / "pulumi", "v3.210.0")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/bin:/usr/bin")
    assert accepted(PROGRAMS["pulumi"], ours=tmp_path / "cache") == found


def test_what_we_built_ourselves_is_not_taken_for_the_machines(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    executable(tmp_path / "cache" / "path" / "pulumi", "v3.210.0")
    monkeypatch.setenv("PATH", f"{tmp_path}/cache/path:/bin:/usr/bin")
    assert accepted(PROGRAMS["pulumi"], ours=tmp_path / "cache") is None


def test_a_language_host_is_taken_only_with_the_cli_that_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    host = executable(tmp_path / "b" / "pulumi-language-python", "")
    for script in ("pulumi-language-python-exec", "pulumi-analyzer-policy-python"):
        executable(tmp_path / "b" / script, "")
    executable(tmp_path / "b" / "pulumi", "v3.210.0")
    program = PROGRAMS["pulumi-language-python"]
    monkeypatch.setenv("PATH", f"{tmp_path}/b:/bin:/usr/bin")
    assert accepted(program, ours=tmp_path / "cache") == host
    executable(tmp_path / "a" / "pulumi", "v3.210.0")
    monkeypatch.setenv("PATH", f"{tmp_path}/a:{tmp_path}/b:/bin:/usr/bin")
    assert accepted(program, ours=tmp_path / "cache") is None


def test_a_plugin_that_answers_nothing_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    executable(tmp_path / "bin" / "pulumi-resource-kubernetes", "usage: ...")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/bin:/usr/bin")
    assert accepted(PROGRAMS["pulumi-resource-kubernetes"], ours=tmp_path / "cache") is None


def test_programs_without_a_rule_are_always_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    executable(tmp_path / "bin" / "etcd", "v3.6.4")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/bin:/usr/bin")
    program: Program = replace(PROGRAMS["etcd"])
    assert accepted(program, ours=tmp_path / "cache") is None
