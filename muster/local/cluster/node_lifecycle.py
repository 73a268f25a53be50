"""Adds and removes nodes: disk, certificates, GPUs, and what a removed node leaves behind.

`remove` is a power cut: nothing is drained, as nothing is when a cloud takes a machine back. Draining is
the autoscaler's responsibility.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import signal
import ssl
import subprocess
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Final

from muster.local.build import store
from muster.local.build.everything import RAY_STORE, SYSTEM_STORE
from muster.local.cluster import certificates, control, network, node
from muster.local.cluster.local_cluster import API_PORT, LocalCluster
from muster.local.cluster.node import NodeSpec
from muster.local.cluster.settings import Settings
from muster.local.cluster.units import Unit

log = logging.getLogger("nodes")

_PAUSE: Final = 0.3


def prepare(cluster: LocalCluster, settings: Settings, spec: NodeSpec, number: int) -> None:
    """Give the node its identity, its configuration and a disk with the images on it."""
    place = node.files(cluster, spec.name)
    node.write_files(cluster, spec, number, pause_image=settings.pause_image)
    authority = certificates.load_authority(cluster.pki, "ca")
    pair = authority.issue(
        place.run / "kubelet",
        f"system:node:{spec.name}",
        groups=("system:nodes",),
        hosts=(spec.name, cluster.address),
    )
    server = f"https://127.0.0.1:{API_PORT}"
    certificates.kubeconfig(place.kubeconfig, server=server, authority=authority, client=pair, user=spec.name)
    kind = SYSTEM_STORE if spec.pool == "system" else RAY_STORE
    store.seed(settings.stores[kind], place.containerd_root)


def units(cluster: LocalCluster, settings: Settings, spec: NodeSpec) -> list[Unit]:
    return node.units(cluster, spec, settings.kubelet)


def remove(cluster: LocalCluster, name: str, number: int) -> None:
    """End what still runs on the node, then take its mounts, bridge and disk away."""
    place = node.files(cluster, name)
    containers = control.containers(place.tasks)
    inodes = _kill_containers(place.tasks)
    _kill_shims(str(place.containerd_socket))
    for mount in _mounts_below(place.run, place.state):
        subprocess.run(["umount", "--lazy", str(mount)], capture_output=True, timeout=10, check=False)
    _forget_network_namespaces(inodes)
    network.delete_bridge(node.bridge(number))
    control.remove(containers)
    shutil.rmtree(place.state, ignore_errors=True)
    shutil.rmtree(place.run, ignore_errors=True)


async def advertise_gpus(cluster: LocalCluster, spec: NodeSpec) -> None:
    """Stands in for the GPU device plugin: writes the count into a registered node's capacity."""
    body = json.dumps([{"op": "add", "path": "/status/capacity/nvidia.com~1gpu", "value": str(spec.gpus)}])
    while not await asyncio.to_thread(_patch_node_status, cluster, spec.name, body):
        await asyncio.sleep(_PAUSE)


def _patch_node_status(cluster: LocalCluster, name: str, body: str) -> bool:
    context = ssl.create_default_context(cafile=str(cluster.pki / "ca.crt"))
    context.load_cert_chain(cluster.pki / "admin.crt", cluster.pki / "admin.key")
    connection = HTTPSConnection("127.0.0.1", API_PORT, timeout=5, context=context)
    try:
        headers = {"Content-Type": "application/json-patch+json"}
        connection.request("PATCH", f"/api/v1/nodes/{name}/status", body=body, headers=headers)
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def _kill_containers(tasks: Path) -> set[int]:
    """Kill every container's first process; returns the network namespaces that they lived in."""
    inodes: set[int] = set()
    for pid_file in tasks.glob("*/init.pid"):
        try:
            pid = int(pid_file.read_text())
            inodes.add(Path(f"/proc/{pid}/ns/net").stat().st_ino)
            os.kill(pid, signal.SIGKILL)
        except (OSError, ValueError):
            continue  # it ended by itself
    inodes.discard(Path("/proc/self/ns/net").stat().st_ino)
    return inodes


def _kill_shims(containerd_socket: str) -> None:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if containerd_socket in (entry / "cmdline").read_text() and int(entry.name) != os.getpid():
                    os.kill(int(entry.name), signal.SIGKILL)
            except OSError:
                continue


def _mounts_below(*roots: Path) -> list[Path]:
    mounts = [Path(line.split()[4]) for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    below = [mount for mount in mounts if any(root in mount.parents for root in roots)]
    return sorted(below, key=lambda mount: len(mount.parts), reverse=True)


def _forget_network_namespaces(inodes: set[int]) -> None:
    for handle in Path("/run/netns").glob("cni-*"):
        try:
            if handle.stat().st_ino in inodes:
                subprocess.run(["umount", str(handle)], capture_output=True, timeout=10, check=False)
                handle.unlink()
        except OSError:
            log.warning("could not remove %s", handle)
