"""Requests from the host to a local cluster's supervisor."""

from __future__ import annotations

import json
import socket
from typing import Any

from muster.local.cluster.local_cluster import LocalCluster
from muster.local.errors import LocalClusterError


def call(cluster: LocalCluster, operation: str, *, timeout: float = 60.0, **arguments: Any) -> dict[str, Any]:
    """One request, one answer; raises `LocalClusterError` when the supervisor refuses or does not answer."""
    request = json.dumps({"op": operation, **arguments}).encode() + b"\n"
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(timeout)
            line.connect(str(cluster.control_socket))
            line.sendall(request)
            with line.makefile("rb") as reader:
                answer: dict[str, Any] = json.loads(reader.readline())
    except (OSError, ValueError) as error:
        raise LocalClusterError(
            f"local cluster {cluster.name}",
            f"does not answer ({error})",
            fix="take it down and up again: muster local down",
        ) from error
    if not answer.get("ok"):
        raise LocalClusterError(
            f"local cluster {cluster.name}", str(answer.get("error")), fix="see: muster local logs supervisor"
        )
    return answer
