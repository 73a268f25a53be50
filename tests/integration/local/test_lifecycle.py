"""A local cluster starts, is distinguished from a broken one, runs beside another, and leaves nothing."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.local.cluster import control, network
from muster.local.cluster.local_cluster import LocalCluster, existing
from tests.waiting import eventually

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a local cluster needs root")

CHECKOUT = Path(__file__).resolve().parents[3]
BOOT_SECONDS = 300
GPU_NODE: dict[str, Any] = {
    "name": "l4-0",
    "pool": "l4",
    "cpu": "500m",
    "memory": "512Mi",
    "gpus": 1,
    "labels": {"cloud.google.com/gke-nodepool": "l4"},
    "taints": ["nvidia.com/gpu=present:NoSchedule"],
}


def muster_local(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    verb, *options = arguments
    command = [sys.executable, "-m", "muster", "local", verb, "--name", name, *options]
    return subprocess.run(
        command, cwd=CHECKOUT, capture_output=True, text=True, timeout=BOOT_SECONDS, check=False
    )


def traces() -> dict[str, object]:
    """Everything of the host that a local cluster could leave a mark on."""
    return {
        "links": sorted(link["ifname"] for link in json.loads(_output("ip", "-j", "link", "show"))),
        "addresses": network.host_addresses(),
        "routes": sorted(_output("ip", "route", "show").splitlines()),
        "rules": [line for line in _output("iptables-save").splitlines() if line.startswith("-")],
        "mounts": [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()],
        "forwarding": Path("/proc/sys/net/ipv4/ip_forward").read_text(),
        "run": sorted(str(path) for path in Path("/run").iterdir()),
        "lib": sorted(str(path) for path in Path("/var/lib").iterdir()),
    }


def groups_of(containers: list[str]) -> list[Path]:
    """Control groups that still bear the name of one of these containers."""
    groups = Path("/sys/fs/cgroup").glob("**/k8s.io/*")
    return [group for group in groups if group.name in containers]


def containers_of(cluster: LocalCluster) -> list[str]:
    tasks = cluster.run.glob("nodes/*/containerd/io.containerd.runtime.v2.task/k8s.io")
    return [name for directory in tasks for name in control.container_ids(directory)]


def processes_of(cluster: LocalCluster) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(cluster.run) in line or str(cluster.state) in line:
                found.append(line)
    return found


def status(name: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(muster_local(name, "status", "--json").stdout)
    return answer


def healthy(name: str) -> bool:
    return bool(status(name)["state"] == "healthy")


def cluster_of(name: str) -> LocalCluster:
    found = existing(name)
    assert found is not None
    return found[0]


def node_ready(name: str, node: str) -> bool:
    return bool(status(name)["nodes"].get(node) == "Ready")


@pytest.fixture(scope="module")
def before() -> dict[str, object]:
    return traces()


@pytest.fixture(scope="module")
def cluster(before: dict[str, object]) -> Iterator[LocalCluster]:
    assert before
    booted = muster_local("it-one", "up")
    assert booted.returncode == 0, booted.stdout + booted.stderr
    yield cluster_of("it-one")
    muster_local("it-one", "down")


def test_a_local_cluster_that_came_up_is_healthy_and_up_again_is_no_work(cluster: LocalCluster) -> None:
    assert muster_local(cluster.name, "status").returncode == 0
    again = muster_local(cluster.name, "up")
    assert (again.returncode, again.stdout.strip()) == (
        0,
        f"local cluster {cluster.name} is up: {cluster.api_url}",
    )


def test_a_gpu_node_joins_when_bought_and_leaves_when_released(cluster: LocalCluster) -> None:
    control.call(cluster, "node-up", **GPU_NODE)
    eventually("the node is ready", lambda: node_ready(cluster.name, "l4-0"))
    gpus = eventually("the node has GPUs", lambda: _gpus(cluster, "l4-0"))
    assert gpus == "1"
    control.call(cluster, "node-down", name="l4-0")
    assert not cluster.node_run("l4-0").exists()
    assert not cluster.node_state("l4-0").exists()
    assert [line for line in processes_of(cluster) if "l4-0" in line] == []
    kubectl(cluster, "delete", "node", "l4-0")


def test_a_killed_api_server_comes_back_with_everything_in_it(cluster: LocalCluster) -> None:
    kubectl(cluster, "create", "namespace", "kept")
    control.call(cluster, "signal", unit="kube-apiserver", signal=int(signal.SIGKILL))
    eventually("the cluster is healthy", lambda: healthy(cluster.name))
    assert "kept" in kubectl(cluster, "get", "namespaces", "-o", "name")
    assert status(cluster.name)["units"]["kube-apiserver"]["restarts"] >= 1


def test_a_local_cluster_with_a_hung_api_server_is_told_from_a_healthy_one(cluster: LocalCluster) -> None:
    control.call(cluster, "signal", unit="kube-apiserver", signal=int(signal.SIGSTOP))
    try:
        sick = muster_local(cluster.name, "status")
    finally:
        control.call(cluster, "signal", unit="kube-apiserver", signal=int(signal.SIGCONT))
    assert sick.returncode == 1
    assert "the API server is not ready: muster local logs kube-apiserver" in sick.stdout
    eventually("the cluster is healthy", lambda: healthy(cluster.name))


def test_a_second_local_cluster_stands_beside_the_first_and_leaves_alone(cluster: LocalCluster) -> None:
    alone = traces()
    try:
        booted = muster_local("it-two", "up")
        assert booted.returncode == 0, booted.stdout + booted.stderr
        second = cluster_of("it-two")
        assert second.address != cluster.address
        assert healthy(cluster.name)
        assert healthy("it-two")
        kubectl(second, "create", "namespace", "only-there")
        assert "only-there" not in kubectl(cluster, "get", "namespaces", "-o", "name")
    finally:
        muster_local("it-two", "down")
    assert traces() == alone
    assert healthy(cluster.name)


def test_a_local_cluster_whose_processes_are_gone_is_stale_and_up_starts_anew(cluster: LocalCluster) -> None:
    found = existing(cluster.name)
    assert found is not None
    os.kill(found[1].init_pid, signal.SIGKILL)
    stale = eventually("it is stale", lambda: (report := status(cluster.name))["state"] == "stale" and report)
    assert "muster local down, then up" in stale["faults"][0]
    booted = muster_local(cluster.name, "up")
    assert booted.returncode == 0, booted.stdout + booted.stderr


def test_down_leaves_nothing(cluster: LocalCluster, before: dict[str, object]) -> None:
    control.call(cluster, "node-up", **GPU_NODE)
    containers = containers_of(cluster)
    assert groups_of(containers)
    gone = muster_local(cluster.name, "down")
    assert gone.returncode == 0, gone.stderr
    assert processes_of(cluster) == []
    assert groups_of(containers) == []
    assert not cluster.run.exists()
    assert not cluster.state.exists()
    assert traces() == before
    assert muster_local(cluster.name, "status").returncode == 3


def _gpus(cluster: LocalCluster, node: str) -> str:
    return kubectl(cluster, "get", "node", node, "-o", r"jsonpath={.status.allocatable.nvidia\.com/gpu}")


def kubectl(cluster: LocalCluster, *arguments: str) -> str:
    program = json.loads(cluster.artifacts.read_text())["programs"]["kubectl"]
    return _output(program, f"--kubeconfig={cluster.kubeconfig}", *arguments)


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
