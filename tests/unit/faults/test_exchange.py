"""A fault counts only where it was done: a watch may end before its event, an event may have no successor."""

import json
from typing import Any, Final

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.faults.breaks import Break, Fault
from tests.faults.exchange import Exchange

_NEWS: Final = [{"type": "ADDED", "object": number} for number in range(3)]
_BOOKMARK: Final = {"type": "BOOKMARK", "object": 0}


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (Fault.CUT, [0]),
        (Fault.TRUNCATE, [0]),
        (Fault.DUPLICATE, [0, 1, 1, 2, 2]),
        (Fault.DELAY, [0, 1, 2]),
        (Fault.REORDER, [0, 2, 1]),
        (Fault.GAP, [0, "410"]),
        (Fault.GONE, [0, 1, "410"]),
    ],
)
async def test_what_is_done_to_a_watch_counts(fault: Fault, told: list[object]) -> None:
    lines, done = await _watch(_NEWS, fault, at=1)
    assert lines == told
    assert done > 0


@pytest.mark.parametrize(
    ("events", "fault", "at"),
    [
        (_NEWS, Fault.CUT, 3),
        (_NEWS, Fault.GAP, 3),
        (_NEWS, Fault.DUPLICATE, 3),
        (_NEWS, Fault.REORDER, 2),
        ([*_NEWS, _BOOKMARK], Fault.REORDER, 2),
        ([], Fault.TRUNCATE, 0),
    ],
)
async def test_what_a_watch_is_too_short_for_has_not_happened(
    events: list[dict[str, Any]], fault: Fault, at: int
) -> None:
    lines, done = await _watch(events, fault, at=at)
    assert sorted(map(str, lines)) == sorted(str(_told(event)) for event in events)
    assert done == 0


async def test_a_watch_is_refused_at_its_beginning_or_not_at_all() -> None:
    lines, done = await _watch(_NEWS, Fault.BROKEN, at=1)
    assert lines == ["500"]
    assert done == 1


async def _watch(events: list[dict[str, Any]], fault: Fault, *, at: int) -> tuple[list[object], int]:
    """What is told of each event that arrives, and how often the fault has happened."""
    done: list[Fault] = []
    broken = Break(fault, seconds=0.0, at=at, happened=lambda: done.append(fault))

    async def serve(request: web.Request) -> web.Response:
        return web.Response(text="".join(json.dumps(event) + "\n" for event in events))

    async with TestServer(_app(serve)) as server, aiohttp.ClientSession() as session:

        async def between(request: web.Request) -> web.StreamResponse:
            return await Exchange(str(server.make_url("")), request, session, b"").watch(broken)

        async with TestServer(_app(between)) as proxy:
            return await _read(session, str(proxy.make_url("/watch"))), len(done)


def _app(handler: Any) -> web.Application:
    app = web.Application()
    app.router.add_get("/watch", handler)
    return app


async def _read(session: aiohttp.ClientSession, url: str) -> list[object]:
    """Whole lines, until the stream ends or breaks."""
    found: list[object] = []
    try:
        async with session.get(url) as answer:
            if answer.status != 200:
                return [str(answer.status)]
            while line := await answer.content.readline():
                found.append(_told(json.loads(line)))
    except (aiohttp.ClientError, ValueError):
        pass
    return found


def _told(event: dict[str, Any]) -> object:
    """The number of an event, or the code of an error."""
    about = event["object"]
    return str(about["code"]) if event["type"] == "ERROR" else about
