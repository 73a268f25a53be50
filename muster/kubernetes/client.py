"""A synchronous client of one API server, on the standard library.

A connection stays open, one for each thread: a caller that polls reads ten times a second, and a new TLS
connection for each read costs both ends ten times as much. Retries are the caller's, who knows how long the
server may be away; only a read over a kept connection that has been closed meanwhile is repeated, which does
no harm.
"""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPMessage, HTTPResponse, HTTPSConnection
from typing import Any, Final
from urllib.parse import urlsplit

from muster.kubernetes.credentials import Credentials
from muster.kubernetes.errors import ApiError, UnreachableError
from muster.kubernetes.kubeconfig import Access

APPLY: Final = "application/apply-patch+yaml"
MERGE: Final = "application/merge-patch+json"
JSON: Final = "application/json"
_SECONDS: Final = 30.0
_PART: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    reason: str
    headers: HTTPMessage
    body: bytes


class Client:
    """`seconds`: how long the server may be silent."""

    def __init__(self, access: Access, *, seconds: float = _SECONDS) -> None:
        self._access, self._seconds = access, seconds
        self._credentials = Credentials(access)
        self._kept = threading.local()

    def call(self, method: str, path: str, body: object = None, *, content_type: str = JSON) -> Any:
        """The JSON that is answered. ApiError for a refusal, UnreachableError where nothing answers."""
        try:
            answer = self.exchange(method, path, body, content_type=content_type)
            if answer.status == 401 and self._access.plugin:
                self._credentials.forget()
                self._drop()
                answer = self.exchange(method, path, body, content_type=content_type)
        except OSError as error:
            raise self._unreachable(error) from error
        if answer.status >= 400:
            raise ApiError(answer.status, answer.body)
        return json.loads(answer.body or b"null")

    def exchange(self, method: str, path: str, body: object = None, *, content_type: str = JSON) -> Answer:
        """One request and whatever is answered; OSError where nothing is."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Accept": JSON, "Content-Type": content_type}
        kept: HTTPConnection | None = getattr(self._kept, "connection", None)
        if kept is not None and method == "GET":
            try:
                return _asked(kept, method, path, data, headers | self._credentials.headers())
            except (ConnectionError, HTTPException):
                pass  # the server has closed it meanwhile, or is another one
        self._drop()
        headers |= self._credentials.headers()  # which may bring the certificate of the connection
        self._kept.connection = fresh = self._connection(self._seconds)
        try:
            return _asked(fresh, method, path, data, headers)
        except HTTPException as error:
            raise ConnectionError(str(error) or type(error).__name__) from error

    def lines(self, path: str, *, silent: float) -> Iterator[str]:
        """The lines of a stream, over a connection of its own, until the server ends it. UnreachableError
        when it is cut, or silent for so many seconds.
        """
        try:
            headers = self._credentials.headers()
            with closing(self._connection(silent)) as connection:
                connection.request("GET", path, headers=headers)
                answer = connection.getresponse()
                if answer.status >= 400:
                    raise ApiError(answer.status, answer.read())
                rest = b""
                # readline() takes a stream that is cut between two chunks for one that has ended.
                while part := answer.read1(_PART):
                    *lines, rest = (rest + part).split(b"\n")
                    yield from (line.decode(errors="replace") for line in lines)
                if rest:
                    yield rest.decode(errors="replace")
        except (OSError, HTTPException) as error:
            raise self._unreachable(error) from error

    def _connection(self, seconds: float) -> HTTPConnection:
        tls, server = self._credentials.tls(), urlsplit(self._access.server)
        place = urlsplit(self._access.proxy).netloc if self._access.proxy else server.netloc
        if tls is None:
            return HTTPConnection(server.netloc, timeout=seconds)
        connection = HTTPSConnection(place, context=tls, timeout=seconds)
        if self._access.proxy:
            connection.set_tunnel(server.hostname or "", server.port)
        return connection

    def _drop(self) -> None:
        kept: HTTPConnection | None = getattr(self._kept, "connection", None)
        if kept is not None:
            kept.close()
            self._kept.connection = None

    def _unreachable(self, error: Exception) -> UnreachableError:
        return UnreachableError(f"no answer from {self._access.server}: {str(error) or type(error).__name__}")


def _asked(
    connection: HTTPConnection, method: str, path: str, data: bytes | None, headers: Mapping[str, str]
) -> Answer:
    try:
        connection.request(method, path, body=data, headers=dict(headers))
        answer: HTTPResponse = connection.getresponse()
        body = answer.read()
    except BaseException:
        connection.close()  # half an answer must not be taken for the next one
        raise
    return Answer(answer.status, answer.reason, answer.headers, body)
