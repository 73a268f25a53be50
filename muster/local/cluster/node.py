"""One real node: a containerd and a kubelet of its own, with a declared size.

Pure: computes files and processes from a node's specification. All nodes share the machine and one network
namespace, so each has its own ports, bridge, sockets and directories, and reserves what it does not offer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from muster.local import LocalClusterError
from muster.local.cluster.local_cluster import DNS_SERVICE, LocalCluster
from muster.local.cluster.units import ReadinessGate, Unit
from muster.local.quantities import milli
from muster.paths import IMPORT_ROOT

# The namespaces that a local cluster runs in, and which of the host's files it sees.
# A local cluster is one tree of processes in a network, mount and process namespace of its own. Killing the
# tree's init ends everything: the kernel ends the processes, then removes mounts, links and firewall rules
# with the namespaces. control.py removes what can outlive them: control groups and files.

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


_KUBELET_PORT: Final = 10350
_HEALTH_PORT: Final = 10450
_CNI_PROGRAMS: Final = (Path("/usr/lib/cni"), Path("/opt/cni/bin"), Path("/usr/libexec/cni"))


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A node as the cloud would sell it: `cpu` such as "1" or "500m", `memory` such as "2Gi"."""

    name: str
    pool: str
    cpu: str
    memory: str
    gpus: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[str, ...] = ()

    @staticmethod
    def parse(values: dict[str, Any]) -> NodeSpec:
        try:
            return NodeSpec(
                name=str(values["name"]),
                pool=str(values["pool"]),
                cpu=str(values["cpu"]),
                memory=str(values["memory"]),
                gpus=int(values.get("gpus", 0)),
                labels={str(k): str(v) for k, v in dict(values.get("labels") or {}).items()},
                taints=tuple(str(taint) for taint in values.get("taints") or ()),
            )
        except (KeyError, ValueError, TypeError) as error:
            raise LocalClusterError(
                f"node {values.get('name', '?')}",
                f"is not described whole ({error!r})",
                fix="give name, pool, cpu, memory",
            ) from error


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """Where a node keeps things: `run` in memory, `state` on disk."""

    run: Path
    state: Path

    @property
    def containerd_socket(self) -> Path:
        return self.run / "containerd.sock"

    @property
    def containerd_root(self) -> Path:
        return self.state / "containerd"

    @property
    def kubeconfig(self) -> Path:
        return self.run / "kubeconfig"

    @property
    def tasks(self) -> Path:
        """containerd's directory of running containers; each holds an `init.pid`."""
        return self.run / "containerd" / "io.containerd.runtime.v2.task" / "k8s.io"


def files(cluster: LocalCluster, name: str) -> NodeFiles:
    return NodeFiles(cluster.node_run(name), cluster.node_state(name))


def bridge(number: int) -> str:
    return f"pods{number}"


def write_files(cluster: LocalCluster, spec: NodeSpec, number: int, *, pause_image: str) -> None:
    """Write containerd's, the CNI plugins' and the kubelet's configuration."""
    place = files(cluster, spec.name)
    for directory in (
        place.run / "cni",
        place.state / "kubelet",
        place.containerd_root,
        place.state / "pods",
    ):
        directory.mkdir(parents=True, exist_ok=True)
    (place.run / "containerd.toml").write_text(_containerd(place, pause_image))
    (place.run / "cni" / "10-bridge.conflist").write_text(json.dumps(_cni(place, number), indent=1))
    (place.run / "resolv.conf").write_text("")  # pods resolve through CoreDNS, which forwards nowhere
    (place.run / "kubelet.json").write_text(json.dumps(_kubelet(cluster, spec, number), indent=1))


def units(cluster: LocalCluster, spec: NodeSpec, kubelet: str) -> list[Unit]:
    place = files(cluster, spec.name)
    labels = {"muster.dev/pool": spec.pool, **spec.labels}
    argv = [
        kubelet,
        f"--config={place.run / 'kubelet.json'}",
        f"--kubeconfig={place.kubeconfig}",
        f"--hostname-override={spec.name}",
        f"--node-ip={cluster.address}",
        f"--root-dir={place.state / 'kubelet'}",
        f"--cert-dir={place.run / 'kubelet-pki'}",
        "--node-labels=" + ",".join(f"{key}={value}" for key, value in sorted(labels.items())),
    ]
    if spec.taints:
        argv.append("--register-with-taints=" + ",".join(spec.taints))
    return [
        Unit(f"containerd@{spec.name}", ("containerd", f"--config={place.run / 'containerd.toml'}")),
        Unit(
            f"kubelet@{spec.name}",
            tuple(argv),
            after=ReadinessGate(file=place.containerd_socket, api_ready=True),
        ),
    ]


def cni_programs() -> Path | None:
    """Where the distribution keeps the CNI plugins; None where it has none."""
    return next((path for path in _CNI_PROGRAMS if (path / "bridge").exists()), None)


def parse_bytes(quantity: str) -> int:
    return milli(quantity) // 1000


def _kubelet(cluster: LocalCluster, spec: NodeSpec, number: int) -> dict[str, Any]:
    place = files(cluster, spec.name)
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{place.containerd_socket}",
        "address": cluster.address,
        "port": _KUBELET_PORT + number,
        "healthzPort": _HEALTH_PORT + number,
        "readOnlyPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(cluster.pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(place.run / "kubelet.crt"),
        "tlsPrivateKeyFile": str(place.run / "kubelet.key"),
        "clusterDNS": [DNS_SERVICE],
        "clusterDomain": "cluster.local",
        "resolvConf": str(place.run / "resolv.conf"),
        "podLogsDir": str(place.state / "pods"),
        "volumePluginDir": str(place.state / "volume-plugins"),
        # The machine may have control groups v1 or v2, with or without systemd: no hierarchy per QoS class.
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "localStorageCapacityIsolation": False,
        "failSwapOn": False,
        # The disk belongs to the host: the local cluster neither evicts for it nor collects images.
        "evictionHard": {"memory.available": "50Mi"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "systemReserved": _reserved(spec),
        "maxPods": 50,
        "nodeStatusUpdateFrequency": "4s",
        "nodeStatusReportFrequency": "30s",
        "registerNode": True,
        "serializeImagePulls": False,
        "syncFrequency": "3s",
        # Leaders exit when the API server is away. Five minutes of back-off for each would be what a user
        # sees after the machine slept or the API server was killed, and this API server needs no protection.
        "featureGates": {"KubeletCrashLoopBackOffMax": True},
        "crashLoopBackOff": {"maxContainerRestartPeriod": "15s"},
        "shutdownGracePeriod": "0s",
    }


def _reserved(spec: NodeSpec) -> dict[str, str]:
    """The machine minus what the node claims, so that its allocatable is its claim."""
    machine_cpu = (os.cpu_count() or 1) * 1000
    machine_memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    spare_cpu = machine_cpu - milli(spec.cpu)
    spare_memory = (
        machine_memory - parse_bytes(spec.memory) - parse_bytes("50Mi")
    )  # evictionHard is taken off too
    if spare_cpu < 0 or spare_memory < 0:
        raise LocalClusterError(
            f"node {spec.name}",
            f"claims {spec.cpu} CPU and {spec.memory}, more than this machine has",
            fix="use a machine with 2 cores and 8 GiB at least, or smaller nodes in pools.yaml",
        )
    return {"cpu": f"{spare_cpu}m", "memory": str(spare_memory)}


def _containerd(place: NodeFiles, pause_image: str) -> str:
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    return f"""\
version = 2
root = "{place.containerd_root}"
state = "{place.run / "containerd"}"
disabled_plugins = [
  "io.containerd.internal.v1.opt",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.devmapper",
]

[grpc]
  address = "{place.containerd_socket}"

[{cri}]
  sandbox_image = "{pause_image}"
  restrict_oom_score_adj = true  # machines without CAP_SYS_RESOURCE start no pod otherwise
  disable_apparmor = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"

  [{cri}.containerd]
    snapshotter = "overlayfs"

    [{cri}.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

      [{cri}.containerd.runtimes.runc.options]
        SystemdCgroup = false

  [{cri}.cni]
    bin_dir = "{cni_programs()}"
    conf_dir = "{place.run / "cni"}"
    max_conf_num = 1
"""


def _cni(place: NodeFiles, number: int) -> dict[str, Any]:
    return {
        "cniVersion": "1.0.0",
        "name": f"muster-{number}",
        "plugins": [
            {
                "type": "bridge",
                "bridge": bridge(number),
                "isGateway": True,
                "ipMasq": False,
                "hairpinMode": True,  # a pod reaches itself through its Service
                "ipam": {
                    "type": "host-local",
                    "dataDir": str(place.run / "addresses"),
                    "ranges": [[{"subnet": f"10.244.{number}.0/24"}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }
