"""Which cluster is meant and how to speak to it: a kubeconfig and a context -> `Access`.

Only reading and checking; tokens from exec plugins are `credentials.py`, connections are `api.py`.
"""

import base64
import binascii
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml


class KubeconfigError(Exception):
    """The kubeconfig does not lead to a cluster; the message names what is missing and the fix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecPlugin:
    """A program that hands out credentials (`aws eks get-token`, `gke-gcloud-auth-plugin`, ...)."""

    command: str
    args: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    api_version: str
    provide_cluster_info: bool
    install_hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Where the API server is and who we are to it. `repr` shows no credential."""

    server: str
    context: str
    ca: bytes | None = None
    insecure: bool = False
    tls_server_name: str | None = None
    proxy: str | None = None
    plugin: ExecPlugin | None = None
    token_file: Path | None = None
    _token: str | None = None
    _certificate: tuple[bytes, bytes] | None = None
    _basic: tuple[str, str] | None = None

    def __repr__(self) -> str:
        return f"Access(server={self.server!r}, context={self.context!r})"

    @property
    def token(self) -> str | None:
        return self._token

    @property
    def certificate(self) -> tuple[bytes, bytes] | None:
        """PEM of the client certificate and of its key."""
        return self._certificate

    @property
    def basic(self) -> tuple[str, str] | None:
        return self._basic


def load(source: str | None, context: str | None) -> Access:
    """`source` is a kubeconfig's text, a path to one, or None for $KUBECONFIG and then ~/.kube/config."""
    config, folder = _read(source)
    name = context or config.get("current-context")
    if not name:
        raise KubeconfigError(
            "the kubeconfig has no current-context and none was asked for; "
            f"contexts in it: {_names(config, 'contexts')}"
        )
    entry = _entry(config, "contexts", str(name), field="context")
    cluster = _entry(config, "clusters", str(entry.get("cluster")), field="cluster")
    user = _entry(config, "users", str(entry["user"]), field="user") if entry.get("user") else {}
    return _access(str(name), cluster, user, folder)


def _read(source: str | None) -> tuple[dict[str, Any], Path]:
    if source and ("\n" in source or source.lstrip().startswith("{")):
        return _parse(source, "the kubeconfig"), Path.cwd()
    if source:
        return _read_file(Path(source).expanduser())
    paths = [Path(each) for each in os.environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    present = [path for path in paths or [Path("~/.kube/config").expanduser()] if path.is_file()]
    if not present:
        raise KubeconfigError(
            "no kubeconfig given, $KUBECONFIG names no file and ~/.kube/config does not exist"
        )
    config, folder = _read_file(present[0])
    for path in present[1:]:
        config = _merge(config, _read_file(path)[0])
    return config, folder


def _read_file(path: Path) -> tuple[dict[str, Any], Path]:
    try:
        return _parse(path.read_text(), f"kubeconfig {path}"), path.parent
    except OSError as error:
        raise KubeconfigError(f"kubeconfig {path} cannot be read: {error.strerror}") from error


def _parse(text: str, what: str) -> dict[str, Any]:
    try:
        config = yaml.safe_load(text)
    except yaml.YAMLError as error:
        # The parser's own message quotes the text, and the text holds credentials.
        mark = getattr(error, "problem_mark", None)
        raise KubeconfigError(f"{what} is not YAML{f' (line {mark.line + 1})' if mark else ''}") from None
    if not isinstance(config, dict):
        raise KubeconfigError(f"{what} is not a mapping with clusters, users and contexts")
    return config


def _merge(first: dict[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """As kubectl merges: the first file to name a thing wins."""
    merged = dict(second) | first
    for section in ("clusters", "contexts", "users"):
        known = {each.get("name") for each in first.get(section) or ()}
        merged[section] = [
            *(first.get(section) or ()),
            *(each for each in second.get(section) or () if each.get("name") not in known),
        ]
    return merged


def _entry(config: Mapping[str, Any], section: str, name: str, *, field: str) -> dict[str, Any]:
    for each in config.get(section) or ():
        if isinstance(each, dict) and each.get("name") == name:
            return dict(each.get(field) or {})
    raise KubeconfigError(f"the kubeconfig has no {field} {name!r}; it has {_names(config, section)}")


def _names(config: Mapping[str, Any], section: str) -> str:
    names = sorted(str(each.get("name")) for each in config.get(section) or () if isinstance(each, dict))
    return ", ".join(names) or "none"


def _access(name: str, cluster: Mapping[str, Any], user: Mapping[str, Any], folder: Path) -> Access:
    server = cluster.get("server")
    if not isinstance(server, str) or not server:
        raise KubeconfigError(f"the cluster of context {name!r} names no server")
    if user.get("auth-provider"):
        raise KubeconfigError(
            f"context {name!r} signs in by auth-provider, which Kubernetes removed in 1.26; use exec"
        )
    certificate = _material(user, "client-certificate", folder)
    key = _material(user, "client-key", folder)
    token_file = user.get("tokenFile")
    return Access(
        server=server.rstrip("/"),
        context=name,
        ca=_material(cluster, "certificate-authority", folder),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        tls_server_name=cluster.get("tls-server-name"),
        proxy=cluster.get("proxy-url"),
        plugin=_plugin(user.get("exec"), folder),
        token_file=folder / token_file if token_file else None,
        _token=user.get("token"),
        _certificate=(certificate, key) if certificate and key else None,
        _basic=(str(user["username"]), str(user.get("password", ""))) if user.get("username") else None,
    )


def _material(entry: Mapping[str, Any], field: str, folder: Path) -> bytes | None:
    data = entry.get(f"{field}-data")
    if data:
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            raise KubeconfigError(f"{field}-data is not base64") from None
    if entry.get(field):
        path = folder / str(entry[field])
        try:
            return path.read_bytes()
        except OSError as error:
            raise KubeconfigError(f"{field} {path} cannot be read: {error.strerror}") from error
    return None


def _plugin(spec: Mapping[str, Any] | None, folder: Path) -> ExecPlugin | None:
    if not spec:
        return None
    command = str(spec.get("command", ""))
    if "/" in command and not command.startswith("/"):
        command = str(folder / command)
    return ExecPlugin(
        command=command,
        args=tuple(str(each) for each in spec.get("args") or ()),
        env=tuple((str(each["name"]), str(each.get("value", ""))) for each in spec.get("env") or ()),
        api_version=str(spec.get("apiVersion", "client.authentication.k8s.io/v1")),
        provide_cluster_info=bool(spec.get("provideClusterInfo")),
        install_hint=str(spec.get("installHint", "")).strip(),
    )
