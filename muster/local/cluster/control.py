"""Requests from the host to a local cluster's supervisor."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from muster.local.cluster.local_cluster import LocalCluster
from muster.local.errors import LocalClusterError

# The control groups of a local cluster's containers, which outlive its namespaces.
# runc removes a container's group when the container is deleted in good order; after a kill we remove it.
# Only groups named after our own containers are touched.

_MOUNT: Final = Path("/sys/fs/cgroup")
_PARENT: Final = "k8s.io"  # containerd's default parent, by its namespace
_PATIENCE: Final = 10.0  # the kernel empties a killed container's group a moment later


def containers(tasks: Path) -> list[str]:
    """The ids of the containers of one containerd, by its directory of running tasks."""
    return [path.name for path in tasks.glob("*") if path.is_dir()]


def remove(ids: Iterable[str]) -> None:
    """Remove the containers' groups from every hierarchy: one for v2, one for each controller of v1."""
    names = list(ids)
    deadline = time.monotonic() + _PATIENCE
    for root in [_MOUNT, *(path for path in _MOUNT.glob("*") if path.is_dir())]:
        for name in names:
            group = root / _PARENT / name
            for directory in [*sorted(group.rglob("*/"), reverse=True), group]:
                _remove_group(directory, deadline)
        with contextlib.suppress(OSError):
            (root / _PARENT).rmdir()


def _remove_group(directory: Path, deadline: float) -> None:
    while directory.is_dir():
        try:
            directory.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                return  # an empty group costs nothing
            time.sleep(0.02)


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
