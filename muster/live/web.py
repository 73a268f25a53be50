"""HTTP client for GitHub and GitLab.

Responsible for timeouts and retries, and for sending a credential only to the server that it belongs to: no
redirect is followed, and no message contains a header.

Retried are the statuses 429, 403 with an exhausted rate limit and 502 to 504, and, for idempotent calls, a
server that does not respond. The delay is the server's: `Retry-After`
(https://www.rfc-editor.org/rfc/rfc9110#name-retry-after), or GitHub's `x-ratelimit-reset`
(https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api).
"""

import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.message import Message
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Final

from muster import http_retries
from muster.errors import ExitCode, MusterError
from muster.printable import sanitize_line

_TIMEOUT: Final = 30.0
_MAX_BYTES: Final = 256 * 1024 * 1024


class WebError(MusterError):
    """A call that failed. `status` is None when the server did not respond."""

    default_exit_code = ExitCode.OUTSIDE

    def __init__(self, message: str, *, fix: str = "", status: int | None = None) -> None:
        super().__init__(message, fix=fix)
        self.status = status


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    def json(self, what: str) -> object:
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise WebError(f"{what}: the response is not JSON.", status=self.status) from None


def _sleep(seconds: float) -> None:
    time.sleep(seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Web:
    """One server. `headers` are sent with every call."""

    base: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: float = _TIMEOUT
    wait: Callable[[float], None] = _sleep

    def call(self, method: str, path: str, body: object = None) -> Response:
        """The response of a successful call; WebError otherwise."""
        data = None if body is None else json.dumps(body).encode()
        try:
            response = http_retries.call(
                partial(self._once, method, path, data),
                method,
                tries=http_retries.TRIES,
                wait=self.wait,
                delay=_retry_delay,
            )
        except (OSError, http.client.HTTPException) as error:
            why = sanitize_line(str(getattr(error, "reason", "") or error) or type(error).__name__)
            what = f"{method} {self._sanitized_url(path)}: no response: {why}."
            raise WebError(what, fix="check the address, the network and its proxy.") from None
        if response.status >= 300:
            raise self._refused(method, path, response)
        return response

    def _once(self, method: str, path: str, data: bytes | None) -> Response:
        request = urllib.request.Request(  # noqa: S310 - the caller has checked the scheme of the base
            self.base + path,
            method=method,
            data=data,
            headers={**self.headers, **({"Content-Type": "application/json"} if data else {})},
        )
        try:
            with self._opener().open(request, timeout=self.timeout) as response:
                return Response(response.status, _headers(response.headers), _read_bounded(response))
        except urllib.error.HTTPError as error:
            with error:
                return Response(error.code, _headers(error.headers), _read_bounded(error))

    def _opener(self) -> urllib.request.OpenerDirector:
        handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
        if urllib.parse.urlsplit(self.base).hostname in http_retries.LOOPBACK:
            handlers.append(urllib.request.ProxyHandler({}))
        return urllib.request.build_opener(*handlers)

    def _refused(self, method: str, path: str, response: Response) -> WebError:
        message = sanitize_line(_parse_message(response.body), longest=400)
        where = f"{method} {self._sanitized_url(path)}"
        return WebError(
            f"{where}: answered {response.status}{f': {message}' if message else ''}.", status=response.status
        )

    def _sanitized_url(self, path: str) -> str:
        parts = urllib.parse.urlsplit(self.base + path)
        return sanitize_line(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Treats a redirect as an ordinary response: following it would send the credential to another server."""

    def redirect_request(self, *_: object) -> None:
        return None


def _headers(found: Message) -> dict[str, str]:
    return {name.lower(): value for name, value in found.items()}


def _read_bounded(response: http.client.HTTPResponse | urllib.error.HTTPError) -> bytes:
    body = response.read(_MAX_BYTES + 1)
    if len(body) > _MAX_BYTES:
        raise OSError(f"the response is larger than {_MAX_BYTES // 2**20} MiB")
    return body


def _parse_message(body: bytes) -> str:
    """The error message, from the field that GitHub and GitLab use."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    message = (found.get("message") or found.get("error")) if isinstance(found, dict) else None
    return message if isinstance(message, str) else json.dumps(message) if message else ""


def _retry_delay(response: Response, attempt: int) -> float | None:
    """Seconds to wait before the next attempt; None when another attempt would not help."""
    headers = response.headers
    is_exhausted = headers.get("x-ratelimit-remaining") == "0" or "retry-after" in headers
    if response.status not in http_retries.BUSY and not (response.status == 403 and is_exhausted):
        return None
    requested = _requested_delay(headers)
    delay = 2.0**attempt if requested is None else max(requested, 0.0)
    return delay if delay <= http_retries.LONGEST_DELAY else None


def _requested_delay(headers: Mapping[str, str]) -> float | None:
    after, reset = headers.get("retry-after", ""), headers.get("x-ratelimit-reset", "")
    if after.isdigit():
        return float(after)
    if after:
        try:
            return parsedate_to_datetime(after).timestamp() - time.time()
        except ValueError:
            return None
    return float(reset) - time.time() if reset.isdigit() else None
