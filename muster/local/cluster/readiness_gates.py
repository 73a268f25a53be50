"""What a process waits for before it starts: a port, a file, a ready API server."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Final

from muster.local.cluster.local_cluster import API_PORT, LocalCluster
from muster.local.cluster.units import ReadinessGate
from muster.local.errors import LocalClusterError

_PAUSE: Final = 0.05
_API_PAUSE: Final = 0.2


class ReadinessGates:
    """The gates of one local cluster, seen from inside its network namespace."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster

    async def passed(self, gate: ReadinessGate) -> None:
        if gate.port is not None:
            while not await _listens(gate.port):
                await asyncio.sleep(_PAUSE)
        if gate.file is not None:
            while not gate.file.exists():
                await asyncio.sleep(_PAUSE)
        if gate.api_ready:
            while not await asyncio.to_thread(api_ready, "127.0.0.1", self._cluster.pki / "ca.crt"):
                await asyncio.sleep(_API_PAUSE)


def await_api(address: str, authority: Path, *, seconds: float, alive: Callable[[], bool]) -> None:
    """Return once the API server at that address is ready; raise when the local cluster dies first."""
    deadline = time.monotonic() + seconds
    while not api_ready(address, authority):
        if not alive():
            raise LocalClusterError(
                "supervisor", "ended before the API server was ready", fix="see the log of supervisor"
            )
        if time.monotonic() > deadline:
            raise LocalClusterError(
                "API server", f"is not ready after {seconds:.0f} s", fix="see the log of kube-apiserver"
            )
        time.sleep(_API_PAUSE)


def api_ready(address: str, authority: Path) -> bool:
    context = ssl.create_default_context(cafile=str(authority))
    connection = HTTPSConnection(address, API_PORT, timeout=2, context=context)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
