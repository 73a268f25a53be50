"""The objects that gangs belong to, of every kind that the stack serves, as one cache."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

from muster.controller.kai.objects import CountedWork, GangOwner, RayCluster
from muster.controller.kube.resource import Key
from muster.controller.runtime.informer import Informer


class GangOwners:
    """Ray clusters and other work, by the keys of their gangs."""

    def __init__(self, clusters: Informer[RayCluster], work: Sequence[Informer[CountedWork]]) -> None:
        self._clusters = clusters
        self._work = {each.resource.kind: each for each in work}

    def get(self, key: Key) -> GangOwner | None:
        kind = key.name.rpartition("/")[0]
        cache = self._work.get(kind) if kind else self._clusters
        return cache.get(key) if cache else None

    def __iter__(self) -> Iterator[GangOwner]:
        return chain(self._clusters.store, *(each.store for each in self._work.values()))

    def listen(self, listener: Callable[[Any, Any], None]) -> None:
        """`listener`: is called with (before, after), as that of a store."""
        self._clusters.store.listen(listener)
        for each in self._work.values():
            each.store.listen(listener)
