"""Ends a local cluster and removes what outlives its namespaces: control groups and files.

Processes, mounts, links, firewall rules and containers are inside the namespaces, and end with their first
process.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Final

from muster.local.cluster import control, network
from muster.local.cluster.local_cluster import LocalCluster, Record
from muster.local.errors import LocalClusterError

_PATIENCE: Final = 20.0


def down(cluster: LocalCluster, record: Record | None) -> None:
    tasks = cluster.run.glob("nodes/*/containerd/io.containerd.runtime.v2.task/k8s.io")
    containers = [container for directory in tasks for container in control.containers(directory)]
    if record is not None and is_alive(record):
        with contextlib.suppress(ProcessLookupError):
            os.kill(record.init_pid, signal.SIGKILL)
        _await_end(record)
    network.unplug(cluster)
    control.remove(containers)
    shutil.rmtree(cluster.state, ignore_errors=True)
    shutil.rmtree(cluster.run, ignore_errors=True)
    for directory in (cluster.run.parent, cluster.state.parent):
        with contextlib.suppress(OSError):
            directory.rmdir()  # only when this was the last local cluster


def is_alive(record: Record) -> bool:
    """Whether that very process still runs: process ids come again, start times after a boot do not."""
    return record.boot_id == boot_id() and started(record.init_pid) == record.init_started


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def started(pid: int) -> int | None:
    """A process's start in clock ticks since boot (proc(5), field 22); None when gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def _await_end(record: Record) -> None:
    deadline = time.monotonic() + _PATIENCE
    while is_alive(record):
        if time.monotonic() > deadline:
            raise LocalClusterError(
                f"process {record.init_pid}",
                "does not die",
                fix="a mount may hang: see dmesg, then run down again",
            )
        time.sleep(0.05)
