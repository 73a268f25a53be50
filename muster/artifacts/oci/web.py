"""An HTTP call with a timeout, a few attempts, and an error that names a remedy.

Responsible for what is retried (no answer, "too many requests", "unavailable"), for a timeout that ends a
stalled transfer and not a large one, and for never sending credentials after a redirect to another host.
"""

import io
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any, Final
from urllib.parse import urlsplit

from muster.errors import ExitCode, MusterError

TIMEOUT: Final = 30.0
TRIES: Final = 4
_AGAIN: Final = frozenset({429, 500, 502, 503, 504})
# Doubled at each try: 0.5, 1, 2 seconds.
_FIRST_PAUSE: Final = 0.5


class UnreachableError(MusterError):
    """A host did not answer after all attempts. The message names the host and the cause."""

    default_exit_code = ExitCode.OUTSIDE


@dataclass(frozen=True, slots=True)
class Answer:
    """`headers` with small names."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Web:
    """How calls are made. `pause` is the first wait between tries."""

    timeout: float = TIMEOUT
    tries: int = TRIES
    pause: float = _FIRST_PAUSE
    _opener: urllib.request.OpenerDirector = field(
        default_factory=lambda: urllib.request.build_opener(_SameHost()), repr=False
    )

    def call(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> Answer:
        """The answer, whatever its status; UnreachableError when there is none."""
        return self.again(
            lambda: self.once(method, url, headers=headers, body=body), host=urlsplit(url).netloc
        )

    def again(self, attempt: Callable[[], Answer], *, host: str) -> Answer:
        """The answer of `attempt`, which is retried as a whole and makes its calls by `once`."""
        for left in reversed(range(self.tries)):
            try:
                answer = attempt()
            except OSError as error:  # URLError, timeouts and broken connections among them
                if not left:
                    reason = getattr(error, "reason", error)
                    raise UnreachableError(
                        f"{host} does not answer ({reason}), after {self.tries} tries of "
                        f"{self.timeout:.0f} s.",
                        fix="check the name, the network and its proxy.",
                    ) from error
            else:
                if answer.status not in _AGAIN or not left:
                    return answer
            time.sleep(self.pause * 2 ** (self.tries - 1 - left))
        raise AssertionError("unreachable: the last try answers or raises")

    def once(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> Answer:
        """One attempt. Raises OSError when the host does not answer."""
        if urlsplit(url).scheme not in ("http", "https"):
            raise UnreachableError(f"{url} is no web address.")
        sent_headers = dict(headers or {})
        if body is not None:
            sent_headers["Content-Length"] = str(len(body))
        # As a file it goes in blocks, and the timeout is one block's; of bytes it would be that of them all
        # (https://docs.python.org/3/library/socket.html#socket.socket.sendall).
        sent = None if body is None else io.BytesIO(body)
        request = urllib.request.Request(url, data=sent, headers=sent_headers, method=method)  # noqa: S310
        try:
            with self._opener.open(request, timeout=self.timeout) as found:
                return Answer(found.status, _small(found.headers), found.read())
        except urllib.error.HTTPError as refused:
            with refused:
                return Answer(refused.code, _small(refused.headers), refused.read())


class _SameHost(urllib.request.HTTPRedirectHandler):
    """Registries redirect blobs to other hosts, which must not see our credentials."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        fresh = super().redirect_request(req, fp, code, msg, headers, newurl)
        if fresh is not None and urlsplit(newurl).netloc != urlsplit(req.full_url).netloc:
            fresh.remove_header("Authorization")
        return fresh


def _small(headers: Any) -> dict[str, str]:
    return {str(name).lower(): str(value) for name, value in headers.items()}
