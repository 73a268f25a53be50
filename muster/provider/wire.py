"""Between the engine's messages and plain Python values, unknown and secret ones included."""

from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf import struct_pb2  # type: ignore[import-untyped]  # protobuf ships no types
from pulumi.runtime.proto import provider_pb2, status_pb2

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


def known(value: Any) -> bool:
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
