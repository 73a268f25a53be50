"""The namespaces that a local cluster runs in, and which of the host's files it sees.

A local cluster is one tree of processes in a network, mount and process namespace of its own. Killing the
tree's init ends everything: the kernel ends the processes, then removes mounts, links and firewall rules
with the namespaces. teardown.py removes what can outlive them: control groups and files.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from muster.local.cluster.local_cluster import LocalCluster
from muster.paths import IMPORT_ROOT

# Host directories that container runtimes write to by habit: a local cluster gets empty ones of its own.
_PRIVATE: Final = (Path("/run"), Path("/var/lib"), Path("/var/log"))
# /mnt exists on every Linux (FHS 3.0) and is empty by definition: the place to park mounts for a moment.
_PARKING: Final = Path("/mnt")


def spawn(cluster: LocalCluster, argv: list[str], *, log: Path) -> subprocess.Popen[bytes]:
    """Start `argv` as process 1 of new namespaces; returns the process that waits for it."""
    command = [
        "unshare",
        "--net",
        "--mount",
        "--pid",
        "--fork",
        "--mount-proc",
        "--propagation",
        "private",
        "--",
    ]
    with log.open("ab") as output:
        return subprocess.Popen(
            [*command, *argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd="/",
            env={**os.environ, "PYTHONPATH": str(IMPORT_ROOT)},
        )


def hide_host_state(cluster: LocalCluster, kept: tuple[Path, ...]) -> None:
    """Inside the mount namespace: covers the host's state directories, keeps what the local cluster needs."""
    _mount("-t", "tmpfs", "muster", str(_PARKING))
    parked: list[tuple[Path, Path]] = []
    for number, path in enumerate(dict.fromkeys((cluster.run, *kept))):
        if any(path.is_relative_to(private) for private in _PRIVATE):
            spot = _PARKING / str(number)
            spot.mkdir()
            _mount("--bind", str(path), str(spot))
            parked.append((spot, path))
    for private in _PRIVATE:
        _mount("-t", "tmpfs", "-o", "mode=0755", "muster", str(private))
    for spot, path in parked:
        path.mkdir(parents=True)
        _mount("--move", str(spot), str(path))
    # containerd shares mounts with its shims, kubelet with its containers.
    _mount("--make-rshared", "/")


def host_python_paths() -> tuple[Path, ...]:
    """What the local cluster's own Python programs are loaded from."""
    prefixes = (sys.prefix, sys.base_prefix, str(IMPORT_ROOT))
    return tuple(Path(prefix).resolve() for prefix in prefixes)


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True, timeout=30)
