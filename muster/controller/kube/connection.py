"""Where the API server is, and the credentials for it.

Read from the pod's own ServiceAccount, from explicit settings, or from a kubeconfig in JSON (kubectl writes
one with `kubectl config view --raw --minify -o json`, so no YAML parser is needed here).
"""

import base64
import os
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from muster.controller.kube import tls

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_MAX_AGE = 60.0
"""Seconds before a token file is read again: the kubelet replaces projected tokens at 80 % of their life."""

AUTHORITY_MAX_AGE = 60.0
"""Seconds before the file of authorities is read again: as often as the kubelet looks for a new one."""


class ConnectionSettingsError(Exception):
    """The settings do not say how to reach a cluster; the message says what is missing and where."""


@dataclass(slots=True)
class TokenFile:
    """A bearer token that another program rotates."""

    path: Path
    clock: Callable[[], float] = time.monotonic
    _token: str = ""
    _read_at: float = float("-inf")

    def __call__(self) -> str:
        if self.clock() - self._read_at > TOKEN_MAX_AGE:
            self._token = self.path.read_text().strip()
            self._read_at = self.clock()
        return self._token

    def forget(self) -> None:
        """Read the file again at the next call: the server has refused what we hold."""
        self._read_at = float("-inf")


@dataclass(slots=True)
class AuthorityFile:
    """Whom to trust to be the server, in a file that another program rotates. The first reading raises
    OSError or ValueError where the file holds no authority; later such a file changes nothing.
    """

    path: Path
    clock: Callable[[], float] = time.monotonic
    _content: bytes = field(default=b"", init=False)
    _context: ssl.SSLContext = field(init=False)
    _read_at: float = field(default=float("-inf"), init=False)

    def __post_init__(self) -> None:
        self._read()

    def __call__(self) -> ssl.SSLContext:
        """The same context as long as the file is the same, so that connections are used again."""
        if self.clock() - self._read_at > AUTHORITY_MAX_AGE:
            with suppress(OSError, ValueError):
                self._read()
        return self._context

    def forget(self) -> None:
        """Read the file again at the next call: the server's certificate is signed by another authority."""
        self._read_at = float("-inf")

    def _read(self) -> None:
        content = self.path.read_bytes()
        if not content.strip():
            raise ValueError(f"{self.path} is empty")  # and no authority would mean the system's
        if content != self._content:
            self._context = tls.client_context(authority=content)
            self._content = content
        self._read_at = self.clock()


@dataclass(frozen=True, slots=True)
class Connection:
    """One way to one API server. `server` is a base URL without a trailing slash."""

    server: str
    context: ssl.SSLContext | AuthorityFile | None = None
    token: TokenFile | str | None = field(default=None, repr=False)
    server_name: str | None = None

    def authorization(self) -> str | None:
        token = self.token() if isinstance(self.token, TokenFile) else self.token
        return f"Bearer {token}" if token else None

    def trust(self) -> ssl.SSLContext | bool:
        """What a new connection judges the server by; True stands for the system's authorities."""
        context = self.context() if isinstance(self.context, AuthorityFile) else self.context
        return context if context is not None else True

    def distrusted(self) -> None:
        """The server's certificate does not come from whom we trust: there may be a new authority."""
        if isinstance(self.context, AuthorityFile):
            self.context.forget()

    def refused(self) -> bool:
        """The server answered 401. True when a fresh credential may help."""
        if isinstance(self.token, TokenFile):
            self.token.forget()
            return True
        return False


def explicit(
    server: str,
    *,
    authority: bytes | None = None,
    token: TokenFile | str | None = None,
    certificate: bytes | None = None,
    key: bytes | None = None,
    server_name: str | None = None,
) -> Connection:
    """A connection from its parts; certificates and keys are PEM bytes."""
    context = None
    if server.startswith("https:"):
        context = tls.client_context(authority=authority, certificate=certificate, key=key)
    return Connection(server.rstrip("/"), context=context, token=token, server_name=server_name)


def in_cluster(
    environment: Mapping[str, str] = os.environ, *, directory: Path = SERVICE_ACCOUNT
) -> Connection:
    """The connection of a pod, from its ServiceAccount volume and the Service environment."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise ConnectionSettingsError(
            "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this is not a pod. "
            "Name a kubeconfig in JSON with --kubeconfig"
        )
    authority, token = directory / "ca.crt", directory / "token"
    for path in (authority, token):
        if not path.is_file():
            raise ConnectionSettingsError(
                f"{path} is missing: no ServiceAccount volume. Set automountServiceAccountToken: true"
            )
    host = f"[{host}]" if ":" in host else host
    try:
        trusted = AuthorityFile(authority)
    except (OSError, ValueError) as error:
        raise ConnectionSettingsError(f"{authority} holds no certificate authority: {error}") from error
    return Connection(f"https://{host}:{port}", context=trusted, token=TokenFile(token))


class _ClusterEntry(msgspec.Struct, rename="kebab"):
    server: str
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    tls_server_name: str = ""


class _UserEntry(msgspec.Struct, rename="kebab"):
    token: str = ""
    token_file: str = msgspec.field(name="tokenFile", default="")
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    exec: dict[str, object] | None = None


class _ContextEntry(msgspec.Struct):
    cluster: str
    user: str = ""


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: _ClusterEntry


class _NamedUser(msgspec.Struct):
    name: str
    user: _UserEntry


class _NamedContext(msgspec.Struct):
    name: str
    context: _ContextEntry


class _Kubeconfig(msgspec.Struct, rename="kebab"):
    current_context: str = ""
    clusters: list[_NamedCluster] = []
    users: list[_NamedUser] = []
    contexts: list[_NamedContext] = []


def kubeconfig(path: Path, *, context: str = "") -> Connection:
    """The connection of one context (by default the current one) of a kubeconfig in JSON."""
    try:
        config = msgspec.json.decode(path.read_bytes(), type=_Kubeconfig)
    except (OSError, msgspec.MsgspecError) as error:
        raise ConnectionSettingsError(
            f"{path}: not a kubeconfig in JSON ({error}). "
            "Write one with `kubectl config view --raw --minify -o json`"
        ) from error
    wanted = context or config.current_context
    chosen = next((entry.context for entry in config.contexts if entry.name == wanted), None)
    if chosen is None:
        known = ", ".join(entry.name for entry in config.contexts) or "none"
        raise ConnectionSettingsError(f"{path}: no context {wanted!r}. Contexts there: {known}")
    cluster = next((entry.cluster for entry in config.clusters if entry.name == chosen.cluster), None)
    if cluster is None:
        raise ConnectionSettingsError(
            f"{path}: context {wanted!r} names cluster {chosen.cluster!r}, which is not there"
        )
    user = next((entry.user for entry in config.users if entry.name == chosen.user), _UserEntry())
    if user.exec is not None:
        raise ConnectionSettingsError(
            f"{path}: user {chosen.user!r} gets its token from a program; "
            "give it a token or a client certificate"
        )
    return explicit(
        cluster.server,
        authority=_material(path, cluster.certificate_authority_data, cluster.certificate_authority),
        token=TokenFile(path.parent / user.token_file) if user.token_file else user.token or None,
        certificate=_material(path, user.client_certificate_data, user.client_certificate),
        key=_material(path, user.client_key_data, user.client_key),
        server_name=cluster.tls_server_name or None,
    )


def _material(config: Path, data: str, file: str) -> bytes | None:
    """PEM bytes that a kubeconfig holds inline or beside itself."""
    if data:
        return base64.b64decode(data)
    return (config.parent / file).read_bytes() if file else None
