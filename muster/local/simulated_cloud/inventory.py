"""The inventory of one decision: stock, nodes, promised capacity, and which pods use what.

It counts and decides nothing about requests. Promises made earlier in the same decision count, so that two
requests never get the same machine.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from muster.local.simulated_cloud import conditions, names
from muster.local.simulated_cloud.actions import Action, CreateNode, SetStatus
from muster.local.simulated_cloud.conditions import ConditionUpdate, written
from muster.local.simulated_cloud.faults import FaultBook
from muster.local.simulated_cloud.fit import PodShape, nodes_needed
from muster.local.simulated_cloud.objects import Node, Pod, Request
from muster.local.simulated_cloud.offering import Offering, Pool

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
