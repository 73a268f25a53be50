"""A stand-in for the kubelet's device manager: it registers one device plugin and asks it as a kubelet does.

The calls are those of the device plugin API v1beta1:
https://github.com/kubernetes/kubelet/blob/v0.34.4/pkg/apis/deviceplugin/v1beta1/api.proto. Its few messages
are read and written field by field, because no Python package has their classes.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any, Final

import grpc  # type: ignore[import-untyped]  # grpcio ships no types
from google.protobuf.empty_pb2 import Empty  # type: ignore[import-untyped]  # nor does protobuf
from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-untyped]

# Where a plugin makes its own socket; no flag changes it.
FOLDER: Final = Path("/var/lib/kubelet/device-plugins")
SOCKET: Final = FOLDER / "kubelet.sock"
_SECONDS: Final = 60.0
_LENGTH_DELIMITED: Final = 2


class DevicePlugin:
    """A plugin that has registered. `resource`: the name that it advertises."""

    def __init__(self, resource: str, channel: Any) -> None:
        self.resource = resource
        self._channel = channel

    def devices(self) -> list[str]:
        """The IDs of the devices that it lists first."""
        listed = self._channel.unary_stream("/v1beta1.DevicePlugin/ListAndWatch")(b"", timeout=_SECONDS)
        return [dict(_fields(device))[1].decode() for number, device in _fields(next(listed)) if number == 1]

    def allocate(self, device: str) -> dict[str, str]:
        """The environment of a container that gets the device."""
        request = _field(1, _field(1, device.encode()))
        answer = self._channel.unary_unary("/v1beta1.DevicePlugin/Allocate")(request, timeout=_SECONDS)
        found = {}
        for _, container in _fields(answer):
            for number, entry in _fields(container):
                if number == 1:
                    pair = dict(_fields(entry))
                    found[pair[1].decode()] = pair[2].decode()
        return found


@contextmanager
def registered() -> Iterator[Queue[DevicePlugin]]:
    """Each plugin that registers at the kubelet's socket, for as long as the context lasts."""
    found: Queue[DevicePlugin] = Queue()
    channels = []

    def register(request: bytes, _context: object) -> bytes:
        said = dict(_fields(request))
        channel = grpc.insecure_channel(f"unix:{FOLDER / said[2].decode()}")
        channels.append(channel)
        found.put(DevicePlugin(said[3].decode(), channel))
        return b""

    FOLDER.mkdir(parents=True, exist_ok=True)
    SOCKET.unlink(missing_ok=True)
    server = grpc.server(ThreadPoolExecutor(max_workers=2))
    method = grpc.unary_unary_rpc_method_handler(register)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("v1beta1.Registration", {"Register": method}),)
    )
    server.add_insecure_port(f"unix:{SOCKET}")
    server.start()
    try:
        yield found
    finally:
        for channel in channels:
            channel.close()
        server.stop(grace=None).wait()


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and content of each field that has a length; others are numbers, which nothing here needs."""
    for field in UnknownFieldSet(Empty.FromString(message)):
        if field.wire_type == _LENGTH_DELIMITED:
            yield field.field_number, field.data


def _field(number: int, content: bytes) -> bytes:
    """One field of fewer than 128 bytes."""
    assert len(content) < 128
    return bytes((number << 3 | _LENGTH_DELIMITED, len(content))) + content
