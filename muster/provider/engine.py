"""The engine's log: lines that stay, and one status line for each resource, which is replaced."""

import contextlib
import time

import grpc  # type: ignore[import-untyped]  # grpcio ships no types
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc

# The engine redraws its tree for each status; faster changes cannot be read.
_STATUS_EVERY = 0.5


class Engine:
    """The engine's log. It never fails: a lost line is no reason to stop an update."""

    def __init__(self) -> None:
        self._stub: engine_pb2_grpc.EngineStub | None = None
        self._last: dict[str, float] = {}
        self._channel: grpc.aio.Channel | None = None

    def connect(self, address: str) -> None:
        self._channel = grpc.aio.insecure_channel(address)
        self._stub = engine_pb2_grpc.EngineStub(self._channel)

    async def warn(self, urn: str, message: str) -> None:
        await self._log(engine_pb2.WARNING, urn, message)

    async def status(self, urn: str, message: str) -> None:
        """Shown in the resource's own line while it runs, kept nowhere."""
        now = time.monotonic()
        if now - self._last.get(urn, 0.0) >= _STATUS_EVERY:
            self._last[urn] = now
            await self._log(engine_pb2.INFO, urn, message, ephemeral=True)

    async def _log(
        self,
        severity: "engine_pb2.LogSeverity.ValueType",
        urn: str,
        message: str,
        *,
        ephemeral: bool = False,
    ) -> None:
        if self._stub is None:
            return
        request = engine_pb2.LogRequest(severity=severity, urn=urn, message=message, ephemeral=ephemeral)
        with contextlib.suppress(grpc.RpcError):
            await self._stub.Log(request, timeout=5)
