"""The state of a local cluster: healthy, degraded, stale or absent, and how to repair it.

Reads only: each fix is a command for the user.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from muster.local.cluster import control, network_policies, readiness_gates, teardown
from muster.local.cluster.local_cluster import LocalCluster, existing
from muster.local.cluster.network import Kubectl
from muster.local.errors import LocalClusterError


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
    if not teardown.is_alive(record):
        fault = "its processes are gone (killed, or a restart): muster local down, then up"
        return Report(name, State.STALE, faults=[fault])
    try:
        status = control.call(cluster, "status", timeout=5)
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
    return notes_of(control.call(cluster, "status", timeout=10))


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
    if not readiness_gates.api_ready(cluster.address, cluster.pki / "ca.crt"):
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
