"""The name of a local cluster, and its directories and addresses.

Pure: starts and touches nothing. Inside a local cluster every address is the same as in any other, because
each has a network namespace of its own; only the uplink to the host differs.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Final

from muster.errors import ExitCode
from muster.local import LocalClusterError
from muster.local.builder.cache import cache_root
from muster.whole_file import write_whole

CONTEXT: Final = "muster"
SERVICE_CIDR: Final = "10.96.0.0/16"
KUBERNETES_SERVICE: Final = "10.96.0.1"
DNS_SERVICE: Final = "10.96.0.10"
POD_CIDR: Final = "10.244.0.0/16"
API_PORT: Final = 6443
# 198.18.0.0/15 is set aside for benchmarks (RFC 2544): no real network routes it.
UPLINKS: Final = IPv4Network("198.18.0.0/16")
MAX_CLUSTERS: Final = 250

RUN_ROOT: Final = Path("/run/muster")
_NAME: Final = re.compile(r"[a-z]([a-z0-9-]{0,10}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class LocalCluster:
    """One local cluster: `run` holds sockets and credentials (memory), `state` the disks of its nodes."""

    name: str
    index: int
    run: Path
    state: Path

    @property
    def host_address(self) -> str:
        return str(UPLINKS[self.index * 4 + 1])

    @property
    def address(self) -> str:
        """The local cluster's end of the uplink: its API server and all of its nodes answer here."""
        return str(UPLINKS[self.index * 4 + 2])

    @property
    def host_link(self) -> str:
        return f"muster{self.index}"  # an interface name has 15 characters at most

    @property
    def api_url(self) -> str:
        return f"https://{self.address}:{API_PORT}"

    @property
    def control_socket(self) -> Path:
        return self.run / "control.sock"

    @property
    def kubeconfig(self) -> Path:
        return self.run / "kubeconfig"

    @property
    def pki(self) -> Path:
        return self.run / "pki"

    @property
    def logs(self) -> Path:
        return self.state / "logs"

    @property
    def artifacts(self) -> Path:
        return self.state / "artifacts.json"

    @property
    def pulumi_state(self) -> Path:
        return self.state / "pulumi"

    @property
    def record(self) -> Path:
        return self.run / "plane.json"

    def node_run(self, node: str) -> Path:
        return self.run / "nodes" / node

    def node_state(self, node: str) -> Path:
        return self.state / "nodes" / node


@dataclass(frozen=True, slots=True)
class Record:
    """What `up` leaves behind for the other commands: which process is the local cluster's init."""

    index: int
    init_pid: int
    init_started: int
    boot_id: str

    def write(self, path: Path) -> None:
        write_whole(path, json.dumps(asdict(self)).encode())

    @staticmethod
    def read(path: Path) -> Record | None:
        try:
            return Record(**json.loads(path.read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return None


def named(name: str, *, index: int) -> LocalCluster:
    if not _NAME.fullmatch(name):
        raise LocalClusterError(
            f"local cluster name {name!r}",
            "is not a name",
            fix="use 1 to 12 lower-case letters, digits and dashes, such as `default`",
            exit_code=ExitCode.UNUSABLE,
        )
    return LocalCluster(name=name, index=index, run=RUN_ROOT / name, state=cache_root() / "planes" / name)


def existing(name: str) -> tuple[LocalCluster, Record] | None:
    """The local cluster of that name from its record, whether or not it still runs."""
    cluster = named(name, index=0)
    record = Record.read(cluster.record)
    if record is None:
        return None
    return named(name, index=record.index), record


def all_names() -> list[str]:
    if not RUN_ROOT.is_dir():
        return []
    return sorted(entry.name for entry in RUN_ROOT.iterdir() if (entry / "plane.json").exists())


def free_index(taken: frozenset[int], host_addresses: frozenset[str]) -> int:
    """The first uplink that neither a local cluster nor an interface of the host uses."""
    used = {IPv4Address(address) for address in host_addresses}
    for index in range(MAX_CLUSTERS):
        if index not in taken and not used & set(IPv4Network((UPLINKS[index * 4], 30)).hosts()):
            return index
    raise LocalClusterError(
        f"{MAX_CLUSTERS} local clusters",
        "are up on this machine already",
        fix="take one down: muster local down",
    )


def environment(cluster: LocalCluster) -> dict[str, str]:
    """What `pulumi`, `kubectl` and the examples need to work on this local cluster and on no other."""
    artifacts = json.loads(cluster.artifacts.read_text())
    tools, path = artifacts["path"], os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
    return {
        "KUBECONFIG": str(cluster.kubeconfig),
        "MUSTER_ARTIFACTS": str(cluster.artifacts),
        "PULUMI_BACKEND_URL": f"file://{cluster.pulumi_state}",
        "PULUMI_CONFIG_PASSPHRASE": "",  # the state dies with the cluster and holds nothing but its objects
        "PULUMI_HOME": str(cluster.state / "pulumi-home"),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "RAY_IMAGE": artifacts["images"].get("ray", ""),  # what stands in the examples in its place
        "PATH": path if tools in path.split(":") else f"{tools}:{path}",
    }
