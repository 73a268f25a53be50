"""One request of the manager on its way to the API server and back, whole or broken."""

from __future__ import annotations

import asyncio
import json
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final

import aiohttp
import yarl
from aiohttp import web

from tests.faults.breaks import Break, Fault

_HOP: Final = frozenset({"connection", "content-length", "host", "transfer-encoding", "keep-alive"})
_GATHERING: Final = 0.3
"""Seconds in which the successor of an event has to come, or there is none to change places with."""
_HELD: Final = 8.0
"""Longer than the manager of these tests waits for anything (managers.py)."""

WORDS: Final = "said by a test between you and the server"
_STATUS: Final = {
    Fault.FORBIDDEN: (403, "Forbidden"),
    Fault.STARTING: (403, "Forbidden"),
    Fault.NOT_FOUND: (404, "NotFound"),
    Fault.CONFLICT: (409, "Conflict"),
    Fault.GONE: (410, "Expired"),
    Fault.INVALID: (422, "Invalid"),
    Fault.TOO_MANY: (429, "TooManyRequests"),
    Fault.BROKEN: (500, "InternalError"),
    Fault.UNAVAILABLE: (503, "ServiceUnavailable"),
}
_NO_ROLES: Final = (
    'podtemplates is forbidden: User "system:serviceaccount:muster-system:gang-admission" cannot create '
    'resource "podtemplates" in API group "" in the namespace "team-a"'
)
"""The server's own, whatever was asked: it says this to every call until it has read its roles."""

_UNHEARD: Final = frozenset((*_STATUS, Fault.CUT, Fault.FREEZE))
_AT_AN_EVENT: Final = frozenset(Fault) - {*_STATUS} | {Fault.GONE}
"""What can happen to a watch that has begun."""
_GOES_ON: Final = frozenset({Fault.DUPLICATE, Fault.DELAY, Fault.REORDER})
"""Of these, what does not end it."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """`url`: where the API server is; `body`: what the manager sent."""

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
        if broken is not None and broken.fault in _UNHEARD:
            return await self._keep(broken)
        fault = broken.fault if broken else None
        if broken is not None and fault is Fault.DELAY:
            await asyncio.sleep(broken.seconds)
        if fault is Fault.TWICE:
            async with self.send() as first:
                await first.read()
        async with self.send() as answer:
            body = await answer.read()
        if broken is not None:
            broken.happened()
        if fault is Fault.LOST:
            return self.abort()
        headers = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP}
        if fault is not Fault.TRUNCATE:
            return web.Response(status=answer.status, body=body, headers=headers)
        return await self._half(answer.status, headers, body)

    async def _keep(self, broken: Break) -> web.StreamResponse:
        """From the server, which hears nothing of it."""
        broken.happened()
        if broken.fault in _STATUS:
            return _refusal(broken.fault)
        if broken.fault is Fault.FREEZE:
            await asyncio.sleep(_HELD)
        return self.abort()

    async def _half(self, status: int, headers: dict[str, str], body: bytes) -> web.StreamResponse:
        half = web.StreamResponse(status=status, headers={**headers, "Content-Length": str(len(body) + 1)})
        await half.prepare(self.request)
        await half.write(body[: len(body) // 2])
        self.abort()
        return half

    async def watch(self, broken: Break | None) -> web.StreamResponse:
        if broken is not None and (
            broken.fault not in _AT_AN_EVENT or (broken.fault is Fault.GONE and broken.at == 0)
        ):
            return await self._keep(broken)
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
            elif broken.fault in _GOES_ON:
                await _disturb(stream, line, events, broken)
            else:
                return await _end(stream, line, broken)
        return True


async def _disturb(stream: web.StreamResponse, line: bytes, events: _Events, broken: Break) -> None:
    """This event and all that follow."""
    match broken.fault:
        case Fault.DUPLICATE:
            await stream.write(line + line)
        case Fault.DELAY:
            await asyncio.sleep(broken.seconds)
            await stream.write(line)
        case _:
            # In one piece, so that nobody resumes between the two.
            following = await events.next(within=_GATHERING)
            await stream.write((following or b"") + line)
            if following is None or _is_bookmark(line) or _is_bookmark(following):
                return  # Nothing has changed its place with anything.
    broken.happened()


async def _end(stream: web.StreamResponse, line: bytes, broken: Break) -> bool:
    """This event is the last; whether the stream ends as a server ends one."""
    broken.happened()
    match broken.fault:
        case Fault.FREEZE:
            await asyncio.sleep(_HELD)
        case Fault.TRUNCATE:
            await stream.write(line[: len(line) // 2])
        case Fault.GONE:
            await stream.write(line + _event_of_error())
        case Fault.GAP:
            await stream.write(_event_of_error())
    return broken.fault in (Fault.GONE, Fault.GAP)


def _is_bookmark(line: bytes) -> bool:
    return bool(json.loads(line)["type"] == "BOOKMARK")


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


def _refusal(fault: Fault) -> web.Response:
    code, reason = _STATUS[fault]
    headers = {"Retry-After": "1"} if fault is Fault.TOO_MANY else {}
    words = _NO_ROLES if fault is Fault.STARTING else WORDS
    return web.json_response(_status(code, reason, words), status=code, headers=headers)


def _status(code: int, reason: str, words: str = WORDS) -> dict[str, object]:
    frame = {"apiVersion": "v1", "kind": "Status", "status": "Failure"}
    return {**frame, "code": code, "reason": reason, "message": words}


def _event_of_error() -> bytes:
    code, reason = _STATUS[Fault.GONE]
    return json.dumps({"type": "ERROR", "object": _status(code, reason)}).encode() + b"\n"
