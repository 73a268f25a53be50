"""Reads kubeconfigs as kubectl does: a source and a context -> `Access`.

A path in a file is relative to the folder of that file. No message quotes a kubeconfig, because it holds
credentials.
"""

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import yaml

from muster.errors import MusterError

CERTIFICATES: Final = ("certificate-authority", "client-certificate", "client-key")
"""Fields that name a file; with `-data` behind them they hold its content in base64."""
_SECTIONS: Final = {"clusters": "cluster", "contexts": "context", "users": "user"}
_RENEW: Final = "create the kubeconfig again."


class KubeconfigError(MusterError):
    """The kubeconfig does not lead to a cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecPlugin:
    """A program that prints credentials (`aws eks get-token`, `gke-gcloud-auth-plugin`, ...)."""

    command: str
    args: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    api_version: str
    provide_cluster_info: bool
    install_hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Where the API server is and who we are to it. `repr` shows no credential. `namespace`: the context's.

    `server` has no trailing slash. `certificate` is the PEM of the client certificate and of its key, `basic`
    a user name and its password.
    """

    server: str
    context: str = ""
    namespace: str = "default"
    ca: bytes | None = None
    insecure: bool = False
    tls_server_name: str | None = None
    proxy: str | None = None
    plugin: ExecPlugin | None = field(default=None, repr=False)
    token_file: Path | None = None
    token: str | None = field(default=None, repr=False)
    certificate: tuple[bytes, bytes] | None = field(default=None, repr=False)
    basic: tuple[str, str] | None = field(default=None, repr=False)


def load_access(source: str | Path | None, context: str | None = None) -> Access:
    """`source` is a kubeconfig's text, a path to one, or None for kubectl's files; `context` is the current
    one where it is not given.
    """
    config, where = _read(source)
    name = context or config.get("current-context")
    names = _names(config, "contexts")
    if not name or name not in names:
        what = f"no context {name!r}" if name else "no current context"
        raise KubeconfigError(
            f"{where}: {what}.", fix=f"use one of its contexts: {', '.join(names) or 'none'}."
        )
    chosen = _entry(config, "contexts", str(name), where)
    cluster = _entry(config, "clusters", str(chosen.get("cluster")), where)
    user = _entry(config, "users", str(chosen["user"]), where) if chosen.get("user") else {}
    namespace = str(chosen.get("namespace") or "default")
    return replace(_access(str(name), cluster, user, where), namespace=namespace)


def current_context(path: Path) -> str:
    """The current context of a kubeconfig, "" where it has none."""
    return str(_read(path)[0].get("current-context") or "")


def kubectl_files() -> list[Path]:
    """The files that kubectl would read, of $KUBECONFIG or else ~/.kube/config, as far as they exist."""
    named = [Path(each) for each in os.environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    return [path for path in named or [Path("~/.kube/config").expanduser()] if path.is_file()]


def read_merged(paths: Sequence[Path]) -> dict[str, Any]:
    """The files as one kubeconfig with absolute paths: the first file to name a thing wins."""
    merged: dict[str, Any] = {}
    for path in paths:
        config = _read_file(path)
        entries = {
            section: [
                *(merged.get(section) or ()),
                *(each for each in config.get(section) or () if each["name"] not in _names(merged, section)),
            ]
            for section in _SECTIONS
        }
        merged = config | merged | entries
    return merged


def _read(source: str | Path | None) -> tuple[dict[str, Any], str]:
    """The kubeconfig, and what messages call it."""
    if isinstance(source, str) and ("\n" in source or source.lstrip().startswith("{")):
        return _parse(source, "the kubeconfig", Path.cwd()), "the kubeconfig"
    paths = [Path(source).expanduser()] if source else kubectl_files()
    if not paths:
        raise KubeconfigError(
            "no kubeconfig given, $KUBECONFIG names no file and ~/.kube/config does not exist.",
            fix="set KUBECONFIG to the file of the cluster.",
        )
    return read_merged(paths), ", ".join(map(str, paths))


def _read_file(path: Path) -> dict[str, Any]:
    try:
        return _parse(path.read_text(encoding="utf-8"), str(path), path.parent)
    except OSError as error:
        raise KubeconfigError(
            f"{path}: cannot be read: {error.strerror}.", fix="name one by --kubeconfig or KUBECONFIG."
        ) from None
    except UnicodeDecodeError:
        raise KubeconfigError(f"{path}: not a kubeconfig: the file is no text.", fix=_RENEW) from None


def _parse(text: str, where: str, folder: Path) -> dict[str, Any]:
    try:
        config = yaml.safe_load(text)
    except yaml.YAMLError as error:
        # The parser's own message quotes the text.
        mark = getattr(error, "problem_mark", None)
        line = f" (line {mark.line + 1})" if mark else ""
        raise KubeconfigError(f"{where}: not a kubeconfig: it is not YAML{line}.", fix=_RENEW) from None
    if not isinstance(config, dict):
        raise KubeconfigError(
            f"{where}: not a kubeconfig: no mapping with clusters, users and contexts.", fix=_RENEW
        )
    for section, kind in _SECTIONS.items():
        config[section] = [_resolved(each, kind, folder) for each in _mappings(config.get(section))]
    return config


def _mappings(found: object) -> list[dict[str, Any]]:
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _resolved(entry: dict[str, Any], kind: str, folder: Path) -> dict[str, Any]:
    """An entry whose paths are absolute."""
    body = entry.get(kind)
    body = dict(body) if isinstance(body, dict) else {}
    for name in (*CERTIFICATES, "tokenFile"):
        if body.get(name):
            body[name] = str(folder.absolute() / str(body[name]))
    plugin = body.get("exec")
    if isinstance(plugin, dict) and "/" in str(plugin.get("command")):
        body["exec"] = {**plugin, "command": str(folder.absolute() / plugin["command"])}
    return {**entry, "name": str(entry.get("name")), kind: body}


def _names(config: Mapping[str, Any], section: str) -> list[str]:
    return sorted(each["name"] for each in config.get(section) or ())


def _entry(config: Mapping[str, Any], section: str, name: str, where: str) -> dict[str, Any]:
    kind = _SECTIONS[section]
    found = next((each[kind] for each in config[section] if each["name"] == name), None)
    if found is None:
        known = ", ".join(_names(config, section)) or "none"
        raise KubeconfigError(f"{where}: no {kind} {name!r}; it has {known}.", fix=_RENEW)
    return dict(found)


def _access(context: str, cluster: Mapping[str, Any], user: Mapping[str, Any], where: str) -> Access:
    server = cluster.get("server")
    if not isinstance(server, str) or not server:
        raise KubeconfigError(
            f"{where}: the cluster of context {context!r} names no server.", fix="set its `server`."
        )
    if user.get("auth-provider"):
        raise KubeconfigError(
            f"{where}: context {context!r} signs in by auth-provider, which Kubernetes removed in 1.26.",
            fix="use exec.",
        )
    authority, certificate, key = (
        _material(entry, name, where) for entry, name in zip((cluster, user, user), CERTIFICATES, strict=True)
    )
    return Access(
        server=server.rstrip("/"),
        context=context,
        ca=authority,
        insecure=cluster.get("insecure-skip-tls-verify") is True,
        tls_server_name=cluster.get("tls-server-name"),
        proxy=cluster.get("proxy-url") or None,
        plugin=_plugin(user.get("exec")),
        token_file=Path(user["tokenFile"]) if user.get("tokenFile") else None,
        token=user.get("token"),
        certificate=(certificate, key) if certificate and key else None,
        basic=(str(user["username"]), str(user.get("password", ""))) if user.get("username") else None,
    )


def _material(entry: Mapping[str, Any], name: str, where: str) -> bytes | None:
    """PEM bytes that a kubeconfig holds, or that lie in the file that it names."""
    data = entry.get(f"{name}-data")
    if data:
        try:
            return base64.b64decode("".join(str(data).split()), validate=True)
        except (binascii.Error, ValueError):
            raise KubeconfigError(f"{where}: {name}-data is not base64.", fix=_RENEW) from None
    return read_named(Path(entry[name])) if entry.get(name) else None


def read_named(path: Path) -> bytes:
    """A file that a kubeconfig names."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise KubeconfigError(
            f"{path}, which the kubeconfig names, cannot be read: {error.strerror}.", fix=_RENEW
        ) from None


def _plugin(spec: Mapping[str, Any] | None) -> ExecPlugin | None:
    if not spec:
        return None
    return ExecPlugin(
        command=str(spec.get("command", "")),
        args=tuple(str(each) for each in spec.get("args") or ()),
        env=tuple((str(each["name"]), str(each.get("value", ""))) for each in spec.get("env") or ()),
        api_version=str(spec.get("apiVersion", "client.authentication.k8s.io/v1")),
        provide_cluster_info=bool(spec.get("provideClusterInfo")),
        install_hint=str(spec.get("installHint", "")).strip(),
    )
