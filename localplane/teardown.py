"""Ends a plane and removes what outlives its namespaces: control groups and files.

Everything else (processes, mounts, links, firewall rules, containers) is inside
the namespaces, and goes when their first process is killed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Final

from localplane import network
from localplane.errors import PlaneError
from localplane.plane import Plane, Record

_PATIENCE: Final = 20.0
_CGROUPS: Final = Path("/sys/fs/cgroup")


def down(plane: Plane, record: Record | None) -> None:
    containers = _container_ids(plane)
    if record is not None and is_alive(record):
        with contextlib.suppress(ProcessLookupError):
            os.kill(record.init_pid, signal.SIGKILL)
        _await_end(record)
    network.unplug(plane)
    _remove_control_groups(containers)
    shutil.rmtree(plane.state, ignore_errors=True)
    shutil.rmtree(plane.run, ignore_errors=True)
    for directory in (plane.run.parent, plane.state.parent):
        with contextlib.suppress(OSError):
            directory.rmdir()  # only when this was the last plane


def is_alive(record: Record) -> bool:
    """Whether that very process still runs: process ids come again, start times after a boot do not."""
    return record.boot_id == boot_id() and started(record.init_pid) == record.init_started


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def started(pid: int) -> int | None:
    """When a process started, in clock ticks since boot (proc(5), field 22); None when it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def _await_end(record: Record) -> None:
    deadline = time.monotonic() + _PATIENCE
    while is_alive(record):
        if time.monotonic() > deadline:
            raise PlaneError(
                f"process {record.init_pid}", "does not die", fix="a mount may hang: see dmesg, then run down again"
            )
        time.sleep(0.05)


def _container_ids(plane: Plane) -> list[str]:
    return [path.name for path in plane.run.glob("nodes/*/containerd/io.containerd.runtime.v2.task/k8s.io/*")]


def _remove_control_groups(containers: list[str]) -> None:
    """Removes the groups of containers that had no time to be removed by runc; v1 has one tree a controller."""
    roots = [_CGROUPS, *(path for path in _CGROUPS.glob("*") if path.is_dir())]
    deadline = time.monotonic() + _PATIENCE
    for root in roots:
        for container in containers:
            group = root / "k8s.io" / container
            for directory in [*sorted(group.rglob("*/"), reverse=True), group]:
                _remove_group(directory, deadline)
        with contextlib.suppress(OSError):
            (root / "k8s.io").rmdir()


def _remove_group(directory: Path, deadline: float) -> None:
    while directory.is_dir():
        try:
            directory.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                return  # an empty group costs nothing; the next `down` tries again
            time.sleep(0.02)
