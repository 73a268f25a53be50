"""HTTP calls to the servers that the preview talks to: a cluster, GitHub, GitLab.

Decides how long is waited, what is tried again and how often, and that a credential goes to the server it
was given for and nowhere else: no redirect is followed, and no message holds a header.

Tried again are answers that say so (429, 403 with a limit used up, 502 to 504) and, for calls that may be
repeated, a server that does not answer. The server says how long to wait: `Retry-After`
(https://www.rfc-editor.org/rfc/rfc9110#name-retry-after), or GitHub's `x-ratelimit-reset`
(https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api).
"""

import http.client
import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Final

from muster.errors import ExitCode
from muster.live.errors import PreviewError
from muster.live.sanitize import sanitize_line

_TIMEOUT: Final = 30.0
_TRIES: Final = 4
# A server that asks for more patience than this is told about, not waited for: a pipeline costs money.
_MAX_WAIT: Final = 90.0
_MAX_BYTES: Final = 256 * 1024 * 1024
_BUSY: Final = (429, 502, 503, 504)
_REPEATABLE: Final = ("GET", "PUT", "PATCH")
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


class WebError(PreviewError):
    """A call that failed for good. `status` is None when no answer came at all."""

    default_exit_code = ExitCode.OUTSIDE

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
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
            raise WebError(f"{what}: the answer is no JSON.", status=self.status) from None


def _sleep(seconds: float) -> None:
    time.sleep(seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Web:
    """One server. `headers` go with every call."""

    base: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    context: ssl.SSLContext | None = None
    proxy: str | None = None
    timeout: float = _TIMEOUT
    wait: Callable[[float], None] = _sleep

    def call(self, method: str, path: str, body: object = None) -> Response:
        """The answer of a call that succeeded; WebError otherwise."""
        for tries in range(1, _TRIES + 1):
            answer = self._answer(method, path, body, is_last=tries == _TRIES)
            if answer is None:
                self.wait(min(2.0**tries, _MAX_WAIT))
                continue
            if answer.status < 300:
                return answer
            pause = _retry_delay(answer, tries)
            if (
                pause is None
                or tries == _TRIES
                or (method not in _REPEATABLE and answer.status in (502, 504))
            ):
                raise self._refused(method, path, answer)
            self.wait(pause)
        raise AssertionError("the last try returns or raises")

    def _answer(self, method: str, path: str, body: object, *, is_last: bool) -> Response | None:
        """The answer, None when there was none and the call may be repeated."""
        try:
            return self._once(method, path, None if body is None else json.dumps(body).encode())
        except (OSError, http.client.HTTPException) as error:
            if is_last or method not in _REPEATABLE:
                why = sanitize_line(str(getattr(error, "reason", "") or error) or type(error).__name__)
                raise WebError(f"{method} {self._told(path)}: no answer: {why}.") from None
            return None

    def _once(self, method: str, path: str, data: bytes | None) -> Response:
        request = urllib.request.Request(  # noqa: S310 - the scheme is checked where the base comes from
            self.base + path,
            method=method,
            data=data,
            headers={**self.headers, **({"Content-Type": "application/json"} if data else {})},
        )
        try:
            with self._opener().open(request, timeout=self.timeout) as answer:
                return Response(answer.status, _headers(answer.headers), _read_bounded(answer))
        except urllib.error.HTTPError as error:
            with error:
                return Response(error.code, _headers(error.headers), _read_bounded(error))

    def _opener(self) -> urllib.request.OpenerDirector:
        handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
        if self.context is not None:
            handlers.append(urllib.request.HTTPSHandler(context=self.context))
        if self.proxy or urllib.parse.urlsplit(self.base).hostname in _LOOPBACK:
            handlers.append(urllib.request.ProxyHandler({"https": self.proxy} if self.proxy else {}))
        return urllib.request.build_opener(*handlers)

    def _refused(self, method: str, path: str, answer: Response) -> WebError:
        said = sanitize_line(_parse_message(answer.body), longest=400)
        where = f"{method} {self._told(path)}"
        return WebError(
            f"{where}: answered {answer.status}{f': {said}' if said else ''}.", status=answer.status
        )

    def _told(self, path: str) -> str:
        parts = urllib.parse.urlsplit(self.base + path)
        return sanitize_line(f"{parts.scheme}://{parts.hostname}{parts.path}")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer like others: followed, it would carry the credential to another server."""

    def redirect_request(self, *_: object) -> None:
        return None


def _headers(found: Message) -> dict[str, str]:
    return {name.lower(): value for name, value in found.items()}


def _read_bounded(answer: http.client.HTTPResponse | urllib.error.HTTPError) -> bytes:
    body = answer.read(_MAX_BYTES + 1)
    if len(body) > _MAX_BYTES:
        raise OSError(f"the answer is larger than {_MAX_BYTES // 2**20} MiB")
    return body


def _parse_message(body: bytes) -> str:
    """What the server said in the field in which GitHub, GitLab and Kubernetes say it."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    said = (found.get("message") or found.get("error")) if isinstance(found, dict) else None
    return said if isinstance(said, str) else json.dumps(said) if said else ""


def _retry_delay(answer: Response, tries: int) -> float | None:
    """Seconds to wait before the next try; None when no try will help."""
    headers = answer.headers
    used_up = headers.get("x-ratelimit-remaining") == "0" or "retry-after" in headers
    if answer.status not in _BUSY and not (answer.status == 403 and used_up):
        return None
    asked = _requested_delay(headers)
    pause = 2.0**tries if asked is None else max(asked, 0.0)
    return pause if pause <= _MAX_WAIT else None


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


__all__ = ["Response", "Web", "WebError"]
