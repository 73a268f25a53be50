"""The work queue: which key is worked on next.

Responsible for order, deduplication and delay. A key is worked on by one worker at a time; added meanwhile,
it comes back afterwards; added while it waits, it waits once. A delay that the server asked for, and some
seconds after many failures in a row, are never shortened. Keys of different lanes (namespaces) take turns, so
that one namespace's thousand keys do not delay another's first.

Time is the event loop's, so tests run it on virtual time.
"""

import asyncio
import heapq
import random
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from muster.controller.runtime.metrics import Metrics

K = TypeVar("K", bound=Hashable)

BACKOFF_BASE = 0.1
BACKOFF_CAP = 300.0
"""Five minutes: the longest that a poisoned key sleeps between two attempts."""


EAGER_FAILURES = 5
EAGER_PAUSE = 5.0
"""A key that has failed more often than this rests this many seconds whatever news there is about it: its own
failing writes may be that news."""


class QueueClosed(Exception):
    """The queue is shut down: there is nothing more to take."""


def _one_lane(key: Hashable) -> Hashable:
    return getattr(key, "namespace", None)


class WorkQueue(Generic[K]):
    """Keys to be worked on. All methods but `take` return at once and never block."""

    def __init__(
        self,
        name: str,
        *,
        metrics: Metrics,
        base: float = BACKOFF_BASE,
        cap: float = BACKOFF_CAP,
        jitter: Callable[[], float] = random.random,
        lane: Callable[[K], Hashable] = _one_lane,
    ) -> None:
        self.name = name
        self._base, self._cap, self._jitter, self._lane = base, cap, jitter, lane
        self._lanes: OrderedDict[Hashable, deque[K]] = OrderedDict()
        self._ready: dict[K, float] = {}
        self._working: dict[K, float] = {}
        self._again: set[K] = set()
        self._failures: dict[K, int] = {}
        self._not_before: dict[K, float] = {}
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._sequence = 0
        self._timer: asyncio.TimerHandle | None = None
        self._takers: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self._adds = metrics.queue_adds.labels(name)
        self._retries = metrics.queue_retries.labels(name)
        self._seconds = metrics.queue_seconds.labels(name)
        self._work_seconds = metrics.work_seconds.labels(name)
        metrics.queue_depth.labels(name).set_function(lambda: len(self._ready))
        metrics.queue_delayed.labels(name).set_function(lambda: len(self._due))
        metrics.unfinished_seconds.labels(name).set_function(lambda: sum(self._worked_on()))
        metrics.longest_seconds.labels(name).set_function(lambda: max(self._worked_on(), default=0.0))

    def __len__(self) -> int:
        """Keys that are ready now."""
        return len(self._ready)

    @property
    def idle(self) -> bool:
        """Nothing ready and nothing being worked on; keys may still wait for their time."""
        return not self._ready and not self._working

    def add(self, key: K) -> None:
        """Work on `key` as soon as its pause allows, if it has one. A later time that it was waiting for is
        forgotten.
        """
        if not self._closed:
            self._adds.inc()
            self._start_after(key, 0.0)

    def _start(self, key: K) -> None:
        self._due.pop(key, None)
        if key in self._working:
            self._again.add(key)
        elif key not in self._ready:
            self._enqueue(key)

    def add_after(self, key: K, delay: float) -> None:
        """Work on `key` in `delay` seconds, or at the earlier time that it waits for already."""
        if delay <= 0:
            self.add(key)
        elif not (self._closed or key in self._ready or key in self._again):
            self._start_after(key, delay)

    def _start_after(self, key: K, delay: float) -> None:
        now = self._now()
        due = max(now + delay, self._not_before.get(key, now))
        if due <= now:
            self._start(key)
        elif key not in self._ready and due < self._due.get(key, float("inf")):
            self._due[key] = due
            self._sequence += 1
            heapq.heappush(self._heap, (due, self._sequence, key))
            self._arm()

    def add_failed(self, key: K, *, at_least: float = 0.0) -> float:
        """Work on `key` again after its backoff: doubled with each failure, up to the cap, at least what the
        server has ordered. Returns the delay, which is shorter where news came during the work.
        """
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self._retries.inc()
        ceiling = min(self._cap, self._base * 2.0 ** min(failures, 40))
        delay = max(at_least, ceiling * (0.8 + 0.4 * self._jitter()))
        pause = max(at_least, min(delay, EAGER_PAUSE) if failures >= EAGER_FAILURES else 0.0)
        self._not_before[key] = self._now() + pause
        self.add_after(key, delay)
        return pause if key in self._again else delay

    def forget(self, key: K) -> None:
        """`key` has succeeded: its next failure starts from the shortest backoff."""
        self._failures.pop(key, None)
        self._not_before.pop(key, None)

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    async def take(self) -> K:
        """The next key; call `done` with it afterwards. Raises QueueClosed at the end."""
        while True:
            if self._closed:
                raise QueueClosed
            if self._ready:
                return self._dequeue()
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._takers.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                self._pass_on(waiter)
                raise

    def done(self, key: K) -> None:
        """The work on `key` has ended, however it ended."""
        began = self._working.pop(key, None)
        if began is not None:
            self._work_seconds.observe(self._now() - began)
        if key in self._again:
            self._again.discard(key)
            if not self._closed:
                self._start_after(key, 0.0)

    def close(self) -> None:
        """Hand out nothing more. What is being worked on may finish."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        while self._takers:
            self._wake()

    def _worked_on(self) -> list[float]:
        """How long each key has been worked on by now."""
        now = self._now() if self._working else 0.0
        return [now - began for began in self._working.values()]

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _enqueue(self, key: K) -> None:
        self._ready[key] = self._now()
        self._lanes.setdefault(self._lane(key), deque()).append(key)
        self._wake()

    def _dequeue(self) -> K:
        lane, keys = next(iter(self._lanes.items()))
        key = keys.popleft()
        if keys:
            self._lanes.move_to_end(lane)
        else:
            del self._lanes[lane]
        now = self._now()
        self._working[key] = now
        self._seconds.observe(now - self._ready.pop(key))
        return key

    def _wake(self) -> None:
        while self._takers:
            waiter = self._takers.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _pass_on(self, waiter: "asyncio.Future[None]") -> None:
        """A cancelled taker that had been woken already must not swallow the wake-up."""
        if waiter.done() and not waiter.cancelled():
            self._wake()
        elif waiter in self._takers:
            self._takers.remove(waiter)

    def _arm(self) -> None:
        """One timer, for the earliest deadline that still counts."""
        if len(self._heap) > 2 * len(self._due) + 64:
            self._heap = [entry for entry in self._heap if self._due.get(entry[2]) == entry[0]]
            heapq.heapify(self._heap)
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        earliest = self._heap[0][0] if self._heap and not self._closed else None
        if self._timer is not None:
            if self._timer.when() == earliest:
                return
            self._timer.cancel()
            self._timer = None
        if earliest is not None:
            self._timer = asyncio.get_running_loop().call_at(earliest, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = self._now()
        while self._heap and self._heap[0][0] <= now:
            due, _, key = heapq.heappop(self._heap)
            if self._due.get(key) == due:
                self._start(key)
        self._arm()
