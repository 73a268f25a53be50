"""A kubeconfig is read like kubectl reads it, and its secrets are never printed."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.kubernetes.client import connect
from muster.kubernetes.kubeconfig import KubeconfigError


def _write(folder: Path, user: dict[str, Any], **cluster: Any) -> Path:
    path = folder / "config"
    content = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://k8s.example:6443/", **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def test_a_token_is_in_the_header_and_in_no_text(tmp_path: Path) -> None:
    found = connect(_write(tmp_path, {"token": "s3cr3t"}))
    assert found.access.server == "https://k8s.example:6443"
    assert found.credentials.headers()["Authorization"] == "Bearer s3cr3t"
    assert "s3cr3t" not in repr(found)


def test_a_token_file_is_relative_to_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc\n", encoding="utf-8")
    assert (
        connect(_write(tmp_path, {"tokenFile": "token"})).credentials.headers()["Authorization"]
        == "Bearer abc"
    )


def test_a_program_prints_the_credential(tmp_path: Path) -> None:
    script = "import os, json; print(json.dumps({'status': {'token': os.environ['A'] + 'bc'}}))"
    wanted = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", script],
        "env": [{"name": "A", "value": "a"}],
    }
    assert connect(_write(tmp_path, {"exec": wanted})).credentials.headers()["Authorization"] == "Bearer abc"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("import sys; sys.exit('please log in')", "please log in"),
        ("print('no json')", "did not print an ExecCredential"),
    ],
)
def test_a_program_that_fails_is_named(tmp_path: Path, script: str, message: str) -> None:
    path = _write(tmp_path, {"exec": {"command": sys.executable, "args": ["-c", script]}})
    with pytest.raises(KubeconfigError, match=message):
        connect(path)


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="cannot be started"):
        connect(_write(tmp_path, {"exec": {"command": "no-such-program-here"}}))


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        ({"server": "http://plain.example"}, "has no https"),
        ({"certificate-authority": "gone.crt"}, "gone.crt"),
        ({"certificate-authority-data": "%%%"}, "not base64"),
        ({"certificate-authority-data": "bm90IGEgY2VydA=="}, "cannot be parsed"),
    ],
)
def test_an_unusable_kubeconfig_is_refused_with_the_cause(
    tmp_path: Path, cluster: dict[str, str], message: str
) -> None:
    with pytest.raises(KubeconfigError, match=message):
        connect(_write(tmp_path, {}, **cluster))


def test_an_unknown_context_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="one of its contexts: here"):
        connect(_write(tmp_path, {}), context="elsewhere")


def test_a_kubeconfig_without_a_current_context_is_refused_with_those_that_it_has(tmp_path: Path) -> None:
    path = _write(tmp_path, {})
    path.write_text(path.read_text(encoding="utf-8").replace("current-context: here", ""), encoding="utf-8")
    with pytest.raises(KubeconfigError, match=r"no current context\. Fix: use one of its contexts: here\."):
        connect(path)


@pytest.mark.parametrize("text", ["[", "a: b", "", json.dumps([1])])
def test_what_is_no_kubeconfig_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(KubeconfigError):
        connect(path)
