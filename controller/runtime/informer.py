"""A cache of one collection that keeps itself up to date.

Decides when a cache may be believed (`has_synced`), says what keeps it from being read and measures how fresh
it is. Leaves the protocol to the reflector and the content to the store.
"""

import asyncio
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Generic

from controller.kube.client import Client, Selection
from controller.kube.errors import NotFound
from controller.kube.reflector import Reflector, Told
from controller.kube.resource import Key, Resource, T
from controller.runtime.metrics import Metrics
from controller.runtime.store import IndexFunction, Store


class Informer(Generic[T]):
    """One kind, cached. Read it through `store`; made by `Manager.informer`."""

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        *,
        metrics: Metrics,
        selection: Selection | None = None,
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        told: Told[T] | None = None,
    ) -> None:
        self.resource = resource
        self.store: Store[T] = Store(indexes=indexes)
        self._metrics = metrics
        self._synced = asyncio.Event()
        self._last_heard = float("-inf")
        self._trouble: Exception | None = None
        self._reflector = Reflector(
            client, resource, self.store, watcher=self, selection=selection, told=told
        )
        # Told of every event of every watch: a counter is looked up once for each of the few kinds of event.
        self._event_counter = lru_cache(partial(metrics.watch_events.labels, str(resource)))
        metrics.cache_objects.labels(str(resource)).set_function(lambda: len(self.store))
        metrics.cache_unreadable.labels(str(resource)).set_function(lambda: self.store.unreadable_count)

    def get(self, key: Key) -> T | None:
        return self.store.get(key)

    @property
    def has_synced(self) -> bool:
        """True once the whole collection has been read; stays true, since a cache that lags still beats
        none.
        """
        return self._synced.is_set()

    @property
    def is_unserved(self) -> bool:
        """The API server does not know the kind: it can be read once its definition is there, without a
        restart.
        """
        return not self.has_synced and isinstance(self._trouble, NotFound)

    @property
    def unread(self) -> str:
        """Why it has not been read yet, with the fix where there is one; empty once it has."""
        if self.has_synced:
            return ""
        if self.is_unserved:
            return unserved(self.resource)
        said = f": {self._trouble}" if self._trouble else ""
        return f"not read yet from the API server{said}"

    async def wait_synced(self) -> None:
        await self._synced.wait()

    async def run(self) -> None:
        self._metrics.watch_lag.labels(str(self.resource)).set_function(self._lag)
        self._last_heard = self._now()
        await self._reflector.run()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _lag(self) -> float:
        return self._now() - self._last_heard

    def event(self, kind: str) -> None:
        self._event_counter(kind).inc()

    def heard(self) -> None:
        self._last_heard = self._now()

    def relisted(self, reason: str, count: int) -> None:
        self._metrics.watch_relists.labels(str(self.resource), reason).inc()
        self._synced.set()

    def failed(self, error: Exception) -> None:
        self._trouble = error
        self._metrics.watch_failures.labels(str(self.resource)).inc()


def unserved(resource: Resource[T]) -> str:
    """What a person reads about a kind that the cluster lacks."""
    return (
        f"the API server does not serve {resource.kind}; install the CustomResourceDefinition {resource}, "
        f"and it goes on by itself"
    )
