"""A synchronous client of one API server, on the standard library.

    connect(path)     -> Client of the cluster that a kubeconfig names
    client.list_all   every object of a list, page by page
    client.watch      the changes of a list

A connection stays open, one for each thread: a caller that polls reads ten times a second, and a new TLS
connection for each read costs both ends ten times as much. A call over a kept connection that has been closed
meanwhile is repeated where that does no harm. No redirect is followed: that would send the credential to
another server.

With `tries` of more than one, these are tried again after a delay: a server that does not respond, where the
call may be repeated, and the statuses 429 and 502 to 504. The delay is the server's
(https://www.rfc-editor.org/rfc/rfc9110#name-retry-after) or grows.

Who we are to the server is a token, a certificate, a password, or what an exec plugin prints:
https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
"""

import base64
import json
import os
import ssl
import subprocess
import tempfile
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from muster import http_retries
from muster.kubernetes.errors import ApiError, UnreachableError
from muster.kubernetes.kubeconfig import Access, ExecPlugin, KubeconfigError, load_access, read_named
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


Kept = TypeVar("Kept")

APPLY: Final = "application/apply-patch+yaml"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
JSON: Final = "application/json"
_SECONDS: Final = 30.0
_MAX_BYTES: Final = 256 * 1024 * 1024
_PART: Final = 1 << 16
# The server sends a bookmark a minute on a watch without changes.
_SILENT_WATCH: Final = 180.0
_PAGE: Final = 500
_MAX_STARTS: Final = 3
_EXPIRED: Final = 410


def connect(
    path: Path, *, context: str = "", tries: int = http_retries.TRIES, progress: "Progress | None" = None
) -> "Client":
    """A client for the cluster of one context, by default the current one. May run its credential plugin."""
    access = load_access(path, context)
    if not access.server.startswith("https://"):
        raise KubeconfigError(
            f"{path}: the cluster of context {access.context!r} has no https:// server.",
            fix="set its `server`.",
        )
    client = Client(access, tries=tries, progress=progress)
    client.credentials.headers()
    client.credentials.tls()
    return client


def api_root(api_version: str) -> str:
    """Where the kinds of a version are served, of the core group or any other."""
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def inside(namespace: str) -> str:
    """The part of a path that names a namespace, empty for all of them."""
    return f"/namespaces/{quote(namespace, safe='')}" if namespace else ""


Progress = Callable[[str, int], None]
"""Is called with the plural and the number of objects of a list that were read so far."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    reason: str
    headers: HTTPMessage
    body: bytes


class Client:
    """`seconds`: how long the server may be silent. `tries`: how often a call is made in all."""

    def __init__(
        self,
        access: Access,
        *,
        seconds: float = _SECONDS,
        tries: int = 1,
        agent: str = "muster",
        progress: Progress | None = None,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self.access, self.credentials = access, Credentials(access)
        self._seconds, self._tries, self._progress, self._wait = seconds, tries, progress, wait
        self._headers = {"Accept": JSON, "User-Agent": agent}
        self._kept = threading.local()

    def call(
        self, method: str, path: str, body: object = None, *, content_type: str = JSON, accept: str = JSON
    ) -> Any:
        """The JSON that is answered. ApiError for a refusal, UnreachableError where nothing answers."""
        answer = self._tried(method, path, body, {"Content-Type": content_type, "Accept": accept})
        try:
            return json.loads(answer.body or b"null")
        except (ValueError, RecursionError):
            raise UnreachableError(f"{path}: the response is not JSON.") from None

    def get(self, path: str) -> Any:
        return self.call("GET", path)

    def find(self, path: str, *, absent: Collection[int] = (404,)) -> Any:
        """One object; None where the answer has one of these statuses: it does not exist, or is hidden."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status in absent:
                return None
            raise

    def text(self, path: str) -> str:
        """What is no JSON, such as a log."""
        return self._tried("GET", path, None, {}).body.decode(errors="replace")

    def list_all(self, path: str, convert: Callable[[Any], Kept | None]) -> list[Kept]:
        """Every object of a list, each converted as soon as its page is read. None leaves the object out.

        A list whose continue token has expired is read again from the beginning, so that it is consistent
        (https://kubernetes.io/docs/reference/using-api/api-concepts/#retrieving-large-results-sets-in-chunks).
        """
        for start in range(1, _MAX_STARTS + 1):
            try:
                return self._pages(path, convert)
            except ApiError as error:
                if error.status != _EXPIRED or start == _MAX_STARTS:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def find_all(
        self, path: str, convert: Callable[[Any], Kept | None], *, absent: Collection[int] = (404,)
    ) -> list[Kept] | None:
        """The same; None where the answer has one of these statuses: not served, or not to be listed."""
        try:
            return self.list_all(path, convert)
        except ApiError as error:
            if error.status in absent:
                return None
            raise

    def _pages(self, path: str, convert: Callable[[Any], Kept | None]) -> list[Kept]:
        kept: list[Kept] = []
        token, count = "", 0
        while True:
            page = self.get(f"{path}{'&' if '?' in path else '?'}limit={_PAGE}&continue={quote(token)}")
            items = page.get("items") or ()
            count += len(items)
            kept += [converted for item in items if (converted := convert(item)) is not None]
            if self._progress:
                self._progress(path.rpartition("/")[2], count)
            token = (page.get("metadata") or {}).get("continue") or ""
            if not token:
                return kept

    def watch(self, path: str, version: str) -> Iterator[tuple[str, Any]]:
        """Type and object of each change of a list after a version, until the server ends the watch. With
        bookmarks, and ERROR where it no longer has the version.
        """
        query = f"watch=true&allowWatchBookmarks=true&resourceVersion={version}"
        for line in self.lines(f"{path}?{query}", silent=_SILENT_WATCH):
            event = json.loads(line)
            yield event["type"], event["object"]

    def _tried(self, method: str, path: str, body: object, headers: Mapping[str, str]) -> Answer:
        def ask() -> Answer:
            answer = self.exchange(method, path, body, headers)
            if answer.status == 401 and self.access.plugin:
                self.credentials.forget()
                self._drop()
                answer = self.exchange(method, path, body, headers)
            return answer

        try:
            answer = http_retries.call(ask, method, tries=self._tries, wait=self._wait, delay=_retry_delay)
        except OSError as error:
            raise self._unreachable(method, path, error) from error
        if answer.status >= 300:
            raise ApiError(answer.status, answer.body, request=self._request(method, path))
        return answer

    def exchange(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """One request and whatever is answered; OSError where nothing is."""
        data = None if body is None else json.dumps(body).encode()
        sent = self._headers | {"Content-Type": JSON} | dict(headers or {})
        kept: HTTPConnection | None = getattr(self._kept, "connection", None)
        if kept is not None and method in http_retries.REPEATABLE:
            try:
                return self._ask(kept, method, path, data, sent | self.credentials.headers())
            except (ConnectionError, ssl.SSLError, HTTPException):
                pass  # the server has closed it meanwhile, or is another one
        self._drop()
        sent |= self.credentials.headers()  # which may bring the certificate of the connection
        fresh = self._connection(self._seconds)
        try:
            answer = self._ask(fresh, method, path, data, sent)
        except HTTPException as error:
            raise ConnectionError(str(error) or type(error).__name__) from error
        self._kept.connection = fresh
        return answer

    def lines(self, path: str, *, silent: float) -> Iterator[str]:
        """The lines of a stream, over a connection of its own, until the server ends it. UnreachableError
        when it is cut, or silent for so many seconds.
        """
        try:
            headers = self._headers | self.credentials.headers()
            with closing(self._connection(silent)) as connection:
                connection.request("GET", self._path(path), headers=headers)
                answer = connection.getresponse()
                if answer.status >= 300:
                    raise ApiError(answer.status, answer.read(), request=self._request("GET", path))
                rest = b""
                # readline() takes a stream that is cut between two chunks for one that has ended.
                while part := answer.read1(_PART):
                    *lines, rest = (rest + part).split(b"\n")
                    yield from (line.decode(errors="replace") for line in lines)
                if rest:
                    yield rest.decode(errors="replace")
        except (OSError, HTTPException) as error:
            raise self._unreachable("GET", path, error) from error

    def _connection(self, seconds: float) -> HTTPConnection:
        tls, server, proxy = self.credentials.tls(), urlsplit(self.access.server), self._proxy()
        if tls is None:
            return HTTPConnection(server.netloc, timeout=seconds)
        place = server.netloc if proxy is None else proxy.rpartition("@")[2]
        connection = _Connection(place, tls, seconds, self.access.tls_server_name)
        if proxy is None:
            return connection
        user = unquote(proxy.rpartition("@")[0])
        basic = {"Proxy-Authorization": f"Basic {b64encode(user.encode()).decode()}"} if user else {}
        connection.set_tunnel(server.hostname or "", server.port, headers=basic)
        return connection

    def _proxy(self) -> str | None:
        """[USER:PASSWORD@]HOST[:PORT] of the kubeconfig's proxy, or else of the environment's."""
        host = urlsplit(self.access.server).hostname or ""
        proxy = self.access.proxy
        if not proxy and host not in http_retries.LOOPBACK and not proxy_bypass(host):
            proxy = getproxies().get("https")
        return urlsplit(proxy if "//" in proxy else f"//{proxy}").netloc if proxy else None

    def _path(self, path: str) -> str:
        """With the path of the server's own address, which a gateway to several clusters has."""
        return urlsplit(self.access.server).path + path

    def _ask(
        self,
        connection: HTTPConnection,
        method: str,
        path: str,
        data: bytes | None,
        headers: Mapping[str, str],
    ) -> Answer:
        try:
            connection.request(method, self._path(path), body=data, headers=dict(headers))
            response: HTTPResponse = connection.getresponse()
            body = response.read(_MAX_BYTES + 1)
            if len(body) > _MAX_BYTES:
                raise OSError(f"the response is larger than {_MAX_BYTES // 2**20} MiB")
        except BaseException:
            connection.close()  # half an answer must not be taken for the next one
            raise
        return Answer(response.status, response.reason, response.headers, body)

    def _drop(self) -> None:
        kept: HTTPConnection | None = getattr(self._kept, "connection", None)
        if kept is not None:
            kept.close()
            self._kept.connection = None

    def _request(self, method: str, path: str) -> str:
        """What messages call a request: without user, query and credential."""
        parts = urlsplit(self.access.server + path)
        return sanitize_line(f"{method} {parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}")

    def _unreachable(self, method: str, path: str, error: Exception) -> UnreachableError:
        why = sanitize_line(str(error) or type(error).__name__)
        return UnreachableError(
            f"{self._request(method, path)}: no response: {why}.",
            fix="check the address, the network and its proxy.",
        )


class _Connection(HTTPSConnection):
    """`name`: of a server that has another than its address."""

    def __init__(self, place: str, tls: ssl.SSLContext, seconds: float, name: str | None) -> None:
        super().__init__(place, context=tls, timeout=seconds)
        self._tls, self._name = tls, name

    def connect(self) -> None:
        if self._name is None:
            super().connect()
            return
        HTTPConnection.connect(self)
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._name)


def _retry_delay(answer: Answer, attempt: int) -> float | None:
    """Seconds to wait before the next attempt; None when another attempt would not help."""
    if answer.status not in http_retries.BUSY:
        return None
    after = answer.headers.get("Retry-After", "")
    delay = float(after) if after.isdigit() else 2.0**attempt
    return delay if delay <= http_retries.LONGEST_DELAY else None
