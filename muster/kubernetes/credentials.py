"""Who we are to the API server: a token, a certificate, a password, or what an exec plugin prints.

Contract of exec plugins:
https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
"""

import base64
import json
import os
import ssl
import subprocess
import tempfile
import threading
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from muster.kubernetes.kubeconfig import Access, ExecPlugin, KubeconfigError, read_named
from muster.printable import sanitize_line

# A cloud's sign-in talks to the network; client-go sets no limit, and a hung one would hang its caller.
_PLUGIN_TIMEOUT: Final = 60.0
_SPARE: Final = timedelta(seconds=30)


class Credentials:
    """Headers and the TLS context for one cluster. Safe for concurrent use."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._lock = threading.Lock()
        self._token: str | None = None
        self._expires: datetime | None = None
        self._plugin_certificate: tuple[bytes, bytes] | None = None

    def headers(self) -> dict[str, str]:
        """May run the plugin, for at most a minute."""
        access = self._access
        token = access.token
        if access.plugin:
            with self._lock:
                if self._is_stale():
                    self._ask(access.plugin)
                token = self._token
        elif access.token_file:
            token = read_named(access.token_file).decode().strip()
        elif access.basic and not token:
            return {"Authorization": f"Basic {base64.b64encode(':'.join(access.basic).encode()).decode()}"}
        return {"Authorization": f"Bearer {token}"} if token else {}

    def forget(self) -> None:
        """The server refused what we showed: ask the plugin again next time."""
        self._token = self._expires = self._plugin_certificate = None

    def tls(self) -> ssl.SSLContext | None:
        """None for a server without TLS. Call after `headers()`, which may fetch a certificate."""
        access = self._access
        if access.server.startswith("http://"):
            return None
        try:
            context = ssl.create_default_context(cadata=access.ca.decode() if access.ca else None)
            if access.insecure:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            certificate = self._plugin_certificate or access.certificate
            if certificate:
                _load_certificate(context, *certificate)
        except (ssl.SSLError, UnicodeDecodeError):
            raise KubeconfigError(
                f"context {access.context!r}: a certificate or key cannot be parsed.",
                fix="create the kubeconfig again.",
            ) from None
        return context

    def _is_stale(self) -> bool:
        if self._token is None and self._plugin_certificate is None:
            return True
        return self._expires is not None and datetime.now(UTC) + _SPARE >= self._expires

    def _ask(self, plugin: ExecPlugin) -> None:
        status = _run(plugin, self._access)
        token, certificate, key = (
            status.get(name) for name in ("token", "clientCertificateData", "clientKeyData")
        )
        if not token and not (certificate and key):
            raise _plugin_error(plugin, "answered with neither a token nor a client certificate")
        self._token = token
        self._plugin_certificate = (certificate.encode(), key.encode()) if certificate and key else None
        expires = status.get("expirationTimestamp")
        self._expires = datetime.fromisoformat(expires.replace("Z", "+00:00")) if expires else None


def _plugin_error(plugin: ExecPlugin, what: str, fix: str = "log in with it.") -> KubeconfigError:
    return KubeconfigError(f"the credential plugin {plugin.command} {what}.", fix=fix)


def _run(plugin: ExecPlugin, access: Access) -> dict[str, Any]:
    environment = os.environ | dict(plugin.env) | {"KUBERNETES_EXEC_INFO": json.dumps(_info(plugin, access))}
    try:
        done = subprocess.run(
            [plugin.command, *plugin.args],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PLUGIN_TIMEOUT,
            check=False,
        )
    except OSError as error:
        raise _plugin_error(
            plugin,
            f"cannot be started: {error.strerror}",
            plugin.install_hint or "install it, or use a kubeconfig with a token.",
        ) from None
    except subprocess.TimeoutExpired:
        raise _plugin_error(plugin, f"did not end within {_PLUGIN_TIMEOUT:.0f} s") from None
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
        raise _plugin_error(plugin, f"failed ({done.returncode}): {sanitize_line(last[0])}")
    try:
        return dict(json.loads(done.stdout)["status"])
    except (ValueError, KeyError, TypeError):
        # Not quoted: it may hold the token.
        raise _plugin_error(plugin, "did not print an ExecCredential") from None


def _info(plugin: ExecPlugin, access: Access) -> dict[str, Any]:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.provide_cluster_info:
        spec["cluster"] = {"server": access.server, "insecure-skip-tls-verify": access.insecure}
        if access.ca:
            spec["cluster"]["certificate-authority-data"] = base64.b64encode(access.ca).decode()
    return {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}


def _load_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """OpenSSL loads a certificate from a file only: a temporary one, which only this user can read."""
    with tempfile.NamedTemporaryFile(prefix="muster-") as file:
        file.write(certificate + b"\n" + key)
        file.flush()
        context.load_cert_chain(file.name)
