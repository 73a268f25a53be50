"""A local cluster seen from the host: requests to its supervisor, its health, and its end.

The fixes in a report are commands for the user. Processes, mounts, links, firewall rules and containers are
inside the namespaces and end with their first process; control groups and files outlive it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from muster.local import LocalClusterError
from muster.local.cluster import network, network_policies, units
from muster.local.cluster.local_cluster import LocalCluster, Record, existing
from muster.local.cluster.network import Kubectl
from muster.local.cluster.share import CONTAINERS, MOUNT

# The control groups of a local cluster's containers, which outlive its namespaces.
# runc removes a container's group when the container is deleted in good order; after a kill we remove it.
# Only groups named after our own containers are touched.

_PATIENCE: Final = 10.0  # the kernel empties a killed container's group a moment later


def container_ids(tasks: Path) -> list[str]:
    """The ids of the containers of one containerd, by its directory of running tasks."""
    return [path.name for path in tasks.glob("*") if path.is_dir()]


def remove_control_groups(ids: Iterable[str]) -> None:
    """Remove the containers' groups from every hierarchy: one for v2, one for each controller of v1."""
    names = list(ids)
    deadline = time.monotonic() + _PATIENCE
    for root in [MOUNT, *(path for path in MOUNT.glob("*") if path.is_dir())]:
        for name in names:
            group = root / CONTAINERS / name
            for directory in [*sorted(group.rglob("*/"), reverse=True), group]:
                _remove_group(directory, deadline)
        with contextlib.suppress(OSError):
            (root / CONTAINERS).rmdir()


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


_END_PATIENCE: Final = 20.0


def down(cluster: LocalCluster, record: Record | None) -> None:
    tasks = cluster.run.glob("nodes/*/containerd/io.containerd.runtime.v2.task/k8s.io")
    containers = [each for directory in tasks for each in container_ids(directory)]
    if record is not None and is_alive(record):
        with contextlib.suppress(ProcessLookupError):
            os.kill(record.init_pid, signal.SIGKILL)
        _await_end(record)
    network.unplug(cluster)
    remove_control_groups(containers)
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
    deadline = time.monotonic() + _END_PATIENCE
    while is_alive(record):
        if time.monotonic() > deadline:
            raise LocalClusterError(
                f"process {record.init_pid}",
                "does not die",
                fix="a mount may hang: see dmesg, then run down again",
            )
        time.sleep(0.05)


class State(StrEnum):
    HEALTHY = "healthy"
    DEGRADED = "degraded"
    STALE = "stale"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Report:
    """`faults` holds one line for each fault, with its fix; empty when the local cluster is healthy.

    `notes` holds what works less well on this machine and is no fault of the cluster.
    `programs` maps each program to its origin: `how`, `version`, `sha256`, and for a download `checked`.
    """

    name: str
    state: State
    api: str | None = None
    units: dict[str, Any] = field(default_factory=dict)
    nodes: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    programs: dict[str, dict[str, str]] = field(default_factory=dict)


def examine(name: str, kubectl: str | None) -> Report:
    found = existing(name)
    if found is None:
        return Report(name, State.ABSENT, faults=["there is no local cluster of this name: muster local up"])
    cluster, record = found
    if not is_alive(record):
        fault = "its processes are gone (killed, or a restart): muster local down, then up"
        return Report(name, State.STALE, faults=[fault])
    try:
        status = call(cluster, "status", timeout=5)
    except LocalClusterError as error:
        return Report(name, State.DEGRADED, api=cluster.api_url, faults=[str(error)])
    units = status["units"]
    faults = [f"a node failed: {failure}" for failure in status["failures"]]
    faults += [
        f"{unit} does not run (last exit {state['lastExit']}): muster local logs {unit}"
        for unit, state in sorted(units.items())
        if state["pid"] is None
    ]
    nodes = _nodes(cluster, kubectl, faults)
    state = State.DEGRADED if faults else State.HEALTHY
    return Report(
        name, state, cluster.api_url, units, nodes, faults, notes=notes_of(status), programs=origins(cluster)
    )


def notes(cluster: LocalCluster) -> list[str]:
    """What works less well on this machine than elsewhere, of a cluster that runs."""
    return notes_of(call(cluster, "status", timeout=10))


def notes_of(status: Mapping[str, Any]) -> list[str]:
    """The same, from the supervisor's answer."""
    # The supervisor of an older Muster enforces nothing and has no such entry.
    found = status.get("networkPolicies", {"enforced": False, "why": "an older Muster started this cluster"})
    return [] if found["enforced"] else [network_policies.notice(found["why"])]


def origins(cluster: LocalCluster) -> dict[str, dict[str, str]]:
    """Where each program came from, as `up` recorded it. A local cluster of an older Muster has no record."""
    try:
        found: dict[str, dict[str, str]] = json.loads(cluster.artifacts.read_text())["origins"]
    except (OSError, KeyError, ValueError):
        return {}
    return found


def _nodes(cluster: LocalCluster, kubectl: str | None, faults: list[str]) -> dict[str, str]:
    if not units.api_ready(cluster.address, cluster.pki / "ca.crt"):
        faults.append("the API server is not ready: muster local logs kube-apiserver")
        return {}
    if kubectl is None:
        return {}
    try:
        listed = Kubectl(cluster, kubectl).get("nodes")["items"]
    except LocalClusterError as error:
        faults.append(str(error))
        return {}
    nodes = {node["metadata"]["name"]: _readiness(node) for node in listed}
    faults.extend(
        f"node {name} is {state}: muster local logs kubelet@{name}"
        for name, state in nodes.items()
        if state != "Ready"
    )
    return nodes


def _readiness(node: dict[str, Any]) -> str:
    conditions = node.get("status", {}).get("conditions", [])
    ready = next((c["status"] for c in conditions if c["type"] == "Ready"), "Unknown")
    return "Ready" if ready == "True" else "NotReady"
