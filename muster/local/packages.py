"""The distribution packages that a local cluster needs, and how to get the ones that are missing.

Container runtimes and network plugins are the distribution's job: it patches
them, and a local cluster must use what the machine's kernel was tested with.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from muster.local.build.versions import Package, load
from muster.local.cluster import node
from muster.local.errors import LocalClusterError


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
