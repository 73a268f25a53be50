"""What one HTTP call costs our process, by client: ours, aiohttp alone, and the least that Python can do.

    python -m bench.http_client --calls 5000 --runs 5

A create of a usual size over kept TLS connections to a server in a process of its own, 16 at a time. CPU time
of this process alone, without that server's. `protocol by hand` reads only answers with a length and has no
pool, deadline, retry or error: hardly any client costs less with this interpreter. With `uvloop` installed
its loop is measured too.
"""

import argparse
import asyncio
import multiprocessing
import ssl
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

import aiohttp

from muster.controller.kube import tls
from muster.controller.kube.connection import Connection
from muster.controller.kube.transport import Call, Transport
from muster.controller.runtime.authority import Lifetimes, Material, renew
from muster.controller.runtime.metrics import Metrics

_NAME: Final = "localhost"
_AT_ONCE: Final = 16
_BODY: Final = b'{"a":"' + b"x" * 1400 + b'"}'
_PATH: Final = "/apis/autoscaling.x-k8s.io/v1/namespaces/team-a/provisioningrequests"
_ANSWER: Final = (
    b"HTTP/1.1 201 Created\r\nAudit-Id: 5f7a2c1e-0d3b-4b63-9d44-0b8d5a6c7e10\r\n"
    b"Cache-Control: no-cache, private\r\nContent-Type: application/json\r\n"
    b"X-Kubernetes-Pf-Flowschema-Uid: 1c7f5a0e-95a1-4d1c-8d35-5b9f8f1f7a11\r\n"
    b"X-Kubernetes-Pf-Prioritylevel-Uid: 0b1b0a55-9f0c-4f61-8a3f-6a3f1a7e2b22\r\n"
    b"Date: Mon, 23 Nov 2026 10:00:00 GMT\r\nContent-Length: 1808\r\n\r\n"
    b'{"b":"' + b"y" * 1800 + b'"}'
)
Work = Callable[[], Awaitable[object]]


class _Server(asyncio.Protocol):
    """Answers each request alike, by the length that it announces."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.left = b""

    def data_received(self, data: bytes) -> None:
        self.left += data
        _, mark, rest = self.left.partition(b"\r\n\r\n")
        if mark and len(rest) >= len(_BODY):
            self.left = rest[len(_BODY) :]
            self.transport.write(_ANSWER)


def _serve(certificate: bytes, key: bytes, port: Any) -> None:
    async def run() -> None:
        context = tls.server_context(certificate=certificate, key=key)
        server = await asyncio.get_running_loop().create_server(_Server, "127.0.0.1", 0, ssl=context)
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


@contextmanager
def _served() -> Iterator[Connection]:
    material = renew(Material(), names=(_NAME,), now=datetime.now(UTC), lifetimes=Lifetimes())
    pair = material.serving
    assert pair is not None
    here, there = multiprocessing.Pipe()
    process = multiprocessing.Process(
        target=_serve, args=(pair.certificate_pem, pair.key_pem, there), daemon=True
    )
    process.start()
    try:
        url = f"https://127.0.0.1:{here.recv()}"
        trust = tls.client_context(authority=material.bundle)
        yield Connection(url, context=trust, token=_NAME, server_name=_NAME)
    finally:
        process.terminate()
        process.join()


async def _ours(connection: Connection, run: Callable[[Work], Awaitable[float]]) -> float:
    transport = Transport(connection, user_agent="bench", observer=Metrics())
    call = Call(verb="create", method="POST", path=_PATH, query={"fieldManager": "muster"}, body=_BODY)
    try:
        return await run(lambda: transport.request(call))
    finally:
        await transport.close()


async def _aiohttp(connection: Connection, run: Callable[[Work], Awaitable[float]]) -> float:
    headers = {"Authorization": "Bearer token", "Content-Type": "application/json", "User-Agent": "bench"}

    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False) as session:

        async def once() -> None:
            async with session.post(
                connection.server + _PATH,
                data=_BODY,
                headers=headers,
                ssl=connection.trust(),
                server_hostname=_NAME,
            ) as answer:
                assert answer.status == 201
                await answer.read()

        return await run(once)


class _Hand(asyncio.Protocol):
    """One call at a time, whose answer has a length."""

    def __init__(self) -> None:
        self.transport: Any = None
        self._answer: asyncio.Future[bytes] | None = None
        self._parts = bytearray()
        self._needs = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._parts += data
        if self._needs < 0 and (end := self._parts.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._parts[:end]).lower()
            self._needs = end + 4 + int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if 0 <= self._needs <= len(self._parts) and self._answer is not None:
            answer, self._answer = self._answer, None
            answer.set_result(bytes(self._parts))
            self._parts, self._needs = bytearray(), -1

    def ask(self, request: bytes) -> asyncio.Future[bytes]:
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return self._answer


async def _by_hand(connection: Connection, run: Callable[[Work], Awaitable[float]]) -> float:
    port = int(connection.server.rpartition(":")[2])
    trust = connection.trust()
    assert isinstance(trust, ssl.SSLContext)
    head = (
        f"POST {_PATH}?fieldManager=muster HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\n"
        f"Accept: application/json\r\nAuthorization: Bearer token\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(_BODY)}\r\n\r\n"
    ).encode()
    loop, idle = asyncio.get_running_loop(), list[_Hand]()

    async def once() -> None:
        if idle:
            each = idle.pop()
        else:
            _, each = await loop.create_connection(_Hand, "127.0.0.1", port, ssl=trust, server_hostname=_NAME)
        answer = await each.ask(head + _BODY)
        assert answer.startswith(b"HTTP/1.1 201")
        idle.append(each)

    try:
        return await run(once)
    finally:
        for each in idle:
            each.transport.close()


_CLIENTS: Final = {
    "Muster's transport (aiohttp)": _ours,
    "aiohttp alone": _aiohttp,
    "protocol by hand": _by_hand,
}


def _measured(calls: int) -> Callable[[Work], Awaitable[float]]:
    """Microseconds of CPU a call, once all connections are there."""

    async def run(work: Work) -> float:
        async def several(count: int) -> None:
            for _ in range(count):
                await work()

        await asyncio.gather(*(several(20) for _ in range(_AT_ONCE)))
        began = time.process_time()
        await asyncio.gather(*(several(calls // _AT_ONCE) for _ in range(_AT_ONCE)))
        return (time.process_time() - began) / (calls // _AT_ONCE * _AT_ONCE) * 1e6

    return run


def _loops() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    found: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
    try:
        import uvloop  # type: ignore[import-not-found,unused-ignore]  # only for a comparison
    except ImportError:
        return found
    return {**found, "uvloop": uvloop.new_event_loop}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    print("| client | event loop | CPU a call, µs | runs |\n|---|---|---:|---:|")
    with _served() as connection:
        for name, client in _CLIENTS.items():
            for loop, factory in _loops().items():
                found = []
                for _ in range(arguments.runs):
                    with asyncio.Runner(loop_factory=factory) as runner:
                        found.append(runner.run(client(connection, _measured(arguments.calls))))
                spread = f"{statistics.median(found):.0f} ({min(found):.0f} to {max(found):.0f})"
                print(f"| {name} | {loop} | {spread} | {len(found)} |", flush=True)


if __name__ == "__main__":
    main()
