"""Which gangs wait for which nodes.

A gang with leases of its own is reconciled for changes of their nodes alone: with a thousand such gangs, a
thousand nodes that join cost a thousand reconciles, not a million. Heartbeats are no change: with fifteen
thousand nodes they are fifty updates a second. Kept in memory; losing it costs seconds.
"""

from collections import defaultdict
from collections.abc import Iterable

from muster.controller.gangs.objects import Node
from muster.controller.kube.resource import Key

_ANY = ""


class Waiters:
    """Keys of Workloads by the lease whose nodes they wait for."""

    def __init__(self) -> None:
        self._by_lease: defaultdict[str, set[Key]] = defaultdict(set)
        self._leases: dict[Key, frozenset[str]] = {}

    def add(self, key: Key, leases: frozenset[str]) -> None:
        """`leases`: whose nodes it waits for; none where any node may do."""
        self.discard(key)
        self._leases[key] = leases or frozenset({_ANY})
        for lease in self._leases[key]:
            self._by_lease[lease].add(key)

    def discard(self, key: Key) -> None:
        for lease in self._leases.pop(key, ()):
            self._by_lease[lease].discard(key)
            if not self._by_lease[lease]:
                del self._by_lease[lease]

    def affected_by(self, before: Node | None, after: Node | None, *, lease: str) -> Iterable[Key]:
        """The gangs to reconcile."""
        if before and after and _without_version(before) == _without_version(after):
            return ()
        return {*self._by_lease.get(_ANY, ()), *self._by_lease.get(lease, ())}


def _without_version(node: Node) -> object:
    """A heartbeat changes nothing else that we keep."""
    return node.metadata.labels, node.metadata.deletion_timestamp, node.spec, node.status
