"""Reads a cluster's address and credentials from a kubeconfig.

Supported are token, token file, basic authentication, client certificate, and a credential plugin, as GKE and
EKS use
(https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins).
"""

import base64
import binascii
import json
import os
import ssl
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

from muster.live.errors import PreviewError
from muster.live.fields import items, mapping, text
from muster.live.sanitize import sanitize_line
from muster.live.web import Web

_PLUGIN_TIMEOUT: Final = 60


class KubeconfigError(PreviewError):
    """A kubeconfig that cannot be used."""


def connect(path: Path, *, context: str = "") -> Web:
    """A client for the cluster of one context, by default the current one."""
    config = _read(path)
    wanted = context or text(config, "current-context")
    contexts = {text(each, "name"): each for each in items(config, "contexts")}
    if wanted not in contexts:
        what = f"no context {wanted!r}" if wanted else "no current context"
        known = ", ".join(sorted(contexts)) or "none"
        raise KubeconfigError(f"{path}: {what}.", fix=f"use one of its contexts: {known}.")
    chosen = mapping(contexts[wanted], "context")
    cluster = _named(config, "clusters", "cluster", text(chosen, "cluster"))
    user = _named(config, "users", "user", text(chosen, "user"))
    server = text(cluster, "server").rstrip("/")
    if not server.startswith("https://"):
        raise KubeconfigError(
            f"{path}: cluster {text(chosen, 'cluster')!r} has no https:// server.", fix="set its `server`."
        )
    user = {**user, **_run_plugin(path, mapping(user, "exec"))}
    return Web(
        base=server,
        headers={"Accept": "application/json", **_authorization(path, user)},
        context=_tls(path, cluster, user),
        proxy=text(cluster, "proxy-url") or None,
    )


def current_context(path: Path) -> str:
    """The current context of a kubeconfig, "" where it has none."""
    return text(_read(path), "current-context")


def _read(path: Path) -> Mapping[str, object]:
    try:
        return mapping(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise KubeconfigError(
            f"{path}: cannot be read: {error.strerror}.", fix="name one by --kubeconfig or KUBECONFIG."
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise KubeconfigError(
            f"{path}: not a kubeconfig: the file is not YAML.", fix="name a kubeconfig."
        ) from None


def _named(config: object, plural: str, singular: str, name: str) -> Mapping[str, object]:
    return next((mapping(each, singular) for each in items(config, plural) if text(each, "name") == name), {})


def _run_plugin(path: Path, wanted: Mapping[str, object]) -> dict[str, str]:
    """The credential that a plugin prints, as the fields that a kubeconfig user has."""
    command = text(wanted, "command")
    if not command:
        return {}
    found = wanted.get("args")
    arguments = [each for each in found if isinstance(each, str)] if isinstance(found, list) else []
    if "/" in command:
        command = str(path.parent / command)
    version = text(wanted, "apiVersion")
    request = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    environment = {
        **os.environ,
        "KUBERNETES_EXEC_INFO": json.dumps(request),
        **{text(each, "name"): text(each, "value") for each in items(wanted, "env")},
    }
    status = mapping(_plugin_output(path, [command, *arguments], environment), "status")
    return {
        "token": text(status, "token"),
        "client-certificate-data": _encoded(text(status, "clientCertificateData")),
        "client-key-data": _encoded(text(status, "clientKeyData")),
    }


def _plugin_output(path: Path, command: list[str], environment: Mapping[str, str]) -> object:
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, timeout=_PLUGIN_TIMEOUT, check=False, text=True
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        why = "took too long" if isinstance(error, subprocess.TimeoutExpired) else "cannot be started"
        raise KubeconfigError(
            f"{path}: credential plugin {sanitize_line(command[0])} {why}.", fix="install it, or log in."
        ) from None
    if done.returncode != 0:
        # Its standard output may hold the credential, so only standard error is shown.
        message = sanitize_line(done.stderr)
        raise KubeconfigError(
            f"{path}: credential plugin {sanitize_line(command[0])} ended with {done.returncode}: {message}",
            fix="log in with it.",
        )
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise KubeconfigError(
            f"{path}: {sanitize_line(command[0])} printed no credential.", fix="log in with it."
        ) from None


def _encoded(pem: str) -> str:
    return base64.b64encode(pem.encode()).decode()


def _authorization(path: Path, user: Mapping[str, object]) -> dict[str, str]:
    token, file = text(user, "token"), text(user, "tokenFile")
    if not token and file:
        token = _file(path, file).decode().strip()
    if not token and text(user, "username"):
        pair = f"{text(user, 'username')}:{text(user, 'password')}"
        return {"Authorization": f"Basic {_encoded(pair)}"}
    return {"Authorization": f"Bearer {token}"} if token else {}


def _tls(path: Path, cluster: Mapping[str, object], user: Mapping[str, object]) -> ssl.SSLContext:
    if text(cluster, "tls-server-name"):
        raise KubeconfigError(f"{path}: tls-server-name is not supported.", fix="use a server of its name.")
    authority = _material(path, cluster, "certificate-authority")
    try:
        context = ssl.create_default_context(cadata=authority.decode() if authority else None)
        if cluster.get("insecure-skip-tls-verify") is True:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        certificate, key = _material(path, user, "client-certificate"), _material(path, user, "client-key")
        if certificate:
            _load_certificate(context, certificate, key)
    except (ssl.SSLError, UnicodeDecodeError):
        raise KubeconfigError(
            f"{path}: a certificate or key cannot be parsed.", fix="create the kubeconfig again."
        ) from None
    return context


def _load_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """OpenSSL only loads a certificate from a file: a temporary one, which only this user can read."""
    with tempfile.NamedTemporaryFile(prefix="muster-") as file:
        file.write(certificate + b"\n" + key)
        file.flush()
        context.load_cert_chain(file.name)


def _material(path: Path, found: Mapping[str, object], name: str) -> bytes:
    data = "".join(text(found, f"{name}-data").split())
    try:
        return base64.b64decode(data, validate=True) if data else _file(path, text(found, name))
    except binascii.Error:
        raise KubeconfigError(
            f"{path}: {name}-data is not base64.", fix="create the kubeconfig again."
        ) from None


def _file(path: Path, name: str) -> bytes:
    """A file that the kubeconfig names, relative to its own folder."""
    try:
        return (path.parent / name).read_bytes() if name else b""
    except OSError as error:
        raise KubeconfigError(
            f"{path}: {name} cannot be read: {error.strerror}.", fix="create the kubeconfig again."
        ) from None
