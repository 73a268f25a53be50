"""What a client without credentials can do to the webhooks' port: a review is answered in time all the same.

The server is real, on loopback; the addresses of 127.0.0.0/8 stand for pods. Only the clock jumps.
"""

import asyncio
import json
import ssl
import tracemalloc
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry

from muster.controller.runtime.authority import Lifetimes, Material, renew
from muster.controller.runtime.connections import HANDSHAKE_TIMEOUT, IDLE, Limits
from muster.controller.runtime.metrics import Metrics
from muster.controller.runtime.review import Allow, Webhook
from muster.controller.runtime.webhook_server import MAX_BODY, WebhookServer
from tests.unit.controller_kube.test_reflector import Thing
from tests.unit.controller_runtime.virtual import named_after, now, virtual

LIMITS = Limits()
DEADLINE = 5.0
"""The timeoutSeconds of our webhooks: a review that is later is not made."""

API_SERVER = "127.0.0.1"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Port:
    """The webhooks' port as clients see it."""

    def __init__(self) -> None:
        material = renew(Material(), names=("localhost",), now=datetime.now(UTC), lifetimes=Lifetimes())
        assert material.serving is not None
        self.trust = ssl.create_default_context(cadata=material.bundle.decode())
        self.metrics = Metrics(CollectorRegistry())
        webhook = Webhook(path="/strict", type=Thing, review=lambda _: Allow())
        self.server = WebhookServer([webhook], metrics=self.metrics, host="127.0.0.1")
        self.server.use(certificate=material.serving.certificate_pem, key=material.serving.key_pem)

    async def silent(self, source: str) -> Streams:
        """A connection that begins no handshake."""
        return await asyncio.open_connection("127.0.0.1", self.server.port, local_addr=(source, 0))

    async def connected(self, source: str) -> Streams:
        return await asyncio.open_connection(
            "127.0.0.1", self.server.port, local_addr=(source, 0), ssl=self.trust, server_hostname="localhost"
        )

    async def stalled(self, source: str, *, sent: bytes = b"{", length: int = 1000) -> Streams:
        """A review whose body does not arrive."""
        reader, writer = await self.connected(source)
        writer.write(head(length) + sent)
        await writer.drain()
        return reader, writer

    def dropped(self) -> dict[str, float]:
        (found,) = self.metrics.webhook_connections_dropped.collect()
        return {each.labels["reason"]: each.value for each in found.samples if each.name.endswith("_total")}


def head(length: int) -> bytes:
    return f"POST /strict HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n".encode()


async def reviewed(streams: Streams) -> float:
    """Seconds that one review takes."""
    reader, writer = streams
    began = now()
    body = json.dumps(
        {"request": {"uid": "u-1", "operation": "CREATE", "object": {"metadata": {"name": "x"}}}}
    ).encode()
    writer.write(head(len(body)) + body)
    answer = await reader.readuntil(b'"allowed":true')
    assert answer.startswith(b"HTTP/1.1 200")
    await reader.readuntil(b"}}")
    return now() - began


async def is_closed(streams: Streams) -> bool:
    """Without a wait."""
    for _ in range(20):
        await asyncio.sleep(0)
    return streams[0].at_eof() or streams[0].exception() is not None


def with_port(scenario: Callable[[Port], Awaitable[None]]) -> Callable[[], None]:
    async def run() -> None:
        port = Port()
        serving = asyncio.ensure_future(port.server.run())
        await port.server.listening()
        await scenario(port)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    return named_after(scenario, lambda: virtual(run()))


@with_port
async def test_bodies_that_do_not_arrive_hold_up_no_review(port: Port) -> None:
    held = [await port.stalled("127.0.0.2") for _ in range(128)]
    assert await reviewed(await port.connected(API_SERVER)) < DEADLINE
    assert held


@with_port
async def test_one_address_takes_no_place_from_another(port: Port) -> None:
    waiting = await port.connected(API_SERVER)
    held = [await port.stalled("127.0.0.2") for _ in range(LIMITS.of_one_source + 8)]
    assert await reviewed(waiting) < DEADLINE
    gone = [await is_closed(each) for each in held]
    assert gone == [True] * 8 + [False] * LIMITS.of_one_source, "those go that have waited longest"
    assert port.dropped() == {"full": 8}


@with_port
async def test_when_all_places_are_taken_a_new_client_is_answered_and_those_without_an_answer_go(
    port: Port,
) -> None:
    first = await port.connected(API_SERVER)
    await reviewed(first)
    held = [await port.silent(f"127.0.1.{1 + each % 250}") for each in range(LIMITS.at_once + 8)]
    assert await reviewed(await port.connected(API_SERVER)) < DEADLINE
    assert await reviewed(first) < DEADLINE
    assert sum([await is_closed(each) for each in held]) == 10


@with_port
async def test_a_client_that_begins_no_handshake_is_dropped(port: Port) -> None:
    reader, _ = await port.silent("127.0.0.2")
    assert await reader.read() == b""
    assert now() < HANDSHAKE_TIMEOUT + 1


@with_port
async def test_a_client_that_asks_nothing_is_dropped_and_the_api_server_may_pause(port: Port) -> None:
    waiting = await port.connected(API_SERVER)
    await reviewed(waiting)
    reader, _ = await port.connected("127.0.0.2")
    assert await reader.read() == b""
    assert now() < IDLE / 2
    await asyncio.sleep(IDLE / 2)
    assert await reviewed(waiting) < DEADLINE
    assert await waiting[0].read() == b"", "one that asks no more is dropped too, later"


@with_port
async def test_a_waiting_client_takes_little_memory(port: Port) -> None:
    """Ours and its own in this one process; TLS takes about 20 KiB more, which Python does not count."""
    await reviewed(await port.connected(API_SERVER))
    tracemalloc.start()
    held = [await port.silent("127.0.0.2") for _ in range(50)]
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used / len(held) < 48 * 1024


@with_port
async def test_unfinished_bodies_take_no_more_than_their_share_of_the_memory(port: Port) -> None:
    part = MAX_BODY - 1

    waiting = await port.connected(API_SERVER)
    held = [
        await port.stalled("127.0.0.2", sent=b"x" * part, length=MAX_BODY)
        for _ in range(LIMITS.bytes_of_bodies // part + 2)
    ]
    assert await reviewed(waiting) < DEADLINE
    with pytest.raises(ConnectionResetError):
        await held[0][0].read()
    assert not await is_closed(held[-1])
    assert port.dropped()["bodies"] >= 1
