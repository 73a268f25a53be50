"""The processes of a local cluster's control plane: which program, which flags, after what.

Computes command lines from a local cluster and its programs, which the supervisor runs. What a process waits
for before it starts is a readiness gate: a port, a file, a ready API server.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING, Final

from muster.local import LocalClusterError
from muster.local.cluster import network_policies as policies
from muster.local.cluster.local_cluster import API_PORT, POD_CIDR, SERVICE_CIDR, LocalCluster
from muster.local.simulated_cloud.names import KWOK_ANNOTATION
from muster.paths import IMPORT_ROOT

if TYPE_CHECKING:  # `muster image` comes by here, without the extra that has cryptography
    from muster.local.cluster.certificates import Pki

ETCD_PORT: Final = 2379
_KWOK_PORT: Final = 10247
# No Service names an address outside of the cluster: the proxies would take it from its owner.
ADMISSION_PLUGINS: Final = "--enable-admission-plugins=NodeRestriction,DenyServiceExternalIPs"


@dataclass(frozen=True, slots=True)
class ReadinessGate:
    """What must answer before a unit may start: a TCP port on loopback, a file, or the API server."""

    port: int | None = None
    file: Path | None = None
    api_ready: bool = False


@dataclass(frozen=True, slots=True)
class Unit:
    """One supervised process; `after` gates its start, a crash restarts it. `is_first`: it computes
    before all else on the machine, because everything waits for it.
    """

    name: str
    argv: tuple[str, ...]
    after: ReadinessGate = ReadinessGate()
    environment: Mapping[str, str] = field(default_factory=dict)
    is_first: bool = False


def control_plane(
    cluster: LocalCluster, pki: Pki, programs: Mapping[str, str], kubeconfigs: Mapping[str, Path]
) -> list[Unit]:
    api = ReadinessGate(api_ready=True)
    return [
        Unit("etcd", _etcd(cluster, programs["etcd"]), is_first=True),
        Unit(
            "kube-apiserver",
            _apiserver(cluster, pki, programs["kube-apiserver"]),
            after=ReadinessGate(port=ETCD_PORT),
            is_first=True,
        ),
        Unit(
            "kube-controller-manager",
            _controller_manager(pki, programs["kube-controller-manager"], kubeconfigs["controller-manager"]),
            after=api,
        ),
        Unit("kube-scheduler", _scheduler(programs["kube-scheduler"], kubeconfigs["scheduler"]), after=api),
        Unit("kube-proxy", _proxy(cluster, programs["kube-proxy"], kubeconfigs["proxy"]), after=api),
    ]


def kwok(kubeconfig: Path, program: str, stages: Path) -> Unit:
    """Fake nodes for scale tests; real nodes carry no such annotation and are left alone."""
    argv = (
        program,
        *kwok_flags(kubeconfig, stages, ALL_STAGES, port=_KWOK_PORT),
        "--disregard-status-with-annotation-selector=kwok.x-k8s.io/status=custom",
    )
    return Unit("kwok", argv, after=ReadinessGate(api_ready=True))


def network_policies(kubeconfig: Path, program: str) -> Unit:
    argv = (
        program,
        f"--kubeconfig={kubeconfig}",
        f"--queue={policies.QUEUE}",
        f"--pods={POD_CIDR}",
    )
    # The file appears when its owner may read: a refused list is tried again only seconds later.
    return Unit(policies.UNIT, argv, after=ReadinessGate(file=kubeconfig, api_ready=True))


def autoscaler(cluster: LocalCluster, kubeconfig: Path, *, clock_scale: float) -> Unit:
    argv = (
        *(sys.executable, "-m", "muster.local.simulated_cloud"),
        f"--kubeconfig={kubeconfig}",
        f"--control={cluster.control_socket}",
        f"--clock-scale={clock_scale:g}",
    )
    return Unit(
        "autoscaler",
        argv,
        after=ReadinessGate(file=kubeconfig, api_ready=True),
        environment={"PYTHONPATH": str(IMPORT_ROOT)},
    )


def _etcd(cluster: LocalCluster, program: str) -> tuple[str, ...]:
    url = f"http://127.0.0.1:{ETCD_PORT}"
    return (
        program,
        f"--data-dir={cluster.state / 'etcd'}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        "--listen-peer-urls=http://127.0.0.1:2380",
        "--unsafe-no-fsync",  # a power cut ends the local cluster anyway; a killed process loses nothing
        "--quota-backend-bytes=4294967296",
        "--auto-compaction-retention=5m",
        "--log-level=warn",
    )


def _apiserver(cluster: LocalCluster, pki: Pki, program: str) -> tuple[str, ...]:
    return (
        program,
        f"--etcd-servers=http://127.0.0.1:{ETCD_PORT}",
        f"--secure-port={API_PORT}",
        "--bind-address=0.0.0.0",
        f"--advertise-address={cluster.address}",
        f"--service-cluster-ip-range={SERVICE_CIDR}",
        f"--tls-cert-file={pki.apiserver.certificate}",
        f"--tls-private-key-file={pki.apiserver.key}",
        f"--client-ca-file={pki.cluster.pair.certificate}",
        f"--kubelet-client-certificate={pki.apiserver_kubelet.certificate}",
        f"--kubelet-client-key={pki.apiserver_kubelet.key}",
        f"--kubelet-certificate-authority={pki.cluster.pair.certificate}",
        "--kubelet-preferred-address-types=InternalIP",
        f"--service-account-key-file={pki.service_accounts.certificate}",
        f"--service-account-signing-key-file={pki.service_accounts.key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--requestheader-client-ca-file={pki.front_proxy.pair.certificate}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-username-headers=X-Remote-User",
        f"--proxy-client-cert-file={pki.front_proxy_client.certificate}",
        f"--proxy-client-key-file={pki.front_proxy_client.key}",
        "--authorization-mode=Node,RBAC",
        ADMISSION_PLUGINS,
        "--allow-privileged=true",
        "--profiling=false",
    )


def _controller_manager(pki: Pki, program: str, kubeconfig: Path) -> tuple[str, ...]:
    return (
        program,
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--service-account-private-key-file={pki.service_accounts.key}",
        f"--root-ca-file={pki.cluster.pair.certificate}",
        f"--cluster-signing-cert-file={pki.cluster.pair.certificate}",
        f"--cluster-signing-key-file={pki.cluster.pair.key}",
        "--use-service-account-credentials=true",
        "--controllers=*",
        f"--cluster-cidr={POD_CIDR}",
        f"--service-cluster-ip-range={SERVICE_CIDR}",
        "--allocate-node-cidrs=false",
        "--leader-elect=false",
        "--node-monitor-grace-period=20s",
    )


def _scheduler(program: str, kubeconfig: Path) -> tuple[str, ...]:
    return (
        program,
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--leader-elect=false",
    )


def _proxy(cluster: LocalCluster, program: str, kubeconfig: Path) -> tuple[str, ...]:
    return (
        program,
        f"--kubeconfig={kubeconfig}",
        "--hostname-override=system-0",
        "--proxy-mode=iptables",
        f"--cluster-cidr={POD_CIDR}",
        f"--bind-address={cluster.address}",
        # All nodes share one namespace, so replies of a pod on the same bridge must come back through here.
        "--masquerade-all",
        "--conntrack-max-per-core=0",
        "--conntrack-tcp-timeout-established=0",
        "--conntrack-tcp-timeout-close-wait=0",
    )


_PAUSE: Final = 0.05
_API_PAUSE: Final = 0.2


class ReadinessGates:
    """The gates of one local cluster, seen from inside its network namespace."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster

    async def passed(self, gate: ReadinessGate) -> None:
        if gate.port is not None:
            while not await _listens(gate.port):
                await asyncio.sleep(_PAUSE)
        if gate.file is not None:
            while not gate.file.exists():
                await asyncio.sleep(_PAUSE)
        if gate.api_ready:
            while not await asyncio.to_thread(api_ready, "127.0.0.1", self._cluster.pki / "ca.crt"):
                await asyncio.sleep(_API_PAUSE)


def await_api(address: str, authority: Path, *, seconds: float, alive: Callable[[], bool]) -> None:
    """Return once the API server at that address is ready; raise when the local cluster dies first."""
    deadline = time.monotonic() + seconds
    while not api_ready(address, authority):
        if not alive():
            raise LocalClusterError(
                "supervisor", "ended before the API server was ready", fix="see the log of supervisor"
            )
        if time.monotonic() > deadline:
            raise LocalClusterError(
                "API server", f"is not ready after {seconds:.0f} s", fix="see the log of kube-apiserver"
            )
        time.sleep(_API_PAUSE)


def api_ready(address: str, authority: Path) -> bool:
    context = ssl.create_default_context(cafile=str(authority))
    connection = HTTPSConnection(address, API_PORT, timeout=2, context=context)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


ALL_STAGES: Final = ("node/fast", "node/heartbeat", "pod/fast")


def kwok_flags(kubeconfig: Path, stages: Path, parts: Iterable[str], *, port: int) -> tuple[str, ...]:
    """For nodes that have the annotation, and no others. `parts`: files or folders of the asset `stages`."""
    return (
        f"--kubeconfig={kubeconfig}",
        *(f"--config={stages / part}" for part in parts),
        "--manage-all-nodes=false",
        f"--manage-nodes-with-annotation-selector={KWOK_ANNOTATION}=fake",
        "--node-ip=10.0.0.1",
        f"--server-address=127.0.0.1:{port}",
        "--enable-crds=",
    )
