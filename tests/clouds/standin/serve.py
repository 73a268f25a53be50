"""Both stand-ins on ports of this machine, in a thread beside the tests, which look into them directly."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Iterator
from importlib.metadata import version
from typing import Any, TypeVar

import grpc  # type: ignore[import-untyped]  # grpcio ships no types
from pulumi.runtime.proto import provider_pb2_grpc

from tests.clouds.standin.cloud import Cloud
from tests.clouds.standin.provider import StandIn

_LARGEST_MESSAGE = 400 * 1024 * 1024

T = TypeVar("T")


class Clouds:
    """`gcp` and `aws`, and what the engine has to be told to find them."""

    def __init__(self) -> None:
        self.gcp, self.aws = Cloud("gcp"), Cloud("aws")
        self._loop = asyncio.new_event_loop()
        self.ports: dict[str, int] = {}

    @property
    def environment(self) -> dict[str, str]:
        told = ",".join(f"{name}:{port}" for name, port in self.ports.items())
        return {"PULUMI_DEBUG_PROVIDERS": told}

    def ask(self, awaitable: Awaitable[T], *, seconds: float = 60) -> T:
        """Runs something on the clouds' own loop, from a test's thread."""
        return asyncio.run_coroutine_threadsafe(_awaited(awaitable), self._loop).result(seconds)

    async def _start(self) -> list[Any]:
        servers = []
        for cloud in (self.gcp, self.aws):
            options = [(f"grpc.max_{way}_message_length", _LARGEST_MESSAGE) for way in ("receive", "send")]
            server = grpc.aio.server(options=options)
            standin = StandIn(cloud, version=version(f"pulumi_{cloud.name}"))
            provider_pb2_grpc.add_ResourceProviderServicer_to_server(standin, server)
            self.ports[cloud.name] = server.add_insecure_port("127.0.0.1:0")
            await server.start()
            servers.append(server)
        return servers

    @contextlib.contextmanager
    def serving(self) -> Iterator[Clouds]:
        thread = threading.Thread(target=self._loop.run_forever, name="stand-in clouds", daemon=True)
        thread.start()
        servers = self.ask(self._start())
        try:
            yield self
        finally:
            for server in servers:
                self.ask(server.stop(0))
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join(10)


async def _awaited(awaitable: Awaitable[T]) -> T:
    return await awaitable
