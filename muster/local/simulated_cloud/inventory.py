"""The inventory of one decision: stock, nodes, promised capacity, and which pods use what.

It counts and decides nothing about requests. Promises made earlier in the same decision count, so that two
requests never get the same machine.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from muster.local.simulated_cloud import conditions, names
from muster.local.simulated_cloud.actions import Action, CreateNode, SetStatus, node_labels
from muster.local.simulated_cloud.conditions import ConditionUpdate, written
from muster.local.simulated_cloud.faults import FaultBook
from muster.local.simulated_cloud.fit import PodShape, nodes_needed, room, take
from muster.local.simulated_cloud.objects import Node, Pod, Request
from muster.local.simulated_cloud.offering import Offering, Pool

# Starts and stops the machines of real pools through the supervisor: one JSON line out, one back.

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


# Labels that every kubelet sets; the local cluster builds for one architecture.
_KUBELET_LABELS: Final = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}


class Inventory:
    """Stock, nodes and promises of one decision."""

    def __init__(
        self,
        offering: Offering,
        *,
        requests: Iterable[Request],
        nodes: Iterable[Node],
        pods: Iterable[Pod],
        faults: FaultBook,
        now: float,
    ) -> None:
        self.offering = offering
        self.times = offering.times
        self.faults = faults
        self.now = now
        self.requests = {request.uid: request for request in requests}
        self.nodes = {node.name: node for node in nodes}
        self.actions: list[Action] = []
        self.blocked: set[str] = set()  # pools where an earlier request waits for stock that could suffice
        self.pods_on: dict[str, list[Pod]] = defaultdict(list)
        self.unbound: list[Pod] = []
        self._consumers: Counter[str] = Counter()
        self._file_pods(pods)
        self._owned: dict[str, list[Node]] = defaultdict(list)
        self.used: Counter[str] = Counter()
        for node in self.nodes.values():
            if node.vm is not None and node.pool is not None:
                self.used[node.pool] += 1
                self._owned[node.owner_uid].append(node)
        self._names = set(self.nodes)
        self._promised: Counter[str] = Counter()
        for request in self.requests.values():
            if request.pool is not None:
                self._promised[request.pool] += self.outstanding(request)

    def _file_pods(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            if pod.done:
                continue
            if not pod.node:
                self.unbound.append(pod)
                continue
            self.pods_on[pod.node].append(pod)
            if pod.request:
                self._consumers[pod.request] += 1

    # -- stock ---------------------------------------------------------------------------------

    def stock(self, pool: str) -> int:
        return self.faults.capacity.get(pool, self.offering.pools[pool].stock)

    def free(self, pool: str) -> int:
        """Machines that are neither in use nor promised."""
        return max(0, self.stock(pool) - self.used[pool] - self._promised[pool])

    def left_to_grow(self, pool: str) -> int:
        return max(0, self.offering.pools[pool].max_nodes - self.used[pool] - self._promised[pool])

    def outstanding(self, request: Request) -> int:
        """Promised nodes that have not come yet and still will."""
        if request.ended or request.is_true(conditions.BOOKING_EXPIRED):
            return 0
        if request.provisioning_class == names.QUEUED and request.is_true(conditions.PROVISIONED):
            return 0
        return len(self.missing_ordinals(request, request.promised))

    def missing_ordinals(self, request: Request, due: int) -> range | list[int]:
        """Which of the first `due` nodes never came; those counted as delivered are not replaced."""
        if due <= request.delivered:
            return []
        present = {node.ordinal for node in self.owned(request)}
        if not present:
            return range(request.delivered, due)
        return [ordinal for ordinal in range(request.delivered, due) if ordinal not in present]

    def promise(self, pool: str, count: int) -> None:
        self._promised[pool] += count

    # -- nodes ---------------------------------------------------------------------------------

    def owned(self, request: Request) -> list[Node]:
        """Every node made for the request, whatever became of it."""
        return self._owned.get(request.uid, [])

    def provision(
        self, request: Request, ordinals: Sequence[int], *, lease: str = "", expires: float | None = None
    ) -> int:
        """Create nodes for these ordinals as far as machines exist; returns how many."""
        pool = self.offering.pools.get(request.pool or "")
        if pool is None:
            return 0
        count = min(len(ordinals), max(0, self.stock(pool.name) - self.used[pool.name]))
        for ordinal in ordinals[:count]:
            self.create(pool, request=request, ordinal=ordinal, lease=lease, expires=expires)
        self._promised[pool.name] -= count
        return count

    def create(
        self,
        pool: Pool,
        *,
        request: Request | None = None,
        ordinal: int = 0,
        lease: str = "",
        expires: float | None = None,
    ) -> None:
        name = self._fresh_name(pool.name)
        self.used[pool.name] += 1
        self.actions.append(
            CreateNode(
                name=name,
                pool=pool.name,
                owner=request.key if request else "",
                owner_uid=request.uid if request else "",
                lease=lease,
                ordinal=ordinal,
                created=self.now,
                expires=expires,
            )
        )

    def _fresh_name(self, pool: str) -> str:
        """The lowest free number: a create that is repeated meets AlreadyExists, not a second node."""
        number = 0
        while f"{pool}-{number}" in self._names:
            number += 1
        self._names.add(f"{pool}-{number}")
        return f"{pool}-{number}"

    # -- requests ------------------------------------------------------------------------------

    def consuming(self, request: Request) -> int:
        """Pods that run, or are about to, on a node and name the request."""
        return self._consumers[request.key]

    def set_conditions(
        self,
        request: Request,
        *words: ConditionUpdate,
        details: Mapping[str, str] | None = None,
        touch: bool = False,
    ) -> None:
        """Write conditions (and details) if that changes anything."""
        said = request.conditions
        for word in words:
            said = written(said, word, now=self.now, generation=request.generation, touch=touch)
        kept = request.details if details is None else details
        if said != request.conditions or kept != request.details:
            self.actions.append(SetStatus(request, said, kept))

    # -- pools ---------------------------------------------------------------------------------

    def obstacle(self, pool: Pool, shapes: Iterable[PodShape], lease: str = "") -> str | None:
        """Why a pod of one of the shapes could not run on a fresh node of the pool."""
        labels = {**_KUBELET_LABELS, **pool.labels} | ({names.LEASE_LABEL: lease} if lease else {})
        empty = pool.allocatable
        for shape in shapes:
            reason = shape.obstacle(labels, pool.taints) or shape.short_of(empty)
            if reason is not None:
                return reason
        return None

    def needed(self, pool: Pool, demand: Sequence[tuple[PodShape, int]]) -> int | None:
        """Fresh nodes for the demand; None if the pool may never be that large."""
        return nodes_needed(demand, pool.allocatable, most=pool.max_nodes)


# Free capacity of existing nodes, without running pods and booked capacity.
# A booking is not enforced against ordinary pods: as in cluster-autoscaler it only excludes other requests.

Free = dict[str, dict[str, int]]


def free_capacity(inventory: Inventory, *, beside: Request | None = None) -> Free:
    """Free amounts by node name, on nodes where a pod could start now."""
    free = {
        node.name: _unused(inventory, node)
        for node in inventory.nodes.values()
        if node.ready and not node.unschedulable and not node.leaving
    }
    for request in inventory.requests.values():
        if beside is None or request.uid != beside.uid:
            _book(inventory, free, request)
    return free


def place(inventory: Inventory, free: Free, shape: PodShape, count: int) -> int:
    """Put up to `count` pods where they fit, node by node; returns how many found a place."""
    return _place(inventory, free, shape, count, list(free))


def _place(inventory: Inventory, free: Free, shape: PodShape, count: int, where: list[str]) -> int:
    placed = 0
    for name in where:
        if placed == count:
            break
        node = inventory.nodes[name]
        if shape.obstacle(node.labels, node.taints, name) is None:
            here = room(shape, free[name], most=count - placed)
            take(shape, free[name], here)
            placed += here
    return placed


def _unused(inventory: Inventory, node: Node) -> dict[str, int]:
    free = dict(node.allocatable)
    for pod in inventory.pods_on.get(node.name, ()):
        take(pod.shape, free, 1)
    return free


def _book(inventory: Inventory, free: Free, request: Request) -> None:
    """Take off what a request has booked and its pods have not consumed yet."""
    if (
        request.ended
        or request.is_true(conditions.BOOKING_EXPIRED)
        or not request.is_true(conditions.PROVISIONED)
    ):
        return
    own = [node.name for node in inventory.owned(request) if node.name in free]
    consumed = inventory.consuming(request)
    for shape, count in request.demand:
        left = max(0, count - consumed)
        consumed = max(0, consumed - count)
        _place(inventory, free, shape, left, own or list(free))
