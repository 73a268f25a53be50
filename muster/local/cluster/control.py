"""The host's line to a plane's supervisor."""

from __future__ import annotations

import json
import socket
from typing import Any

from muster.local.cluster.plane import Plane
from muster.local.errors import PlaneError


def call(plane: Plane, operation: str, *, timeout: float = 60.0, **arguments: Any) -> dict[str, Any]:
    """One request, one answer; raises `PlaneError` when the supervisor refuses or does not answer."""
    request = json.dumps({"op": operation, **arguments}).encode() + b"\n"
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(timeout)
            line.connect(str(plane.control_socket))
            line.sendall(request)
            with line.makefile("rb") as reader:
                answer: dict[str, Any] = json.loads(reader.readline())
    except (OSError, ValueError) as error:
        raise PlaneError(
            f"plane {plane.name}",
            f"does not answer ({error})",
            fix="take it down and up again: muster local down",
        ) from error
    if not answer.get("ok"):
        raise PlaneError(
            f"plane {plane.name}", str(answer.get("error")), fix="see: muster local logs supervisor"
        )
    return answer
