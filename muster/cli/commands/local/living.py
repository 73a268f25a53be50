"""The local cluster that a command works on."""

from __future__ import annotations

import json
from pathlib import Path

from muster.local.cluster.local_cluster import LocalCluster, existing
from muster.local.errors import LocalClusterError


def living(name: str) -> LocalCluster:
    """The local cluster of this name; LocalClusterError when it is not up."""
    found = existing(name)
    if found is None:
        option = "" if name == "default" else f" --name {name}"
        raise LocalClusterError(f"local cluster {name}", "is not up", fix=f"muster local up{option}")
    return found[0]


def kubectl(cluster: LocalCluster) -> str | None:
    """The kubectl that the local cluster was built with."""
    try:
        return str(json.loads(cluster.artifacts.read_text())["programs"]["kubectl"])
    except (OSError, KeyError, ValueError):
        return None


def kubeconfig_of(name: str, given: Path | None) -> Path:
    """The given kubeconfig, else that of the local cluster."""
    return given or living(name).kubeconfig
