"""A node claims what it says, and shares nothing with its neighbours that must be its own."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.local import LocalClusterError
from muster.local.cluster import node
from muster.local.cluster.local_cluster import LocalCluster
from muster.local.cluster.node import NodeSpec, parse_bytes
from muster.local.quantities import milli

MACHINE_MILLICORES = (os.cpu_count() or 1) * 1000


def cluster_in(directory: Path) -> LocalCluster:
    return LocalCluster(name="t", index=0, run=directory / "run", state=directory / "state")


def kubelet_configuration(directory: Path, spec: NodeSpec, number: int) -> dict[str, object]:
    cluster = cluster_in(directory)
    node.write_files(cluster, spec, number, pause_image="muster.local/pause@sha256:0")
    content: dict[str, object] = json.loads((cluster.node_run(spec.name) / "kubelet.json").read_text())
    return content


@pytest.mark.parametrize("cpu", ["100m", "1", "0.5"])
def test_what_a_node_does_not_claim_is_reserved(tmp_path: Path, cpu: str) -> None:
    spec = NodeSpec(name="n", pool="p", cpu=cpu, memory="64Mi")
    reserved = kubelet_configuration(tmp_path, spec, 0)["systemReserved"]
    assert isinstance(reserved, dict)
    assert milli(reserved["cpu"]) + milli(cpu) == MACHINE_MILLICORES


def test_a_node_larger_than_the_machine_is_refused_before_it_starts(tmp_path: Path) -> None:
    spec = NodeSpec(name="giant", pool="p", cpu="100000", memory="1Gi")
    with pytest.raises(
        LocalClusterError, match=r"node giant: claims 100000 CPU .* smaller nodes in pools\.yaml"
    ):
        kubelet_configuration(tmp_path, spec, 0)


def test_neighbours_share_no_port_socket_or_subnet(tmp_path: Path) -> None:
    first = kubelet_configuration(tmp_path, NodeSpec(name="a", pool="p", cpu="1", memory="64Mi"), 0)
    second = kubelet_configuration(tmp_path, NodeSpec(name="b", pool="p", cpu="1", memory="64Mi"), 1)
    own = ("port", "healthzPort", "containerRuntimeEndpoint", "podLogsDir", "volumePluginDir", "tlsCertFile")
    assert all(first[key] != second[key] for key in own)
    networks = [
        (tmp_path / "run" / "nodes" / name / "cni" / "10-bridge.conflist").read_text() for name in "ab"
    ]
    subnets = [json.loads(text)["plugins"][0]["ipam"]["ranges"][0][0]["subnet"] for text in networks]
    assert subnets == ["10.244.0.0/24", "10.244.1.0/24"]


def test_a_pools_label_and_taints_are_given_at_registration(tmp_path: Path) -> None:
    spec = NodeSpec("l4-0", "l4", "1", "1Gi", gpus=1, taints=("nvidia.com/gpu=present:NoSchedule",))
    _, kubelet = node.units(cluster_in(tmp_path), spec, "/bin/kubelet")
    assert "--node-labels=muster.dev/pool=l4" in kubelet.argv
    assert "--register-with-taints=nvidia.com/gpu=present:NoSchedule" in kubelet.argv


def test_a_description_with_holes_names_what_is_missing() -> None:
    with pytest.raises(
        LocalClusterError, match=r"node l4-0: is not described whole .*memory.*; give name, pool, cpu, memory"
    ):
        NodeSpec.parse({"name": "l4-0", "pool": "l4", "cpu": "1"})


@given(st.integers(min_value=1, max_value=10**6))
def test_quantities_mean_what_kubernetes_means(amount: int) -> None:
    assert parse_bytes(f"{amount}Ki") == amount * 1024
    assert parse_bytes(f"{amount}Gi") == amount * 1024**3
    assert parse_bytes(str(amount)) == amount
    assert milli(f"{amount}m") == amount
    assert milli(str(amount)) == amount * 1000
