"""Between the manager and the API server: every call passes here, and some do not arrive as they were sent.

Decides nothing: a `Plan` says of each call and of each watch what happens to it. Plain HTTP towards the
manager, or TLS where a test is about certificates.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

import aiohttp
import yarl
from aiohttp import web

from localplane.bare import ControlPlane

_HOP: Final = frozenset({"connection", "content-length", "host", "transfer-encoding", "keep-alive"})
_PATIENCE: Final = 60.0
_GATHERING: Final = 0.3
# A retrying middlebox may be slow; nobody waits for it longer than this.
_HELD: Final = 8.0


class Fault(StrEnum):
    """What can happen to a call, or to a watch at one of its events."""

    CUT = "cut"  # the connection breaks before the server has heard
    LOST = "lost"  # the server has acted; its answer never comes
    TWICE = "twice"  # the server hears it two times, and answers the second
    DELAY = "delay"  # later
    FREEZE = "freeze"  # nothing comes any more, and nobody closes
    TRUNCATE = "truncate"  # half of the answer
    NOT_FOUND = "404"
    CONFLICT = "409"
    GONE = "410"
    TOO_MANY = "429"
    BROKEN = "500"
    UNAVAILABLE = "503"
    DUPLICATE = "duplicate"  # every event of the watch two times
    REORDER = "reorder"  # an event after its successor
    GAP = "gap"  # an event is missing; then the server says that it has forgotten


_STATUS: Final = {
    Fault.NOT_FOUND: (404, "NotFound"),
    Fault.CONFLICT: (409, "Conflict"),
    Fault.GONE: (410, "Expired"),
    Fault.TOO_MANY: (429, "TooManyRequests"),
    Fault.BROKEN: (500, "InternalError"),
    Fault.UNAVAILABLE: (503, "ServiceUnavailable"),
}


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the manager. `resource` is the plural, with its subresource."""

    verb: str
    resource: str
    path: str

    @property
    def writes(self) -> bool:
        """Of gangs: news (Events) and leases are not part of what is decided."""
        told = self.resource.startswith(("events", "leases"))
        return self.verb not in ("get", "list", "watch") and not told

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}"


@dataclass(frozen=True, slots=True)
class Break:
    """What happens; to a watch, at its event number `at`."""

    fault: Fault
    seconds: float = 0.2
    at: int = 0


class Plan(Protocol):
    """Says what happens to a call. Called in the proxy's thread, in the order of arrival."""

    def judge(self, call: Call) -> Break | None: ...

    def done(self, call: Call) -> None:
        """The server has answered."""


class Calm:
    """Everything passes."""

    def judge(self, call: Call) -> Break | None:
        return None

    def done(self, call: Call) -> None: ...


@dataclass(slots=True)
class Proxy:
    """`plan` may be exchanged at any time; it takes effect with the next call. `calls` have arrived here, in
    order.
    """

    server: ControlPlane
    plan: Plan = field(default_factory=Calm)
    url: str = ""
    calls: list[Call] = field(default_factory=list)

    @property
    def writes(self) -> list[Call]:
        """Those about gangs that would change something."""
        return [call for call in self.calls if call.writes]

    @contextmanager
    def serving(self, context: ssl.SSLContext | None = None, *, port: int = 0) -> Iterator[Proxy]:
        """Until the block ends; with `context`, over TLS."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        try:
            closing = asyncio.run_coroutine_threadsafe(self._serve(context, port), loop).result(_PATIENCE)
            try:
                yield self
            finally:
                asyncio.run_coroutine_threadsafe(closing.aclose(), loop).result(_PATIENCE)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(_PATIENCE)

    async def _serve(self, context: ssl.SSLContext | None, port: int) -> AsyncExitStack:
        closing = AsyncExitStack()
        trust = ssl.create_default_context(cafile=str(self.server.certificate))
        session = await closing.enter_async_context(
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ssl=trust, force_close=True),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_PATIENCE),
                auto_decompress=False,
            )
        )
        app = web.Application(client_max_size=2**26)

        async def answer(request: web.Request) -> web.StreamResponse:
            return await self._answer(request, session)

        app.router.add_route("*", "/{path:.*}", answer)
        # A manager that was killed leaves its connections; nothing waits for their handlers.
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        closing.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
        return closing

    async def _answer(self, request: web.Request, session: aiohttp.ClientSession) -> web.StreamResponse:
        call = _read(request)
        self.calls.append(call)
        found = self.plan.judge(call)
        exchange = _Exchange(self.server.url, request, session, await request.read())
        try:
            if call.verb == "watch":
                return await exchange.watch(found)
            answer = await exchange.pass_on(found)
            self.plan.done(call)
            return answer
        except (aiohttp.ClientError, OSError):
            return exchange.abort()  # as if there were nothing between


@dataclass(frozen=True, slots=True)
class _Exchange:
    """One request of the manager on its way."""

    url: str
    request: web.Request
    session: aiohttp.ClientSession
    body: bytes

    def abort(self) -> web.Response:
        """The connection is gone, in the middle of whatever was said."""
        if self.request.transport is not None:
            self.request.transport.abort()
        return web.Response()

    def send(self) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        headers = {name: value for name, value in self.request.headers.items() if name.lower() not in _HOP}
        url = yarl.URL(self.url + self.request.raw_path, encoded=True)
        return self.session.request(
            self.request.method, url, data=self.body or None, headers=headers, allow_redirects=False
        )

    async def pass_on(self, broken: Break | None) -> web.StreamResponse:
        fault = broken.fault if broken else None
        if broken is not None:
            if fault in _STATUS:
                return _refusal(broken.fault)
            if fault in (Fault.DELAY, Fault.FREEZE):
                await asyncio.sleep(_HELD if fault is Fault.FREEZE else broken.seconds)
            if fault in (Fault.CUT, Fault.FREEZE):
                return self.abort()
            if fault is Fault.TWICE:
                async with self.send() as first:
                    await first.read()
        async with self.send() as answer:
            body = await answer.read()
        if fault is Fault.LOST:
            return self.abort()
        headers = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP}
        if fault is not Fault.TRUNCATE:
            return web.Response(status=answer.status, body=body, headers=headers)
        return await self._half(answer.status, headers, body)

    async def _half(self, status: int, headers: dict[str, str], body: bytes) -> web.StreamResponse:
        half = web.StreamResponse(status=status, headers={**headers, "Content-Length": str(len(body) + 1)})
        await half.prepare(self.request)
        await half.write(body[: len(body) // 2])
        self.abort()
        return half

    async def watch(self, broken: Break | None) -> web.StreamResponse:
        if broken is not None and broken.fault in _STATUS and broken.at == 0:
            return _refusal(broken.fault)
        async with self.send() as answer:
            stream = web.StreamResponse(status=answer.status, headers={"Content-Type": "application/json"})
            await stream.prepare(self.request)
            events = _Events(answer.content)
            try:
                whole = await self._events(stream, events, broken)
            finally:
                events.close()
        if not whole:
            self.abort()
        return stream

    async def _events(self, stream: web.StreamResponse, events: _Events, broken: Break | None) -> bool:
        """Whether the stream is to end as the server ended it."""
        number = 0
        while (line := await events.next()) is not None:
            number += 1
            if broken is None or number <= broken.at:
                await stream.write(line)
                continue
            match broken.fault:
                case Fault.DUPLICATE:
                    await stream.write(line + line)
                case Fault.DELAY:
                    await asyncio.sleep(broken.seconds)
                    await stream.write(line)
                case Fault.REORDER:
                    # In one piece, so that nobody resumes between the two.
                    await stream.write((await events.next(within=_GATHERING) or b"") + line)
                case Fault.FREEZE:
                    await asyncio.sleep(_HELD)
                    return False
                case Fault.TRUNCATE:
                    await stream.write(line[: len(line) // 2])
                    return False
                case Fault.GONE | Fault.GAP:
                    await stream.write(
                        _event_of_error() if broken.fault is Fault.GAP else line + _event_of_error()
                    )
                    return True
                case _:
                    return False
        return True


class _Events:
    """The lines of a watch."""

    def __init__(self, content: aiohttp.StreamReader) -> None:
        self._content = content
        self._rest = b""
        self._coming: asyncio.Task[bytes | None] | None = None

    async def next(self, *, within: float | None = None) -> bytes | None:
        """The next one; None at the end, and when there is none in time (which loses none)."""
        if self._coming is None:
            self._coming = asyncio.ensure_future(self._read())
        done, _ = await asyncio.wait({self._coming}, timeout=within)
        if not done:
            return None
        task, self._coming = self._coming, None
        return task.result()

    def close(self) -> None:
        if self._coming is not None:
            self._coming.cancel()

    async def _read(self) -> bytes | None:
        while b"\n" not in self._rest:
            chunk = await self._content.readany()
            if not chunk:
                return None
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return line + b"\n"


_VERBS: Final = {"POST": "create", "PUT": "update", "DELETE": "delete"}


def _read(request: web.Request) -> Call:
    parts = request.path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if parts[0:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    plural, name, below = (*parts, "", "", "")[:3]
    verb = _VERBS.get(request.method, "")
    if request.method == "PATCH":
        verb = "apply" if "apply-patch" in request.headers.get("Content-Type", "") else "patch"
    elif request.method == "GET":
        verb = "watch" if "watch" in request.query else "get" if name else "list"
    return Call(verb, f"{plural}/{below}" if below else plural, request.path)


def _refusal(fault: Fault) -> web.Response:
    code, reason = _STATUS[fault]
    headers = {"Retry-After": "1"} if fault is Fault.TOO_MANY else {}
    return web.json_response(_status(code, reason), status=code, headers=headers)


def _status(code: int, reason: str) -> dict[str, object]:
    frame = {"apiVersion": "v1", "kind": "Status", "status": "Failure"}
    return {**frame, "code": code, "reason": reason, "message": "said by a test between you and the server"}


def _event_of_error() -> bytes:
    code, reason = _STATUS[Fault.GONE]
    return json.dumps({"type": "ERROR", "object": _status(code, reason)}).encode() + b"\n"
