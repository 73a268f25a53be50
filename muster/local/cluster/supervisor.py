"""Process 1 of a local cluster: starts its processes in order, restarts crashed ones, adds and removes nodes.

Commands come over a socket, one JSON object on a line in each direction: status, node-up, node-down, signal.
Killing this process ends the local cluster, because the kernel then ends everything in its namespaces.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any, Final

from muster.local.build.cache import cache_root
from muster.local.cluster import network, network_policies, node, node_lifecycle, readiness_gates
from muster.local.cluster.local_cluster import LocalCluster, named
from muster.local.cluster.node import NodeSpec
from muster.local.cluster.settings import Settings
from muster.local.cluster.units import Unit
from muster.local.errors import LocalClusterError

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
        self._gates = readiness_gates.ReadinessGates(cluster)

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
            await asyncio.to_thread(node_lifecycle.prepare, self.cluster, self.settings, spec, number)
        except Exception:
            del self._nodes[spec.name]
            raise
        for unit in node_lifecycle.units(self.cluster, self.settings, spec):
            self._start(unit)
        if spec.gpus:
            self._spawn(node_lifecycle.advertise_gpus(self.cluster, spec))

    async def _node_down(self, name: str) -> None:
        known = self._nodes.get(name)
        if known is None:
            return
        for unit in (f"kubelet@{name}", f"containerd@{name}"):
            await self._stop(unit)
        await asyncio.to_thread(node_lifecycle.remove, self.cluster, name, known[1])
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
