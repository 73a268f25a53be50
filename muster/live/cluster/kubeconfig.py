"""Where a cluster is and who we are to it, from a kubeconfig.

Decides which ways of authentication are known: token, token file, client certificate, and a program that
prints a credential, as GKE and EKS use
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

_PROGRAM_SECONDS: Final = 60


class KubeconfigError(PreviewError):
    """A kubeconfig that cannot be used: what is missing in it."""


def connect(path: Path, *, context: str = "") -> Web:
    """The cluster of one context, by default the current one."""
    config = _read(path)
    wanted = context or text(config, "current-context")
    contexts = {text(each, "name"): each for each in items(config, "contexts")}
    if wanted not in contexts:
        known = ", ".join(sorted(contexts)) or "none"
        raise KubeconfigError(f"{path}: has no context {wanted!r}. Contexts in it: {known}.")
    chosen = mapping(contexts[wanted], "context")
    cluster = _named(config, "clusters", "cluster", text(chosen, "cluster"))
    user = _named(config, "users", "user", text(chosen, "user"))
    server = text(cluster, "server").rstrip("/")
    if not server.startswith("https://"):
        raise KubeconfigError(f"{path}: cluster {text(chosen, 'cluster')!r} names no https:// server.")
    user = {**user, **_program(path, mapping(user, "exec"))}
    return Web(
        base=server,
        headers={"Accept": "application/json", **_authorization(path, user)},
        context=_tls(path, cluster, user),
        proxy=text(cluster, "proxy-url") or None,
    )


def _read(path: Path) -> Mapping[str, object]:
    try:
        return mapping(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise KubeconfigError(f"{path}: cannot be read: {error.strerror}.") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise KubeconfigError(f"{path}: is no kubeconfig: not YAML.") from None


def _named(config: object, plural: str, singular: str, name: str) -> Mapping[str, object]:
    return next((mapping(each, singular) for each in items(config, plural) if text(each, "name") == name), {})


def _program(path: Path, wanted: Mapping[str, object]) -> dict[str, str]:
    """The credential that a program prints, in the words of a kubeconfig."""
    command = text(wanted, "command")
    if not command:
        return {}
    found = wanted.get("args")
    arguments = [each for each in found if isinstance(each, str)] if isinstance(found, list) else []
    if "/" in command:
        command = str(path.parent / command)
    version = text(wanted, "apiVersion")
    asked = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    environment = {
        **os.environ,
        "KUBERNETES_EXEC_INFO": json.dumps(asked),
        **{text(each, "name"): text(each, "value") for each in items(wanted, "env")},
    }
    status = mapping(_printed(path, [command, *arguments], environment), "status")
    return {
        "token": text(status, "token"),
        "client-certificate-data": _encoded(text(status, "clientCertificateData")),
        "client-key-data": _encoded(text(status, "clientKeyData")),
    }


def _printed(path: Path, command: list[str], environment: Mapping[str, str]) -> object:
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, timeout=_PROGRAM_SECONDS, check=False, text=True
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        why = "took too long" if isinstance(error, subprocess.TimeoutExpired) else "cannot be started"
        raise KubeconfigError(
            f"{path}: {sanitize_line(command[0])}, which prints the credential, {why}."
        ) from None
    if done.returncode != 0:
        # Its output may hold the credential; what it complains about goes to standard error.
        said = sanitize_line(done.stderr)
        raise KubeconfigError(f"{path}: {sanitize_line(command[0])} ended with {done.returncode}: {said}")
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise KubeconfigError(f"{path}: {sanitize_line(command[0])} printed no credential.") from None


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
        raise KubeconfigError(f"{path}: tls-server-name is not supported. Fix: use a server of its name.")
    authority = _material(path, cluster, "certificate-authority")
    try:
        context = ssl.create_default_context(cadata=authority.decode() if authority else None)
        if cluster.get("insecure-skip-tls-verify") is True:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        certificate, key = _material(path, user, "client-certificate"), _material(path, user, "client-key")
        if certificate:
            _present(context, certificate, key)
    except (ssl.SSLError, UnicodeDecodeError):
        raise KubeconfigError(f"{path}: a certificate or key in it cannot be read.") from None
    return context


def _present(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """OpenSSL reads a certificate from a file alone: one that only we can read, and not for long."""
    with tempfile.NamedTemporaryFile(prefix="muster-") as file:
        file.write(certificate + b"\n" + key)
        file.flush()
        context.load_cert_chain(file.name)


def _material(path: Path, found: Mapping[str, object], name: str) -> bytes:
    data = "".join(text(found, f"{name}-data").split())
    try:
        return base64.b64decode(data, validate=True) if data else _file(path, text(found, name))
    except binascii.Error:
        raise KubeconfigError(f"{path}: {name}-data is not base64.") from None


def _file(path: Path, name: str) -> bytes:
    """A file that a kubeconfig names, from the folder that it lies in."""
    try:
        return (path.parent / name).read_bytes() if name else b""
    except OSError as error:
        raise KubeconfigError(f"{path}: {name}: {error.strerror}.") from None
