"""Who we are to the API server, kept fresh: a token, a certificate, or what an exec plugin hands out.

Contract of exec plugins:
https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
"""

import asyncio
import base64
import json
import os
import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from muster.provider.kubeconfig import Access, ExecPlugin, KubeconfigError

# A cloud's sign-in talks to the network; client-go sets no limit, and a hung one would hang the whole update.
_PLUGIN_TIMEOUT = 60.0
_SPARE = timedelta(seconds=30)


class Credentials:
    """Headers and the TLS context for one cluster. Safe for concurrent use on one event loop."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._lock = asyncio.Lock()
        self._token: str | None = None
        self._expires: datetime | None = None
        self._plugin_certificate: tuple[bytes, bytes] | None = None

    async def headers(self) -> dict[str, str]:
        access = self._access
        if access.plugin:
            async with self._lock:
                if self._stale():
                    await self._ask(access.plugin)
            return {"Authorization": f"Bearer {self._token}"} if self._token else {}
        if access.token_file:
            return {"Authorization": f"Bearer {access.token_file.read_text().strip()}"}
        if access.token:
            return {"Authorization": f"Bearer {access.token}"}
        if access.basic:
            pair = base64.b64encode(":".join(access.basic).encode()).decode()
            return {"Authorization": f"Basic {pair}"}
        return {}

    def forget(self) -> None:
        """The server refused what we showed: ask the plugin again next time."""
        self._token = self._expires = self._plugin_certificate = None

    def tls(self) -> ssl.SSLContext | bool:
        """What aiohttp takes as `ssl`. Call after `headers()`, which may fetch a certificate."""
        access = self._access
        if access.server.startswith("http://"):
            return True
        context = ssl.create_default_context(cadata=access.ca.decode() if access.ca else None)
        if access.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        certificate = self._plugin_certificate or access.certificate
        if certificate:
            _load_certificate(context, *certificate)
        return context

    def _stale(self) -> bool:
        if self._token is None and self._plugin_certificate is None:
            return True
        return self._expires is not None and datetime.now(UTC) + _SPARE >= self._expires

    async def _ask(self, plugin: ExecPlugin) -> None:
        status = await _run(plugin, self._access)
        token, certificate, key = (
            status.get(name) for name in ("token", "clientCertificateData", "clientKeyData")
        )
        if not token and not (certificate and key):
            raise KubeconfigError(f"{plugin.command} answered with neither a token nor a client certificate")
        self._token = token
        self._plugin_certificate = (certificate.encode(), key.encode()) if certificate and key else None
        expires = status.get("expirationTimestamp")
        self._expires = datetime.fromisoformat(expires.replace("Z", "+00:00")) if expires else None


async def _run(plugin: ExecPlugin, access: Access) -> dict[str, Any]:
    environment = os.environ | dict(plugin.env) | {"KUBERNETES_EXEC_INFO": json.dumps(_info(plugin, access))}
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        hint = (
            f" {plugin.install_hint}"
            if plugin.install_hint
            else " Install it, or use a kubeconfig with a token."
        )
        raise KubeconfigError(
            f"the credential plugin {plugin.command} cannot be started: {error.strerror}.{hint}"
        ) from error
    try:
        out, complaint = await asyncio.wait_for(process.communicate(), _PLUGIN_TIMEOUT)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise KubeconfigError(
            f"the credential plugin {plugin.command} said nothing for {_PLUGIN_TIMEOUT:.0f} s"
        ) from None
    if process.returncode:
        last = complaint.decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
        raise KubeconfigError(
            f"the credential plugin {plugin.command} failed ({process.returncode}): {last[0]}"
        )
    try:
        return dict(json.loads(out)["status"])
    except (ValueError, KeyError, TypeError):
        # Not quoted: it may hold the token.
        raise KubeconfigError(
            f"the credential plugin {plugin.command} did not print an ExecCredential"
        ) from None


def _info(plugin: ExecPlugin, access: Access) -> dict[str, Any]:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.provide_cluster_info:
        spec["cluster"] = {"server": access.server, "insecure-skip-tls-verify": access.insecure}
        if access.ca:
            spec["cluster"]["certificate-authority-data"] = base64.b64encode(access.ca).decode()
    return {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}


def _load_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Python's ssl reads certificates from files only: this one is private and deleted at once."""
    descriptor, name = tempfile.mkstemp(prefix="muster-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(certificate + b"\n" + key)
        context.load_cert_chain(name)
    finally:
        Path(name).unlink()
