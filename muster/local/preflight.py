"""What must hold before any work is done; each failure is one line with its fix.

`python -m muster.local.preflight` looks at what no installation mends. It needs no package: `make up` runs it
before it installs any.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from muster.local import LocalClusterError
from muster.local.builder.cache import cache_root
from muster.local.builder.versions import Package, load
from muster.local.cluster import node

_GIB: Final = 2**30
# What the nodes of a local cluster with a Ray gang write. The build checks its own share.
_CLUSTER_DISK: Final = 3 * _GIB
_MEMORY: Final = 6 * _GIB


def check(*, may_install: bool = True) -> None:
    """Raise `LocalClusterError` for the first thing that prevents a local cluster from starting.
    `may_install`: get the system packages that are missing.
    """
    check_host()
    _packages(may_install=may_install)
    _overlay()


def check_host() -> None:
    """Raise `LocalClusterError` for the first thing that stands in the way and no package mends."""
    require_linux()
    _root()
    _disk()
    _memory()


def check_for_images() -> None:
    """Raise `LocalClusterError` for the first thing that prevents building images alone."""
    require_linux()
    _root()
    _packages()


def require_linux() -> None:
    """Raise `LocalClusterError` on any other system."""
    if sys.platform != "linux":
        raise LocalClusterError(
            "this machine", f"runs {sys.platform}", fix="a local cluster needs Linux; use a virtual machine"
        )


def _root() -> None:
    if os.geteuid() != 0:
        raise LocalClusterError(
            "this user",
            "is not root",
            fix="local clusters and images take namespaces and mounts: run with sudo",
        )


def _disk() -> None:
    root = cache_root()
    root.mkdir(parents=True, exist_ok=True)
    needed = _CLUSTER_DISK
    free = shutil.disk_usage(root).free
    if free < needed:
        raise LocalClusterError(
            str(root),
            f"has {free / _GIB:.1f} GiB free, {needed // _GIB} GiB are needed",
            fix="make room there, or name another place: MUSTER_CACHE=/path",
        )


def _memory() -> None:
    available = next(
        int(line.split()[1]) * 1024
        for line in Path("/proc/meminfo").read_text().splitlines()
        if line.startswith("MemAvailable:")
    )
    if available < _MEMORY:
        raise LocalClusterError(
            "this machine",
            f"has {available / _GIB:.1f} GiB of memory available, {_MEMORY // _GIB} GiB are needed",
            fix="stop something, or use a machine with 8 GiB",
        )


def _packages(*, may_install: bool = True) -> None:
    lacking = missing()
    if lacking and not may_install:
        names = " ".join(package.name for package in lacking)
        raise LocalClusterError(
            "this machine", f"lacks {names}", fix=f"apt-get install {names}, or let `muster local up` do it"
        )
    if lacking:
        install(lacking)


def _overlay() -> None:
    """Container images need overlayfs on the cache's disk; an overlay cannot carry another."""
    with tempfile.TemporaryDirectory(dir=cache_root(), prefix="overlay-") as directory:
        parts = [Path(directory, name) for name in ("lower", "upper", "work", "merged")]
        for part in parts:
            part.mkdir()
        lower, upper, work, merged = parts
        options = f"lowerdir={lower},upperdir={upper},workdir={work}"
        mounted = subprocess.run(
            ["mount", "-t", "overlay", "-o", options, "overlay", str(merged)],
            capture_output=True,
            timeout=30,
            check=False,
        )
        if mounted.returncode != 0:
            raise LocalClusterError(
                str(cache_root()),
                "is on a disk that cannot carry overlay mounts",
                fix="name a place on ext4 or xfs: MUSTER_CACHE=/path",
            )
        subprocess.run(["umount", str(merged)], capture_output=True, timeout=30, check=False)


# Container runtimes and network plugins are the distribution's job: it patches them, and a local cluster must
# use what the machine's kernel was tested with.


def missing() -> list[Package]:
    """The packages whose programs are not on this machine."""
    return [package for package in load().packages.values() if not _present(package)]


def install(packages: list[Package]) -> None:
    """Install with apt-get, without questions and without recommended extras. What would remove another
    package, such as a container runtime of the machine, is refused.
    """
    names = [package.name for package in packages]
    if shutil.which("apt-get") is None or os.environ.get("MUSTER_NO_INSTALL"):
        raise LocalClusterError(
            "this machine",
            f"lacks {', '.join(names)}",
            fix=f"install them: apt-get install {' '.join(names)}",
        )
    print(f"installing {', '.join(names)} (apt-get; MUSTER_NO_INSTALL=1 names them only)", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "-y", "--no-install-recommends", "--no-remove", *names]):
        result = subprocess.run(
            ["apt-get", "-q", "-o", "Acquire::Retries=3", *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        if result.returncode != 0:
            last = (result.stderr.strip().splitlines() or ["no message"])[-1]
            raise LocalClusterError(
                "apt-get", f"failed: {last}", fix=f"install by hand: apt-get install {' '.join(names)}"
            )


def _present(package: Package) -> bool:
    if package.name == "containernetworking-plugins":
        return node.cni_programs() is not None  # distributions differ in where they put them
    if package.command.startswith("/"):
        return Path(package.command).exists()
    return shutil.which(package.command, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") is not None


if __name__ == "__main__":
    try:
        check_host()
    except LocalClusterError as error:
        sys.exit(f"Error: {error}")
