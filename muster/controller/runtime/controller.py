"""Workers that take keys from a queue and reconcile them.

Responsible for what the end of a reconcile means for its key: success resets the backoff, a returned delay
requeues it, any exception costs this key (and only it) its backoff. What a reconcile puts into the caches
itself brings other keys back, and not its own. The reconcile function decides what to do with a key, the
sources which keys are added.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Generic

import structlog

from muster.controller.kube.errors import Conflict, KubeError
from muster.controller.kube.reflector import BURST
from muster.controller.kube.resource import Key, Object, T
from muster.controller.runtime.informer import Cached, Informer
from muster.controller.runtime.metrics import Metrics
from muster.controller.runtime.queue import K, QueueClosed, WorkQueue
from muster.controller.runtime.spans import Traces
from muster.controller.runtime.traces import NO_TRACES

RECONCILE_TIMEOUT = 120.0
"""Seconds for one reconcile with all its calls, each of which has its own shorter deadline."""


@dataclass(frozen=True, slots=True)
class RequeueAfter:
    """Reconcile this key again in `seconds`, even when nothing happens. Return it each time: any event
    forgets it.
    """

    seconds: float


Result = RequeueAfter | None
Reconcile = Callable[[K], Awaitable[Result]]


class NotLeading(Exception):
    """This process may not write (any more). Raised by the lease's guard; ends the reconcile without a
    backoff.
    """


@dataclass(frozen=True, slots=True)
class _Source(Generic[T, K]):
    informer: Informer[T]
    keys: Callable[[T], Iterable[K]]
    may_be_unserved: bool = False


class Controller(Generic[K]):
    """One reconcile function, its queue, its workers and the informers that feed it. Made by
    `Manager.controller`.
    """

    def __init__(
        self,
        name: str,
        reconcile: Reconcile[K],
        *,
        metrics: Metrics,
        workers: int = 1,
        timeout: float = RECONCILE_TIMEOUT,
        queue: WorkQueue[K] | None = None,
        about: Cached[Any] | None = None,
        traces: Traces = NO_TRACES,
    ) -> None:
        self.name = name
        # An empty queue is false.
        self.queue: WorkQueue[K] = WorkQueue(name, metrics=metrics) if queue is None else queue
        self._reconcile = reconcile
        self._workers = workers
        self._timeout = timeout
        self._about, self._traces = about, traces
        self._metrics = metrics
        self._running = metrics.active_workers.labels(name)
        self._running.set(0)
        self._seconds = metrics.reconcile_seconds.labels(name)
        # Runs for every reconcile: each of the few counters is looked up once.
        self._counter = lru_cache(partial(metrics.reconciles.labels, name))
        metrics.workers.labels(name).set(workers)
        self._sources: list[_Source[Any, K]] = []
        self._active = False
        self._reconciled: dict[object, K] = {}
        """The key that each worker's task reconciles now."""
        self._numbers = itertools.count(1)
        self._log = structlog.get_logger("controller").bind(controller=name)

    def watches(
        self, informer: Informer[T], keys: Callable[[T], Iterable[K]], *, may_be_unserved: bool = False
    ) -> "Controller[K]":
        """Reconcile `keys(obj)` whenever an object of this informer is added, changed (before and after) or
        deleted. `may_be_unserved`: the start does not wait for a kind that the API server does not know.
        """
        self._sources.append(_Source(informer, keys, may_be_unserved))
        return self.hears(informer, keys)

    def hears(self, informer: Informer[T], keys: Callable[[T], Iterable[K]]) -> "Controller[K]":
        """The same, of a cache that no reconcile needs: the start does not wait until it has been read."""

        def changed(before: T | None, after: T | None) -> None:
            if not self._active:
                return
            for obj in (before, after):
                if obj is not None:
                    self._enqueue(keys, obj, own=self._own_key(informer, before, after))

        informer.store.listen(changed)
        return self

    def watches_transitions(
        self, informer: Informer[T], keys: Callable[[T | None, T | None], Iterable[K]]
    ) -> "Controller[K]":
        """Reconcile `keys(before, after)` at each change of an informer, where only the difference shows
        which keys it concerns. Nothing of it is reconciled at the start, which waits until it is known.
        """
        self.reads(informer)

        def changed(before: T | None, after: T | None) -> None:
            obj = after or before
            if self._active and obj is not None:
                own = self._own_key(informer, before, after)
                self._enqueue(lambda _: keys(before, after), obj, own=own)

        informer.store.listen(changed)
        return self

    def reads(self, *informers: Informer[Any]) -> "Controller[K]":
        """Caches whose changes reconcile nothing, and without which no reconcile may begin: what has not
        been read yet looks like what does not exist.
        """
        self._sources += [_Source(informer, lambda _: ()) for informer in informers]
        return self

    def _enqueue(self, keys: Callable[[T], Iterable[K]], obj: T, *, own: K | None = None) -> None:
        """An object whose keys cannot be computed must not stop the cache that all controllers share."""
        try:
            for key in keys(obj):
                if key != own:
                    self.queue.add(key)
        except Exception:
            self._log.exception("no key for an object", object=str(obj.key), uid=obj.metadata.uid)

    def _own_key(self, informer: Informer[T], before: T | None, after: T | None) -> K | None:
        """The key whose reconcile makes this change; None for one that a watch brings, unless that is an
        object which this reconcile is creating.
        """
        if not self._reconciled:
            return None
        maker = informer.store.maker(after.key) if after is not None and before is None else None
        return self._reconciled.get(maker or asyncio.current_task())

    async def run(self) -> None:
        """Reconcile everything there is, then whatever changes, until the queue is closed. Run it only
        while leading.
        """
        for source in self._sources:
            await source.informer.wait_synced(or_unserved=source.may_be_unserved)
        self._active = True
        for source in self._sources:
            for count, obj in enumerate(source.informer.store, start=1):
                self._enqueue(source.keys, obj)
                if count % BURST == 0:
                    await asyncio.sleep(0)
        async with asyncio.TaskGroup() as workers:
            for number in range(self._workers):
                workers.create_task(self._work(), name=f"{self.name}-{number}")

    def stop(self) -> None:
        """Take no further key. `run` returns when the reconciles that are under way have ended."""
        self._active = False
        self.queue.close()

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.take()
            except QueueClosed:
                return
            self._running.inc()
            self._reconciled[asyncio.current_task()] = key
            try:
                await self._once(key)
            finally:
                del self._reconciled[asyncio.current_task()]
                self._running.dec()
                self.queue.done(key)
            # A reconcile that waits for nothing never yields, and thousands of them follow a start.
            await asyncio.sleep(0)

    async def _once(self, key: K) -> None:
        """One reconcile, whose every exception ends here."""
        started = asyncio.get_running_loop().time()
        uid = self._uid(key)
        with (
            structlog.contextvars.bound_contextvars(
                controller=self.name, key=str(key), uid=uid, reconcile=next(self._numbers)
            ),
            self._traces.span("reconcile", {"controller": self.name, "key": str(key)}, of=uid) as span,
        ):
            try:
                async with asyncio.timeout(self._timeout):
                    result = await self._reconcile(key)
            except Exception as error:
                outcome = self._failed(key, error)
            else:
                outcome = self._succeeded(key, result)
            span.set_attributes({"result": outcome})
        self._seconds.observe(asyncio.get_running_loop().time() - started)
        self._counter(outcome).inc()

    def _uid(self, key: K) -> str:
        """The uid of the key's object; empty where it is gone, or its keys are no objects."""
        if self._about is None or not isinstance(key, Key):
            return ""
        found: Object | None = self._about.get(key)
        return found.metadata.uid if found else ""

    def _succeeded(self, key: K, result: Result) -> str:
        self.queue.forget(key)
        if result is None:
            return "success"
        self.queue.add_after(key, result.seconds)
        return "requeue_after"

    def _failed(self, key: K, error: Exception) -> str:
        pause = (error.retry_after or 0.0) if isinstance(error, KubeError) else 0.0
        delay = self.queue.add_failed(key, at_least=pause)
        if isinstance(error, NotLeading):
            return "not_leading"
        self._metrics.reconcile_errors.labels(self.name, type(error).__name__).inc()
        if isinstance(error, Conflict):
            self._log.info("conflict, will read again", error=str(error), retry_in=round(delay, 3))
            return "conflict"
        self._log.error(
            "reconcile failed",
            error=str(error) or type(error).__name__,
            error_type=type(error).__name__,
            failures=self.queue.failures(key),
            retry_in=round(delay, 3),
            exc_info=not isinstance(error, KubeError),
        )
        return "error"
