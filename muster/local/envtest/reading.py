"""GET over a connection that stays open, one for each thread.

A caller that polls reads ten times a second, and a new TLS connection for each read costs both ends ten
times as much. Only for reading: a read that is repeated after a broken connection does no harm.
"""

from __future__ import annotations

import io
import ssl
import threading
import urllib.error
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit


class Reader:
    """Reads from one server, which may be restarted at any time."""

    def __init__(self, url: str, *, authority: Path, seconds: float) -> None:
        self._url, self._authority, self._seconds = url, authority, seconds
        self._kept = threading.local()

    def get(self, path: str, headers: dict[str, str]) -> bytes:
        """The body; HTTPError for what is refused, another OSError where there is no answer."""
        kept: HTTPSConnection | None = getattr(self._kept, "connection", None)
        if kept is not None:
            try:
                return self._ask(kept, path, headers)
            except (ConnectionError, HTTPException):
                kept.close()  # the server has closed it meanwhile, or is another one
        self._kept.connection = fresh = self._connection()
        try:
            return self._ask(fresh, path, headers)
        except HTTPException as error:
            raise urllib.error.URLError(error) from error

    def _connection(self) -> HTTPSConnection:
        context = ssl.create_default_context(cafile=str(self._authority))
        return HTTPSConnection(urlsplit(self._url).netloc, context=context, timeout=self._seconds)

    def _ask(self, connection: HTTPSConnection, path: str, headers: dict[str, str]) -> bytes:
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            body = answer.read()
        except BaseException:
            connection.close()  # half an answer must not be taken for the next one
            raise
        if answer.status >= 400:
            url, reason = self._url + path, answer.reason
            raise urllib.error.HTTPError(url, answer.status, reason, answer.headers, io.BytesIO(body))
        return body
