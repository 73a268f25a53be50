"""What the commands of `muster local` share: the local cluster that they work on, and how building shows."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from muster.cli.output import progress
from muster.local.build.children import BuildStoppedError
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


@contextmanager
def building() -> Iterator[None]:
    """Show the progress of the block; after Ctrl-C the message names what is kept."""
    try:
        with progress():
            yield
    except KeyboardInterrupt:
        raise BuildStoppedError from None
