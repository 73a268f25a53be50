"""Finding the cluster, and proving who we are to it."""

import base64
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from muster.kubernetes.client import Credentials, connect
from muster.kubernetes.kubeconfig import KubeconfigError, load_access


def config(user: dict[str, Any], **cluster: Any) -> str:
    return json.dumps(
        {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {"server": "http://127.0.0.1:1/", **cluster}}],
            "users": [{"name": "u", "user": user}],
        }
    )


def plugin(folder: Path, script: str) -> dict[str, Any]:
    program = folder / "plugin"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    env = [{"name": "TOKEN", "value": "from-plugin"}]
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": str(program), "args": ["x"], "env": env}}


def test_a_missing_context_is_told_with_those_that_there_are() -> None:
    with pytest.raises(KubeconfigError, match=r"no context 'prod'\. Fix: use one of its contexts: c"):
        load_access(config({}), "prod")
    without = json.loads(config({})) | {"current-context": ""}
    with pytest.raises(KubeconfigError, match=r"no current context\. Fix: use one of its contexts: c\."):
        load_access(json.dumps(without), None)


def test_no_credential_is_in_a_repr_or_an_error() -> None:
    access = load_access(config({"token": "s3cret"}), None)
    assert "s3cret" not in repr(access)
    with pytest.raises(KubeconfigError) as caught:
        load_access("users: [{token: s3cret\n: :", None)
    assert "s3cret" not in str(caught.value)


def test_paths_in_a_kubeconfig_are_beside_it(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(b"PEM")
    (tmp_path / "config").write_text(config({}, **{"certificate-authority": "ca.pem"}))
    assert load_access(str(tmp_path / "config"), None).ca == b"PEM"


def test_the_first_of_several_files_to_name_a_thing_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, server in (("one", "http://one/"), ("two", "http://two/")):
        (tmp_path / name).write_text(config({}, server=server))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'one'}:{tmp_path / 'two'}")
    assert load_access(None, None).server == "http://one"


def test_a_token_file_is_beside_the_kubeconfig(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    (tmp_path / "config").write_text(config({"tokenFile": "token"}, server="https://k8s.example:6443/"))
    client = connect(tmp_path / "config")
    assert client.access.server == "https://k8s.example:6443"
    assert client.credentials.headers() == {"Authorization": "Bearer s3cret"}
    assert "s3cret" not in repr(client)


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        ({"server": "http://plain.example"}, "has no https"),
        ({"certificate-authority": "gone.crt"}, "gone.crt"),
        ({"certificate-authority-data": "bm90IGEgY2VydA=="}, "cannot be parsed"),
    ],
)
def test_a_cluster_that_cannot_be_reached_by_tls_is_refused_with_the_cause(
    tmp_path: Path, cluster: dict[str, str], message: str
) -> None:
    (tmp_path / "config").write_text(config({}, **{"server": "https://k8s.example:6443", **cluster}))
    with pytest.raises(KubeconfigError, match=message):
        connect(tmp_path / "config")


@pytest.mark.parametrize("text", ["[", "a: b", "", "[1]"])
def test_what_is_no_kubeconfig_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(KubeconfigError):
        connect(tmp_path / "config")


def test_paths_are_beside_the_file_that_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (tmp_path / "one").write_text("current-context: c")
    (other / "ca.pem").write_bytes(b"PEM")
    (other / "two").write_text(config({}, **{"certificate-authority": "ca.pem"}))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'one'}:{other / 'two'}")
    assert load_access(None).ca == b"PEM"


def test_data_that_is_not_base64_is_refused_by_name() -> None:
    with pytest.raises(KubeconfigError, match="certificate-authority-data is not base64"):
        load_access(config({}, **{"certificate-authority-data": "%%%"}), None)


def test_a_plugin_is_asked_once_until_its_token_is_refused(tmp_path: Path) -> None:
    script = f"""echo asked >> {tmp_path}/log
test -n "$KUBERNETES_EXEC_INFO" || exit 3
printf '{{"kind": "ExecCredential", "status": {{"token": "%s"}}}}' "$TOKEN\""""
    credentials = Credentials(load_access(config(plugin(tmp_path, script)), None))
    for _ in range(3):
        assert credentials.headers() == {"Authorization": "Bearer from-plugin"}
    assert (tmp_path / "log").read_text().count("asked") == 1
    credentials.forget()
    credentials.headers()
    assert (tmp_path / "log").read_text().count("asked") == 2


def test_an_expired_token_is_asked_for_again(tmp_path: Path) -> None:
    script = f"""echo asked >> {tmp_path}/log
echo '{{"status": {{"token": "t", "expirationTimestamp": "2001-01-01T00:00:00Z"}}}}'"""
    credentials = Credentials(load_access(config(plugin(tmp_path, script)), None))
    credentials.headers()
    credentials.headers()
    assert (tmp_path / "log").read_text().count("asked") == 2


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("echo sign in first >&2; exit 7", r"failed \(7\): sign in first"),
        ("echo 's3cret-not-json'", "did not print an ExecCredential"),
        ("""echo '{"status": {}}'""", "neither a token nor a client certificate"),
    ],
)
def test_a_plugin_that_fails_says_so_and_its_output_stays_private(
    tmp_path: Path, script: str, told: str
) -> None:
    with pytest.raises(KubeconfigError, match=told) as caught:
        Credentials(load_access(config(plugin(tmp_path, script)), None)).headers()
    assert "s3cret" not in str(caught.value)


def test_a_plugin_that_is_not_there_is_told_with_its_own_hint() -> None:
    user = {"exec": {"command": "/nowhere/gke-auth", "installHint": "apt install gke-auth"}}
    with pytest.raises(KubeconfigError, match="apt install gke-auth"):
        Credentials(load_access(config(user), None)).headers()


def test_basic_and_plain_tokens_become_headers() -> None:
    assert Credentials(load_access(config({"token": "t"}), None)).headers() == {"Authorization": "Bearer t"}
    basic = Credentials(load_access(config({"username": "u", "password": "p"}), None)).headers()
    assert base64.b64decode(basic["Authorization"].split()[1]) == b"u:p"
