"""Programs of a bare control plane, from the cache or from what MUSTER_ARTIFACTS names, and free ports."""

from __future__ import annotations

import json
import os
import random
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from muster.local import LocalClusterError
from muster.local.builder import everything, versions
from muster.local.builder.cache import cache_root
from muster.local.cluster.kai import Process as Process

CRDS: Final = "kueue-crds"
PROVISIONING_CRD: Final = "provisioningrequest-crd"
_PROGRAMS: Final = ("etcd", "kube-apiserver", "kueue")
_ASSETS: Final = (CRDS, PROVISIONING_CRD)


@contextmanager
def running_process(process: Process) -> Iterator[Process]:
    """The process, which is started and runs until the block ends."""
    process.start()
    try:
        yield process
    finally:
        process.kill()


@dataclass(frozen=True, slots=True)
class Programs:
    """Programs by name, and folders of manifests by asset."""

    programs: dict[str, Path]
    assets: dict[str, Path]

    def program(self, name: str) -> str:
        return str(self.programs[name])

    def kinds(self, asset: str, *, below: str = ".") -> list[dict[str, Any]]:
        """The CustomResourceDefinitions of an asset's folder, in the order of its files."""
        files = sorted((self.assets[asset] / below).glob("*.yaml"))
        texts = (path.read_text(encoding="utf-8") for path in files)
        loaded = (yaml.load(text, Loader=yaml.CSafeLoader) for text in texts)
        return [kind for kind in loaded if kind and kind["kind"] == "CustomResourceDefinition"]


def ensure() -> Programs:
    """Make what is missing, which takes minutes the first time.

    Raises LocalClusterError when that fails.
    """
    made, assets = everything.ensure(programs=_PROGRAMS, assets=_ASSETS)
    return Programs(made, assets)


def found(programs: Sequence[str] = _PROGRAMS, assets: Sequence[str] = _ASSETS) -> Programs | None:
    """What is there already; None when one is missing. Builds nothing."""
    if missing(programs, assets):
        return None
    return Programs(
        {name: path for name in programs if (path := program(name))},
        {name: path for name in assets if (path := _asset(name))},
    )


def missing(programs: Sequence[str] = _PROGRAMS, assets: Sequence[str] = _ASSETS) -> list[str]:
    """Names of what is not built yet."""
    return [
        *(name for name in programs if program(name) is None),
        *(name for name in assets if _asset(name) is None),
    ]


def program(name: str) -> Path | None:
    """One program, of the Kubernetes version that MUSTER_KUBERNETES names; None where it was not built."""
    listed = artifacts().get("programs", {}).get(name)
    if listed:
        return Path(listed)
    known = versions.load().programs.get(name)
    return newest(f"bin/{known.folder if known else name}/*/{name}")


def _asset(name: str) -> Path | None:
    return newest(f"assets/{name}*/*")


def artifacts() -> dict[str, Any]:
    """The content of the file that MUSTER_ARTIFACTS names; empty where none is named."""
    path = os.environ.get("MUSTER_ARTIFACTS")
    return dict(json.loads(Path(path).read_text(encoding="utf-8"))) if path else {}


def newest(pattern: str) -> Path | None:
    """Of what matches in the cache, what was made last."""
    candidates = sorted(cache_root().glob(pattern), key=lambda path: path.stat().st_mtime)
    return candidates[-1] if candidates else None


_LOWEST_PORT: Final = 10_000
_PORTS_TRIED: Final = 100
_CONNECTIONS: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_claims: Final[list[socket.socket]] = []
"""Open for as long as this process lives."""


def free_port() -> int:
    """A port that is free, and that no other caller of this function on this machine gets while this process
    lives: a program takes seconds until it listens, and one that is started again wants its port back. The
    kernel gives it to no outgoing connection, unless this machine lets connections have nearly all ports.
    """
    below = max(_first_of_connections(), _LOWEST_PORT + _PORTS_TRIED)
    for port in random.sample(range(_LOWEST_PORT, below), k=_PORTS_TRIED):
        # In Linux's abstract namespace: there is no file, and the name is free when its process is gone.
        claim = socket.socket(socket.AF_UNIX)
        with suppress(OSError), socket.socket() as probe:
            claim.bind(f"\0muster-port-{port}")
            probe.bind(("127.0.0.1", port))
            _claims.append(claim)
            return port
        claim.close()
    raise LocalClusterError("this machine", "has no free port", fix="end programs that listen on many")


def _first_of_connections() -> int:
    """https://www.kernel.org/doc/html/latest/networking/ip-sysctl.html#ip-variables"""
    return int(_CONNECTIONS.read_text().split()[0])
