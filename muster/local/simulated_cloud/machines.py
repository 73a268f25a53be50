"""Starts and stops the machines of real pools through the supervisor: one JSON line out, one back."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Final

from muster.local.simulated_cloud.actions import CreateNode
from muster.local.simulated_cloud.offering import Pool
from muster.local.simulated_cloud.rendering import node_labels

# Starting a node copies images to its disk; stopping one waits for its processes.
_TIMEOUT: Final = 120.0
_LONGEST_ANSWER: Final = 1 << 20
# Of kubernetes.io, what a kubelet may label itself with.
_OF_A_KUBELET: Final = ("node.kubernetes.io/", "topology.kubernetes.io/")


class MachineError(Exception):
    """The supervisor did not answer, or refused."""


class Machines:
    """The control socket of a local cluster."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def up(self, name: str, pool: Pool, *, lease: str) -> None:
        """Return once the machine's processes run; a machine that runs already is fine."""
        labels = node_labels(CreateNode(name, pool.name, lease=lease), pool)
        own = {
            key: value
            for key, value in labels.items()
            if "kubernetes.io/" not in key or key.startswith(_OF_A_KUBELET)
        }
        await self._ask(
            {
                "op": "node-up",
                "name": name,
                "pool": pool.name,
                "labels": own,  # a kubelet refuses to label itself with most of kubernetes.io
                "taints": [str(taint) for taint in pool.taints],
                "gpus": pool.gpus,
                "cpu": pool.cpu,
                "memory": pool.memory,
            }
        )

    async def down(self, name: str) -> None:
        """Return once nothing of the machine is left; a machine that does not exist is fine."""
        await self._ask({"op": "node-down", "name": name})

    async def running(self) -> dict[str, str]:
        """Pool by name of every machine that the supervisor runs."""
        nodes = (await self._ask({"op": "status"})).get("nodes")
        if not isinstance(nodes, dict):
            return {}
        return {str(name): str(entry.get("pool")) for name, entry in nodes.items() if isinstance(entry, dict)}

    async def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        what = f"control socket {self._socket}: {question['op']} {question.get('name', '')}".rstrip()
        try:
            async with asyncio.timeout(_TIMEOUT):
                reader, writer = await asyncio.open_unix_connection(str(self._socket), limit=_LONGEST_ANSWER)
                try:
                    writer.write(json.dumps(question).encode() + b"\n")
                    await writer.drain()
                    answer = json.loads(await reader.readline() or b"{}")
                finally:
                    writer.close()
        except TimeoutError as error:
            raise MachineError(f"{what}: no answer in {_TIMEOUT:.0f} s") from error
        except (OSError, ValueError) as error:
            raise MachineError(f"{what}: {error}") from error
        if not isinstance(answer, dict) or answer.get("ok") is not True:
            raise MachineError(f"{what}: {answer.get('error') if isinstance(answer, dict) else answer}")
        return answer
