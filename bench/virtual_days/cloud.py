"""A cloud with stock: accepts, provisions whole requests, takes idle nodes back, and has bad days."""

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple

import msgspec

from bench.virtual_days.server import Server, later
from muster.controller.gangs.indexes import BY_LEASE
from muster.controller.gangs.objects import (
    NODE,
    PROVISIONING_REQUEST,
    Node,
    ProvisioningRequest,
    ProvisioningRequestStatus,
)
from muster.controller.gangs.templates import POOL
from muster.controller.kube.resource import Key
from muster.controller.kueue.identity import WORKLOADS
from muster.model.names import GKE_LEASE_DETAIL, GKE_LEASE_LABEL, POOL_LABEL
from tests.unit.controller_runtime.virtual import now
from tests.unit.gangs.paper import BOOKING, node, size_of, with_condition
from tests.unit.gangs.slow_api import moment

replace = msgspec.structs.replace

_SCALE_DOWN: Final = 600.0
"""Seconds after which a node that nothing uses goes."""
_BOOKING: Final = BOOKING.total_seconds()


class _Asked(NamedTuple):
    """A request: another one of the same name is another one."""

    key: Key
    uid: str


@dataclass(slots=True)
class Lease:
    """What was bought for one request."""

    request: _Asked
    gang: Key
    pool: str
    is_booked: bool = True
    """Until its booking ends or its request is deleted."""
    after: str = ""
    """Why its request was deleted."""
    unused_since: float = 0.0


@dataclass
class Cloud:
    """`bought`, `gone`: of a node. `released`: why a request was deleted, in words for the table."""

    server: Server
    stock: dict[str, int]
    slow: dict[str, float]
    """Seconds for which nodes of a pool take to come, in the mean."""
    random: Random
    bought: Callable[[Node, Lease], None]
    gone: Callable[[Node], None]
    released: Callable[[Lease], str]
    is_used: Callable[[Lease], bool]
    empty: set[str] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)
    leases: dict[str, Lease] = field(default_factory=dict)
    queue: defaultdict[str, list[tuple[_Asked, float]]] = field(default_factory=lambda: defaultdict(list))
    answers: Counter[str] = field(default_factory=Counter)

    def changed(self, before: ProvisioningRequest | None, after: ProvisioningRequest | None) -> None:
        if before is None and after is not None:
            wait, pool = self.random.uniform(1, 20), after.metadata.annotations[POOL]
            later(wait, self._accept, _Asked(after.key, after.metadata.uid), pool)
        elif after is None and before is not None:
            for name in [
                name for name, lease in self.leases.items() if lease.request.uid == before.metadata.uid
            ]:
                self.leases[name].after = self.released(self.leases[name])
                self._unbook(name)

    def _find(self, asked: _Asked) -> ProvisioningRequest | None:
        found: ProvisioningRequest | None = self.server.caches[PROVISIONING_REQUEST].get(asked.key)
        return found if found and found.metadata.uid == asked.uid else None

    def _accept(self, asked: _Asked, pool: str) -> None:
        if (request := self._find(asked)) is None:
            return
        if pool in self.silent:
            later(60, self._accept, asked, pool)
        elif pool in self.empty and self.random.random() < 0.5:
            self.answers["out of stock"] += 1
            self.server.answer(request, "Failed", "CapacityIsNotFound", "no capacity in the zone")
        else:
            self.server.answer(request, "Accepted")
            self.queue[pool].append((asked, now() + self.random.expovariate(1 / self.slow[pool])))
            later(self.queue[pool][-1][1] - now() + 0.1, self.serve, pool)

    def serve(self, pool: str) -> None:
        """The oldest first, while there is stock; a large one lets smaller ones pass."""
        for waiting in list(self.queue[pool]):
            asked, at = waiting
            request = self._find(asked)
            if request is None:
                self.queue[pool].remove(waiting)
            elif at <= now() and pool not in self.empty and self._free(pool) >= size_of(request):
                self.queue[pool].remove(waiting)
                self._provision(request, pool)

    def _free(self, pool: str) -> int:
        nodes = self.server.caches[NODE].store
        taken: int = sum(each.metadata.labels[POOL_LABEL] == pool for each in nodes)
        return self.stock[pool] - taken

    def _provision(self, request: ProvisioningRequest, pool: str) -> None:
        name = f"{request.metadata.name}-{request.metadata.uid}"
        (gang,) = WORKLOADS.keys_of(request)
        lease = self.leases[name] = Lease(
            _Asked(request.key, request.metadata.uid), gang=gang, pool=pool, unused_since=now()
        )
        for number in range(size_of(request)):
            delay = self.random.uniform(10, 90) if self.random.random() < 0.2 else 0.0
            made = node(f"lease-{name}-{number}", pool, f"lease-{name}", ready=not delay)
            self.server.put(NODE, made)
            self.bought(made, lease)
            if delay:
                later(delay, self._get_ready, made.metadata.name)
        conditions = with_condition(request.status.conditions, "Provisioned", "True", moment())
        status = ProvisioningRequestStatus(
            conditions=conditions, provisioning_class_details={GKE_LEASE_DETAIL: f"lease-{name}"}
        )
        self.server.change(request, status=status)
        later(_BOOKING, self._expire, name)

    def _get_ready(self, name: str) -> None:
        if (held := self.node(name)) is not None:
            self.server.set_ready(held, "True")

    def _expire(self, name: str) -> None:
        lease = self.leases.get(name)
        if lease is None or not lease.is_booked or self.is_used(lease):
            return
        if (request := self._find(lease.request)) is not None:
            self.answers["booking expired"] += 1
            self.server.answer(request, "BookingExpired", "BookingExpired")
        self._unbook(name)

    def _unbook(self, name: str) -> None:
        self.leases[name].is_booked = False
        self.unused(name)

    def unused(self, name: str) -> None:
        """Its pods are gone, or it has no booking any more."""
        if (lease := self.leases.get(name)) is not None:
            lease.unused_since = now()
            later(_SCALE_DOWN, self._scale_down, name, lease.unused_since)

    def _scale_down(self, name: str, since: float) -> None:
        lease = self.leases.get(name)
        if lease is not None and lease.unused_since == since and not self.is_used(lease):
            self.take_back(name)

    def take_back(self, name: str) -> None:
        for held in self.nodes(name):
            self.kill(held)
        self._forget(name)

    def kill(self, held: Node) -> None:
        name = held.metadata.labels.get(GKE_LEASE_LABEL, "").removeprefix("lease-")
        self.server.remove(NODE, held.key)
        self.gone(held)
        self._forget(name)
        later(0.1, self.serve, held.metadata.labels[POOL_LABEL])

    def _forget(self, name: str) -> None:
        """A lease without nodes, once its request is gone as well."""
        lease = self.leases.get(name)
        if lease is not None and not self.nodes(name) and self._find(lease.request) is None:
            del self.leases[name]

    def nodes(self, name: str) -> list[Node]:
        found: list[Node] = self.server.caches[NODE].store.by_index(BY_LEASE, f"lease-{name}")
        return found

    def node(self, name: str) -> Node | None:
        found: Node | None = self.server.caches[NODE].get(Key("", name))
        return found

    def revoke(self, name: str) -> None:
        """The lease of a gang that runs."""
        if (request := self._find(self.leases[name].request)) is not None:
            self.answers["revoked"] += 1
            self.server.answer(request, "CapacityRevoked", "CapacityRevoked", "taken back")
            for held in self.nodes(name):
                self.kill(held)
