"""Requests at a steady rate over kept TLS connections, each timed from when it was due.

A request that had to wait for one before it counts from its own time, so that a slow answer cannot hide the
ones behind it. Written by hand onto the wire: a client library would cost more than what is measured, on the
same cores.
"""

import asyncio
import re
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_CONNECTIONS: Final = 16
_LENGTH: Final = re.compile(rb"(?i)content-length: (\d+)")
_CHUNKED: Final = re.compile(rb"(?i)transfer-encoding: chunked")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Something that answers HTTP on this host. `name` is the name that its certificate has."""

    port: int
    name: str
    tls: ssl.SSLContext


@dataclass(frozen=True, slots=True)
class Answer:
    """`seconds` since it was due."""

    seconds: float
    status: int
    body: bytes


def request(method: str, path: str, body: bytes, **headers: str) -> bytes:
    """One request as it goes over the wire; of a header's name `_` is a `-`."""
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"{method} {path} HTTP/1.1\r\n{more}Content-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def send(server: Server, requests: Sequence[bytes], *, rate: float, warm_up: int = 0) -> list[Answer]:
    """The answers to all but the first `warm_up` requests, which are sent at once. `rate`: a second."""
    due: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
    answers: list[Answer] = []
    async with asyncio.TaskGroup() as group:
        workers = [group.create_task(_work(server, due, answers)) for _ in range(_CONNECTIONS)]
        for each in requests[:warm_up]:
            due.put_nowait((time.monotonic(), each))
        await due.join()
        answers.clear()
        begun = time.monotonic()
        for number, each in enumerate(requests[warm_up:]):
            at = begun + number / rate
            await asyncio.sleep(max(0.0, at - time.monotonic()))
            due.put_nowait((at, each))
        await due.join()
        for worker in workers:
            worker.cancel()
    return answers


async def _work(server: Server, due: asyncio.Queue[tuple[float, bytes]], answers: list[Answer]) -> None:
    """One kept connection: a request after another."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", server.port, ssl=server.tls, server_hostname=server.name
    )
    try:
        while True:
            at, message = await due.get()
            writer.write(message)
            status, body = await _answer(reader)
            answers.append(Answer(time.monotonic() - at, status, body))
            due.task_done()
    finally:
        writer.close()


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    status = int(head.split(b" ", 2)[1])
    if not _CHUNKED.search(head):
        length = _LENGTH.search(head)
        return status, await reader.readexactly(int(length[1]) if length else 0)
    body = b""
    while size := int(await reader.readline(), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readline()
    return status, body
