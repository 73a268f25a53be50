"""The engine: its log, and its messages as plain Python values."""

import contextlib
import time
from collections.abc import Iterable, Mapping
from typing import Any

import grpc  # type: ignore[import-untyped]  # grpcio ships no types
from google.protobuf import struct_pb2  # type: ignore[import-untyped]  # protobuf ships no types
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc, provider_pb2, status_pb2

# The engine's log: lines that stay, and one status line for each resource, which is replaced.

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


# Between the engine's messages and plain Python values, unknown and secret ones included.

# Fixed by the engine's protocol (sdk/go/common/resource/plugin/rpc.go): what a computed string looks like
# in a preview, and the key that marks a wrapped value with its kind.
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
_WRAPPED = "4dabf18193072939515e22adb298388d"


def from_struct(struct: Any) -> dict[str, Any]:
    return {name: _value(value) for name, value in struct.fields.items()}


def to_struct(values: Mapping[str, Any]) -> Any:
    struct = struct_pb2.Struct()
    struct.update(values)
    return struct


def is_known(value: Any) -> bool:
    return bool(value != UNKNOWN)


def init_failure(
    *, id_: str, properties: Mapping[str, Any], inputs: Mapping[str, Any], reasons: Iterable[str]
) -> bytes:
    """gRPC status details for a resource that exists and was not completed."""
    detail = provider_pb2.ErrorResourceInitFailed(
        id=id_, properties=to_struct(properties), inputs=to_struct(inputs), reasons=list(reasons)
    )
    status = status_pb2.Status(code=2, message="the bundle is applied in part")
    status.details.add().Pack(detail)
    return bytes(status.SerializeToString())


def _value(value: Any) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        inner = from_struct(value.struct_value)
        # The engine unwraps secrets for a provider that does not accept them; this is for wrapped values in
        # old states.
        return inner["value"] if _WRAPPED in inner and "value" in inner else inner
    if kind == "list_value":
        return [_value(each) for each in value.list_value.values]
    if kind is None or kind == "null_value":
        return None
    return getattr(value, kind)
