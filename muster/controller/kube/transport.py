"""One HTTP call to the API server, with its deadline, its bounded retries and its typed error.

Retries "not now" (429) always, because the server has not acted; transport errors and 5xx only for calls that
can be repeated safely. Verbs and bodies are the client's; the streaming of watches is the reader's of
`stream`.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from types import TracebackType
from typing import Protocol, Self
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from muster.controller.kube.connection import Connection
from muster.controller.kube.errors import ApiError, KubeError, TransportError, from_response

CONNECT_TIMEOUT = 10.0
CALL_TIMEOUT = 30.0
"""Seconds for one attempt of one call; a LIST page of 500 large objects takes about a second."""

ATTEMPTS = 4
RETRY_BASE = 0.2
RETRY_CAP = 5.0
PATIENCE = 10.0
"""The longest Retry-After that a call waits out itself; a longer one goes up to the work queue, which frees
the worker.
"""

REPEATABLE_CODES = frozenset({500, 502, 503, 504})


class Observer(Protocol):
    """Observes calls. `code` is 0 when there was no answer."""

    def called(self, call: "Call", code: int, seconds: float) -> None:
        """After each attempt, in the task that made it."""

    def retrying(self, call: "Call", code: int) -> None:
        """Before each attempt but the first."""


class Guard(Protocol):
    """Asked right before every attempt of a write; raises when this process may not write (any more)."""

    def __call__(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request. `repeatable` says that doing it twice is the same as doing it once."""

    verb: str
    method: str
    path: str
    query: Mapping[str, str]
    body: bytes | None = None
    content_type: str = "application/json"
    repeatable: bool = False
    timeout: float = CALL_TIMEOUT

    @property
    def writes(self) -> bool:
        return self.method != "GET"

    @property
    def target(self) -> str:
        """Path and query, encoded."""
        return f"{self.path}?{_encoded(*self.query.items())}" if self.query else self.path

    def __str__(self) -> str:
        return f"{self.verb} {self.path}"


class NullObserver:
    """Ignores all calls."""

    def called(self, call: Call, code: int, seconds: float) -> None: ...

    def retrying(self, call: Call, code: int) -> None: ...


NULL_OBSERVER = NullObserver()


@dataclass(frozen=True, slots=True)
class CompositeObserver:
    """Several observers as one."""

    observers: tuple[Observer, ...]

    def called(self, call: Call, code: int, seconds: float) -> None:
        for observer in self.observers:
            observer.called(call, code, seconds)

    def retrying(self, call: Call, code: int) -> None:
        for observer in self.observers:
            observer.retrying(call, code)


class Transport:
    """A connection pool to one API server. Open it inside a running event loop and close it at the end."""

    def __init__(
        self,
        connection: Connection,
        *,
        user_agent: str,
        observer: Observer = NULL_OBSERVER,
        attempts: int = ATTEMPTS,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.connection = connection
        self._observer = observer
        self._attempts = attempts
        self._jitter = jitter
        self._headers = {
            "User-Agent": user_agent,
            "Accept": "application/json",
            "Accept-Encoding": "identity",
        }
        self._session: aiohttp.ClientSession | None = None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=100, keepalive_timeout=60)
            self._session = aiohttp.ClientSession(
                connector=connector, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._session

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def request(self, call: Call, *, guard: Guard | None = None) -> bytes:
        """The body of a successful answer. Raises a KubeError otherwise, after the retries that the call
        allows.
        """
        for attempt in range(1, self._attempts + 1):
            if guard is not None and call.writes:
                guard()
            try:
                return await self._attempt(call)
            except KubeError as error:
                pause = self._pause(call, error, attempt)
                if pause is None:
                    raise
                self._observer.retrying(call, error.status.code if isinstance(error, ApiError) else 0)
            await asyncio.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def _pause(self, call: Call, error: KubeError, attempt: int) -> float | None:
        """Seconds before the next attempt, or None when there is to be none."""
        if attempt >= self._attempts or not self._may_repeat(call, error):
            return None
        if error.retry_after is not None:
            return None if error.retry_after > PATIENCE else error.retry_after * (1 + 0.2 * self._jitter())
        ceiling: float = min(RETRY_CAP, RETRY_BASE * 2.0 ** (attempt - 1))
        return ceiling * (0.5 + 0.5 * self._jitter())

    def _may_repeat(self, call: Call, error: KubeError) -> bool:
        if isinstance(error, ApiError):
            code = error.status.code
            if code == 401:
                return self.connection.refused()
            if code == 429:
                return not error.status.has_cause("DisruptionBudget")
            return code in REPEATABLE_CODES and call.repeatable
        return call.repeatable

    async def _attempt(self, call: Call) -> bytes:
        limits = _limits(total=call.timeout)
        with _Attempt(self._observer, call) as attempt:
            async with self._send(call, limits) as response:
                attempt.code = response.status
                body = await response.read()
                if not 200 <= response.status < 300:
                    raise _refusal(response, body, call)
                return body

    @asynccontextmanager
    async def stream(self, call: Call, *, idle_timeout: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """The chunks of a long answer as they come. Silence longer than `idle_timeout` is a
        TransportError.
        """
        limits = _limits(silence=idle_timeout)
        with _Attempt(self._observer, call) as attempt:
            async with self._send(call, limits) as response:
                attempt.code = response.status
                if not 200 <= response.status < 300:
                    raise _refusal(response, await response.read(), call)
                yield response.content.iter_any()

    def _send(
        self, call: Call, limits: aiohttp.ClientTimeout
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        return self._open().request(
            call.method,
            URL(f"{self.connection.server}{call.target}", encoded=True),
            data=call.body,
            headers=self._call_headers(call),
            timeout=limits,
            middlewares=(partial(self._once, call),),
            ssl=self.connection.trust(),
            allow_redirects=False,
            server_hostname=self.connection.server_name,
        )

    async def _once(
        self, call: Call, request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """One attempt is one request. Where a connection that was used before breaks, aiohttp sends a GET,
        PUT or DELETE again by itself, unless the error is none of its own.
        """
        try:
            return await send(request)
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
            if isinstance(error, aiohttp.ClientConnectorCertificateError):
                self.connection.distrusted()
            raise _broken(call, error) from error

    def _call_headers(self, call: Call) -> dict[str, str]:
        headers = dict(self._headers)
        try:
            authorization = self.connection.authorization()
        except OSError as error:
            raise TransportError(f"the token cannot be read: {error}", call=str(call)) from error
        if authorization:
            headers["Authorization"] = authorization
        if call.body is not None:
            headers["Content-Type"] = call.content_type
        return headers


class _Attempt:
    """One attempt of a call, which the observer hears of however it ends. What breaks on the way is a
    TransportError.
    """

    __slots__ = ("_call", "_observer", "_started", "code")

    def __init__(self, observer: Observer, call: Call) -> None:
        self._observer, self._call = observer, call
        self._started = time.monotonic()
        self.code = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._observer.called(self._call, self.code, time.monotonic() - self._started)
        if isinstance(error, TimeoutError):
            raise TransportError(f"no answer in time: {error}", call=str(self._call)) from error
        if isinstance(error, aiohttp.ClientError | OSError):
            raise _broken(self._call, error) from error


def _broken(call: Call, error: Exception) -> TransportError:
    return TransportError(f"{type(error).__name__}: {error}", call=str(call))


@lru_cache(maxsize=256)
def _encoded(*query: tuple[str, str]) -> str:
    """Of few distinct queries: those of writes name our field manager alone."""
    return urlencode(query)


@lru_cache(maxsize=64)
def _limits(*, total: float | None = None, silence: float | None = None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=total, sock_connect=CONNECT_TIMEOUT, sock_read=silence)


def _refusal(response: aiohttp.ClientResponse, body: bytes, call: Call) -> KubeError:
    return from_response(response.status, body, call=str(call), retry_after=_retry_after(response))


def _retry_after(response: aiohttp.ClientResponse) -> float | None:
    """Retry-After in seconds. The date form is not used by the API server and is ignored."""
    value = response.headers.get("Retry-After", "")
    return float(value) if value.isascii() and value.isdigit() else None
