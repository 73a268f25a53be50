"""A cache of one collection that keeps itself up to date.

Responsible for when a cache is complete (`has_synced`), what prevents it, and how fresh it is. The protocol
is the reflector's, the content the store's.
"""

import asyncio
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Generic, Protocol, TypeVar

from muster.controller.kube.client import Client, Selection
from muster.controller.kube.errors import NotFound
from muster.controller.kube.reflector import OnEvent, Reflector
from muster.controller.kube.resource import Key, Object, Resource, T
from muster.controller.runtime.metrics import Metrics
from muster.controller.runtime.store import IndexFunction, Store

T_co = TypeVar("T_co", bound=Object, covariant=True)

GONE_AFTER = 60.0
"""Seconds of nothing but 404 after which a kind that was served is gone: a server that starts may say so for
a while of kinds whose definitions it has yet to read.
"""


class Cached(Protocol[T_co]):
    """What finds an object by its key."""

    def get(self, key: Key) -> T_co | None: ...


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
        on_event: OnEvent[T] | None = None,
    ) -> None:
        self.resource = resource
        self.store: Store[T] = Store(indexes=indexes)
        self._metrics = metrics
        self._synced, self._looked = asyncio.Event(), asyncio.Event()
        self._last_heard = float("-inf")
        self._trouble = ""
        self._missing_since: float | None = None
        self._is_gone = False
        self._reflector = Reflector(
            client, resource, self.store, watcher=self, selection=selection, on_event=on_event
        )
        # Runs for every event of every watch: each of the few counters is looked up once.
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
        """The API server does not know the kind, or no longer: it can be read once its definition is there,
        without a restart.
        """
        return self._is_gone if self.has_synced else self._missing_since is not None

    @property
    def unread(self) -> str:
        """Why it has not been read yet, with the fix where there is one; empty once it has."""
        if self.has_synced:
            return ""
        if self.is_unserved:
            return unserved(self.resource)
        said = f": {self._trouble}" if self._trouble else ""
        return f"not read yet from the API server{said}"

    async def wait_synced(self, *, or_unserved: bool = False) -> None:
        await (self._looked if or_unserved else self._synced).wait()

    async def run(self) -> None:
        self._metrics.watch_lag.labels(str(self.resource)).set_function(self.lag)
        self._last_heard = self._now()
        await self._reflector.run()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def lag(self) -> float:
        """Seconds since anything was heard of it."""
        return self._now() - self._last_heard

    def event(self, kind: str) -> None:
        self._event_counter(kind).inc()

    def heard(self) -> None:
        self._last_heard = self._now()

    def relisted(self, reason: str, count: int) -> None:
        self._metrics.watch_relists.labels(str(self.resource), reason).inc()
        self._synced.set()
        self._looked.set()
        self._served()

    def opened(self) -> None:
        self._served()

    def _served(self) -> None:
        self._missing_since, self._is_gone = None, False

    def failed(self, error: Exception) -> None:
        """Once the kind is gone, only the server's word that it serves it brings it back: other trouble says
        nothing of it.
        """
        if isinstance(error, NotFound) and not self.has_synced:
            self.heard()  # Of a kind that was never there nothing is missed.
        self._trouble = str(error)  # The error itself would keep the frames of a list with all it had read.
        if not isinstance(error, NotFound):
            self._missing_since = None
        elif self._missing_since is None:
            self._missing_since = self._now()
            self._looked.set()
        elif self._now() - self._missing_since >= GONE_AFTER:
            self._is_gone = True
        self._metrics.watch_failures.labels(str(self.resource)).inc()


def unserved(resource: Resource[T]) -> str:
    """What a person reads about a kind that the cluster lacks."""
    return (
        f"the API server does not serve {resource.kind}; install the CustomResourceDefinition {resource}, "
        f"and it goes on by itself"
    )
