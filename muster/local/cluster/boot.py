"""Starts a local cluster: from built programs and images to Ready nodes and cluster DNS.

Every step leaves a state that `down` can clear. A failure or Ctrl-C takes everything down again.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster.local import LocalClusterError, karpenter
from muster.local.builder.cache import cache_root
from muster.local.builder.store import Artifacts
from muster.local.cluster import certificates, control, kai, network, network_policies, node, units
from muster.local.cluster.certificates import Authority
from muster.local.cluster.local_cluster import (
    API_PORT,
    LocalCluster,
    Record,
    all_names,
    existing,
    free_index,
    named,
)
from muster.local.cluster.network import Kubectl
from muster.local.cluster.node import NodeSpec
from muster.local.cluster.supervisor import Settings
from muster.local.cluster.units import ReadinessGate, Unit
from muster.local.kai import PROGRAMS as KAI_PROGRAMS
from muster.local.karpenter import Autoscaler
from muster.local.simulated_cloud import manifests as autoscaler_manifests
from muster.local.simulated_cloud import names as autoscaler_names
from muster.local.simulated_cloud import offering
from muster.model import names
from muster.whole_file import write_whole

Step = Callable[[str], None]

# The nodes that a cluster has before capacity is requested.
STATIC_NODES: Final = (
    NodeSpec(name="system-0", pool="system", cpu="1500m", memory="3Gi"),
    NodeSpec(name="cpu-0", pool="cpu", cpu="2", memory="3Gi"),
)
_USERS: Final = {
    "controller-manager": ("system:kube-controller-manager", ()),
    "scheduler": ("system:kube-scheduler", ()),
    "proxy": ("system:kube-proxy", ("system:node-proxier",)),
    "kwok": ("kwok", ("system:masters",)),
}
_LOOPBACK_API: Final = f"https://127.0.0.1:{API_PORT}"
_KARPENTER_PORT: Final = 10280  # of its metrics; the next one is its health's
_API_PATIENCE: Final = 90
_NODE_PATIENCE: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """Where the GPU nodes come from: what is offered, who buys it, and how fast the cloud's time passes."""

    pools: Path
    autoscaler: Autoscaler
    clock_scale: float

    @property
    def has_karpenter(self) -> bool:
        return self.autoscaler is Autoscaler.KARPENTER


def up(name: str, artifacts: Artifacts, *, step: Step, cloud: Cloud, has_kai: bool = False) -> LocalCluster:
    """Start a local cluster of that name. The caller checks whether it is up already.

    `has_kai`: KAI's programs are processes of the cluster; Kueue comes with the stack, as pods.
    """
    with _allocation_lock():
        cluster = named(name, index=_index())
        _make_directories(cluster)
    try:
        _boot(cluster, artifacts, step=step, cloud=cloud, has_kai=has_kai)
    except BaseException:
        _keep_logs(cluster)
        control.down(cluster, Record.read(cluster.record))
        raise
    return cluster


def _boot(cluster: LocalCluster, artifacts: Artifacts, *, step: Step, cloud: Cloud, has_kai: bool) -> None:
    programs = {program: str(path) for program, path in artifacts.programs.items()}
    artifacts.write(cluster.artifacts)
    step("certificates")
    pki = certificates.create(cluster)
    kubeconfigs = _kubeconfigs(cluster, pki.cluster)
    autoscaler_kubeconfig = cluster.run / "autoscaler.kubeconfig"
    policies_kubeconfig = cluster.run / "network-policies.kubeconfig"
    supervised = [
        *units.control_plane(cluster, pki, programs, kubeconfigs),
        units.network_policies(policies_kubeconfig, programs["kube-network-policies"]),
        units.kwok(kubeconfigs["kwok"], programs["kwok"], artifacts.assets["kwok-stages"]),
        units.autoscaler(cluster, autoscaler_kubeconfig, clock_scale=cloud.clock_scale),
    ]
    if cloud.has_karpenter:
        path = cluster.run / "karpenter.kubeconfig"
        _issue_kubeconfig(path, cluster, pki.cluster, user=karpenter.PROGRAM, groups=("system:masters",))
        supervised.append(_karpenter_unit(cluster, path, artifacts.programs[karpenter.PROGRAM]))
    kai_kubeconfigs = {program: cluster.run / f"{program}.kubeconfig" for program in KAI_PROGRAMS}
    if has_kai:
        operator = cluster.run / "kai-operator.kubeconfig"
        _issue_kubeconfig(operator, cluster, pki.cluster, user="kai-operator", groups=("system:masters",))
        supervised += kai.units(cluster, artifacts, kai_kubeconfigs, operator=operator, authority=pki.cluster)
    record = _start(cluster, supervised, artifacts)
    step("API server")
    units.await_api(
        cluster.address,
        cluster.pki / "ca.crt",
        seconds=_API_PATIENCE,
        alive=lambda: control.is_alive(record),
    )
    kubectl = Kubectl(cluster, programs["kubectl"])
    kubectl.apply(network_policies.objects())
    _issue_kubeconfig(policies_kubeconfig, cluster, pki.cluster, user=network_policies.USER)
    if cloud.has_karpenter:
        kubectl.define(*(artifacts.assets[asset] for asset in karpenter.CRDS))
    kubectl.apply(autoscaler_manifests.manifests(cloud.pools, autoscaler=cloud.autoscaler))
    if cloud.has_karpenter:
        sold = karpenter.instance_types(offering.read(cloud.pools))
        write_whole(_instance_types(cluster), karpenter.catalogue(sold).encode())
    kubectl.apply(network.coredns_objects(artifacts.images["coredns"].reference))
    account = f"{autoscaler_names.NAMESPACE}/{autoscaler_names.SERVICE_ACCOUNT}"
    _issue_token(autoscaler_kubeconfig, kubectl, pki.cluster, account=account)
    if has_kai:
        kai.define(kubectl, artifacts, pki.cluster)
        for program, path in kai_kubeconfigs.items():
            account = f"{names.KAI_NAMESPACE}/{KAI_PROGRAMS[program].account}"
            _issue_token(path, kubectl, pki.cluster, account=account)
    step("nodes")
    _await_nodes(cluster, kubectl)
    step("cluster DNS")
    kubectl.wait(
        "-n", "kube-system", "--for=condition=Available", "deployment/coredns", seconds=_NODE_PATIENCE
    )


def _start(cluster: LocalCluster, supervised: list[Unit], artifacts: Artifacts) -> Record:
    settings = Settings(
        units=tuple(supervised),
        nodes=STATIC_NODES,
        kubelet=str(artifacts.programs["kubelet"]),
        pause_image=artifacts.images["pause"].reference,
        stores=dict(artifacts.stores),
    )
    settings.write(cluster)
    network_policies.load_module()
    argv = [
        sys.executable,
        "-m",
        "muster.local.cluster.supervisor",
        f"--plane={cluster.name}",
        f"--index={cluster.index}",
    ]
    waiter = node.spawn(cluster, argv, log=cluster.logs / "supervisor.log")
    init_pid = _init_of(waiter.pid)
    start_time = control.started(init_pid)
    if start_time is None:
        raise LocalClusterError("supervisor", "ended at once", fix=f"see {cluster.logs / 'supervisor.log'}")
    record = Record(cluster.index, init_pid, start_time, control.boot_id())
    record.write(cluster.record)
    network.plug_in(cluster, init_pid)
    return record


def _init_of(waiter: int) -> int:
    """The child of `unshare`, which is process 1 of the new namespaces."""
    deadline = time.monotonic() + 10
    children = Path(f"/proc/{waiter}/task/{waiter}/children")
    while time.monotonic() < deadline:
        try:
            found = children.read_text().split()
        except OSError:
            break
        if found:
            return int(found[0])
        time.sleep(0.01)
    raise LocalClusterError(
        "unshare", "made no namespaces", fix="the kernel or a sandbox forbids it; see `dmesg`"
    )


def _kubeconfigs(cluster: LocalCluster, authority: Authority) -> dict[str, Path]:
    admin = authority.issue(cluster.pki / "admin", "muster-admin", groups=("system:masters",))
    certificates.kubeconfig(
        cluster.kubeconfig, server=cluster.api_url, authority=authority, client=admin, user="admin"
    )
    paths: dict[str, Path] = {}
    for name, (user, groups) in _USERS.items():
        path = cluster.run / f"{name}.kubeconfig"
        paths[name] = _issue_kubeconfig(path, cluster, authority, user=user, groups=groups)
    return paths


def _issue_kubeconfig(
    path: Path, cluster: LocalCluster, authority: Authority, *, user: str, groups: tuple[str, ...] = ()
) -> Path:
    """A process that waits for this file starts when it appears."""
    pair = authority.issue(cluster.pki / path.stem, user, groups=groups)
    return certificates.kubeconfig(
        path, server=_LOOPBACK_API, authority=authority, client=pair, user=path.stem
    )


def _issue_token(path: Path, kubectl: Kubectl, authority: Authority, *, account: str) -> None:
    """A kubeconfig of `account`, NAMESPACE/NAME of a ServiceAccount. Its process starts when this file
    appears; the token lasts as long as the certificates do.
    """
    namespace, name = account.split("/")
    token = kubectl.run("-n", namespace, "create", "token", name, "--duration=720h").strip()
    certificates.token_kubeconfig(
        path, server=_LOOPBACK_API, authority=authority, user=path.stem, token=token
    )


def _await_nodes(cluster: LocalCluster, kubectl: Kubectl) -> None:
    wanted = [f"node/{spec.name}" for spec in STATIC_NODES]
    deadline = time.monotonic() + _NODE_PATIENCE
    while not set(wanted) <= set(kubectl.run("get", "nodes", "-o", "name").split()):
        failures = control.call(cluster, "status", timeout=10)["failures"]
        if failures:
            raise LocalClusterError("nodes", failures[0], fix="see the log of supervisor")
        if time.monotonic() > deadline:
            raise LocalClusterError("nodes", "did not register", fix="muster local logs kubelet@system-0")
        time.sleep(0.2)
    kubectl.wait("--for=condition=Ready", *wanted, seconds=_NODE_PATIENCE)


def _make_directories(cluster: LocalCluster) -> None:
    if cluster.run.exists() or cluster.state.exists():
        _clear_stale(cluster)
    for directory in (cluster.run, cluster.logs, cluster.state / "etcd", cluster.pulumi_state):
        directory.mkdir(parents=True, mode=0o700)


def _clear_stale(cluster: LocalCluster) -> None:
    """What a reboot or a crash of `up` left of a local cluster of this name; a living one is refused."""
    found = existing(cluster.name)
    if found is not None and control.is_alive(found[1]):
        raise LocalClusterError(f"local cluster {cluster.name}", "is up already", fix="muster local status")
    control.down(cluster, None)


def _index() -> int:
    taken = frozenset(found[0].index for name in all_names() if (found := existing(name)) is not None)
    return free_index(taken, network.host_addresses())


@contextmanager
def _allocation_lock() -> Iterator[None]:
    """Two local clusters that come up at once must not choose the same addresses."""
    cache_root().mkdir(parents=True, exist_ok=True)
    with (cache_root() / "planes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _keep_logs(cluster: LocalCluster) -> None:
    """A local cluster that failed to come up is taken down, but why it failed must stay readable."""
    kept = cache_root() / "failed-plane-logs"
    shutil.rmtree(kept, ignore_errors=True)
    if cluster.logs.is_dir() and os.access(cluster.logs, os.R_OK):
        shutil.copytree(cluster.logs, kept)
        print(f"logs of the failed local cluster: {kept}", file=sys.stderr)


def _karpenter_unit(cluster: LocalCluster, kubeconfig: Path, program: Path) -> Unit:
    """It starts when what is sold is written. Its settings are in the simulated cloud's namespace, because
    that writes the stock.
    """
    types = _instance_types(cluster)
    options = karpenter.flags(
        types_file=str(types), metrics_port=_KARPENTER_PORT, health_port=_KARPENTER_PORT + 1
    )
    return Unit(
        karpenter.PROGRAM,
        (str(program), *options),
        after=ReadinessGate(file=types, api_ready=True),
        environment=karpenter.environment(str(kubeconfig), autoscaler_names.NAMESPACE),
    )


def _instance_types(cluster: LocalCluster) -> Path:
    return cluster.run / "instance-types.json"
