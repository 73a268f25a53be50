"""Process 1 of a local cluster: starts its processes in order, restarts crashed ones, adds and removes nodes.

Commands come over a socket, one JSON object on a line in each direction: status, node-up, node-down, signal.
Killing this process ends the local cluster, because the kernel then ends everything in its namespaces.

A node is its disk, certificates and GPUs, and what a removed one leaves behind. `remove` is a power cut:
nothing is drained, as nothing is when a cloud takes a machine back. Draining is the autoscaler's
responsibility.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
from dataclasses import dataclass
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, Final

import msgspec

from muster.local import LocalClusterError
from muster.local.builder import store
from muster.local.builder.cache import cache_root
from muster.local.builder.everything import RAY_STORE, SYSTEM_STORE
from muster.local.cluster import certificates, control, network, network_policies, node, share
from muster.local.cluster.local_cluster import API_PORT, LocalCluster, named
from muster.local.cluster.node import NodeSpec
from muster.local.cluster.units import ReadinessGates, Unit

_SETTINGS: Final = "settings.json"
# What it starts is in a file of the run directory, written once and read once, so that it needs no arguments
# that could differ from what `status` and `logs` read later.


@dataclass(frozen=True, slots=True)
class Settings:
    """What the supervisor starts; `stores` maps a kind of node to its containerd root."""

    units: tuple[Unit, ...]
    nodes: tuple[NodeSpec, ...]
    kubelet: str
    pause_image: str
    stores: dict[str, Path]

    def write(self, cluster: LocalCluster) -> None:
        content = msgspec.json.encode(self, enc_hook=str)
        (cluster.run / _SETTINGS).write_bytes(msgspec.json.format(content, indent=1))

    @staticmethod
    def read(cluster: LocalCluster) -> Settings:
        content = (cluster.run / _SETTINGS).read_bytes()
        return msgspec.json.decode(content, type=Settings, dec_hook=lambda kind, value: kind(value))


_nodes_log = logging.getLogger("nodes")

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
    share.give_containers()


def units(cluster: LocalCluster, settings: Settings, spec: NodeSpec) -> list[Unit]:
    return node.units(cluster, spec, settings.kubelet)


def remove(cluster: LocalCluster, name: str, number: int) -> None:
    """End what still runs on the node, then take its mounts, bridge and disk away."""
    place = node.files(cluster, name)
    containers = control.container_ids(place.tasks)
    inodes = _kill_containers(place.tasks)
    _kill_shims(str(place.containerd_socket))
    for mount in _mounts_below(place.run, place.state):
        subprocess.run(["umount", "--lazy", str(mount)], capture_output=True, timeout=10, check=False)
    _forget_network_namespaces(inodes)
    network.delete_bridge(node.bridge(number))
    control.remove_control_groups(containers)
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
            _nodes_log.warning("could not remove %s", handle)


log = logging.getLogger("supervisor")

_FIRST_BACKOFF: Final = 0.2
_LAST_BACKOFF: Final = 5.0
_STEADY: Final = 10.0  # a process that ran this long restarts without backoff
_STOP_GRACE: Final = 3.0


@dataclass(slots=True)
class Running:
    """A unit's present process."""

    unit: Unit
    task: asyncio.Task[None] | None = None
    pid: int | None = None
    restarts: int = -1
    started: float = 0.0
    stopping: bool = False
    exited: asyncio.Event | None = None
    exit_status: int | None = None


class Supervisor:
    """Runs units and nodes of one local cluster until it is killed."""

    def __init__(self, cluster: LocalCluster, settings: Settings, *, unenforced: str = "") -> None:
        """`unenforced`: why NetworkPolicies cannot be enforced here; the process that would is left out."""
        self.cluster = cluster
        self.settings = settings
        self._unenforced = unenforced
        self._units: dict[str, Running] = {}
        self._by_pid: dict[int, Running] = {}
        self._nodes: dict[str, tuple[NodeSpec, int]] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._failures: list[str] = []
        self._gates = ReadinessGates(cluster)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, self._reap)
        server = await asyncio.start_unix_server(self._serve, self.cluster.control_socket, limit=1 << 20)
        self.cluster.control_socket.chmod(0o600)
        for unit in self.settings.units:
            if not (self._unenforced and unit.name == network_policies.UNIT):
                self._start(unit)
        for spec in self.settings.nodes:
            self._spawn(self._node_up(spec))
        async with server:
            await server.serve_forever()

    # -- units ---------------------------------------------------------------------------------

    def _start(self, unit: Unit) -> None:
        running = self._units[unit.name] = Running(unit)
        running.task = asyncio.create_task(self._keep(running), name=unit.name)

    async def _keep(self, running: Running) -> None:
        """Start the unit whenever its gate is open and it does not run; backs off from a crash loop."""
        backoff = _FIRST_BACKOFF
        while True:
            await self._gates.passed(running.unit.after)
            await self._once(running)
            if running.stopping:
                return
            log.warning("%s ended with status %s; starting it again", running.unit.name, running.exit_status)
            if time.monotonic() - running.started > _STEADY:
                backoff = _FIRST_BACKOFF
            await asyncio.sleep(backoff)
            backoff = min(backoff * 2, _LAST_BACKOFF)

    async def _once(self, running: Running) -> None:
        running.exited = asyncio.Event()
        running.pid, running.started = self._launch(running.unit), time.monotonic()
        running.restarts += 1
        self._by_pid[running.pid] = running
        await running.exited.wait()

    def _launch(self, unit: Unit) -> int:
        with (self.cluster.logs / f"{unit.name}.log").open("ab") as output:
            process = subprocess.Popen(
                unit.argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **unit.environment},
                cwd="/",
                start_new_session=True,
            )
        if unit.is_first:
            share.give_session(process.pid, share.FIRST)
        process.returncode = 0  # `_reap` collects every child, as process 1 must; Popen is not to try
        return process.pid

    def _reap(self) -> None:
        """Collect every dead child, orphans of containers included."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            running = self._by_pid.pop(pid, None)
            if running is not None:
                running.pid = None
                running.exit_status = os.waitstatus_to_exitcode(status)
                if running.exited is not None:
                    running.exited.set()

    async def _stop(self, name: str) -> None:
        running = self._units.pop(name, None)
        if running is None:
            return
        running.stopping = True
        if running.pid is not None and running.exited is not None:
            os.kill(running.pid, signal.SIGTERM)
            try:
                await asyncio.wait_for(running.exited.wait(), _STOP_GRACE)
            except TimeoutError:
                os.kill(running.pid, signal.SIGKILL)
                await running.exited.wait()
        if running.task is not None:
            running.task.cancel()

    # -- nodes ---------------------------------------------------------------------------------

    async def _node_up(self, spec: NodeSpec) -> None:
        if spec.name in self._nodes:
            return
        taken = {number for _, number in self._nodes.values()}
        number = next(candidate for candidate in range(256) if candidate not in taken)
        self._nodes[spec.name] = (spec, number)
        try:
            await asyncio.to_thread(prepare, self.cluster, self.settings, spec, number)
        except Exception:
            del self._nodes[spec.name]
            raise
        for unit in units(self.cluster, self.settings, spec):
            self._start(unit)
        if spec.gpus:
            self._spawn(advertise_gpus(self.cluster, spec))

    async def _node_down(self, name: str) -> None:
        known = self._nodes.get(name)
        if known is None:
            return
        for unit in (f"kubelet@{name}", f"containerd@{name}"):
            await self._stop(unit)
        await asyncio.to_thread(remove, self.cluster, name, known[1])
        del self._nodes[name]

    def _spawn(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("background work failed", exc_info=task.exception())
            self._failures.append(str(task.exception()))

    # -- the control socket --------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                answer = await self._answer(line)
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError):
            log.info("a client of the control socket went away")
        finally:
            writer.close()

    async def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            request = json.loads(line)
            match request.get("op"):
                case "status":
                    return {"ok": True, **self._status()}
                case "node-up":
                    await self._node_up(NodeSpec.parse(request))
                case "node-down":
                    await self._node_down(str(request["name"]))
                case "signal":
                    self._signal(str(request["unit"]), int(request["signal"]))
                case other:
                    raise LocalClusterError(
                        "control socket",
                        f"knows no operation {other!r}",
                        fix="status, node-up, node-down, signal",
                    )
        except (
            LocalClusterError,
            OSError,
            ValueError,
            KeyError,
            AttributeError,
            subprocess.SubprocessError,
        ) as error:
            log.exception("refused %r", line[:200])
            return {"ok": False, "error": str(error)}
        return {"ok": True}

    def _signal(self, unit: str, number: int) -> None:
        running = self._units.get(unit)
        if running is None or running.pid is None:
            raise LocalClusterError(
                f"unit {unit}", "does not run", fix=f"one of {', '.join(sorted(self._units))}"
            )
        os.kill(running.pid, number)

    def _status(self) -> dict[str, Any]:
        now = time.monotonic()
        return {
            "units": {
                name: {
                    "pid": running.pid,
                    "restarts": max(running.restarts, 0),
                    "seconds": round(now - running.started, 1) if running.pid else None,
                    "lastExit": running.exit_status,
                }
                for name, running in self._units.items()
            },
            "failures": self._failures[-20:],
            "networkPolicies": {"enforced": not self._unenforced, "why": self._unenforced},
            "nodes": {
                name: {"pool": spec.pool, "gpus": spec.gpus} for name, (spec, _) in self._nodes.items()
            },
        }


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Process 1 of a local cluster; started by `muster local up`."
    )
    parser.add_argument("--plane", required=True)
    parser.add_argument("--index", type=int, required=True)
    arguments = parser.parse_args()
    logging.basicConfig(
        level=logging.INFO, stream=sys.stdout, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    cluster = named(arguments.plane, index=arguments.index)
    settings = Settings.read(cluster)
    node.hide_host_state(cluster, (cache_root(), *node.host_python_paths()))
    while not network.is_plugged_in():
        time.sleep(0.02)
    network.configure_inside(cluster)
    unenforced = network_policies.enforce()
    if unenforced:
        log.warning("%s", network_policies.notice(unenforced))
    asyncio.run(Supervisor(cluster, settings, unenforced=unenforced).run())


if __name__ == "__main__":
    os.umask(0o022)
    main()
