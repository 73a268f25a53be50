"""Rate limit of retries, shared by all gangs.

A token bucket, so that thousands of gangs that failed together come back as a stream and not as a wave. Each
waiting gang holds a token of its own. The backoff of a single gang is retry.py's. Kept in memory only: a
restart costs one burst.
"""

import time
from bisect import bisect_left
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from muster.controller.kube.resource import Key

BURST: Final = timedelta(seconds=6)
"""The bucket holds the tokens of so much time: a tenth of `retry.perMinute`."""
TOKEN_EXPIRY: Final = 600.0
"""Seconds after which a token that was not consumed expires."""


class RetryLimiter:
    """Hands out the moments at which gangs may try again. `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = 0.0
        self._given: dict[Key, float] = {}
        self._row: list[tuple[float, Key]] = []  # The same, by time.

    def wait(self, key: Key, *, per_minute: int) -> timedelta:
        """How long until the gang's token is due; the same token each time. 0 per minute: no limit."""
        now = self._clock()
        if per_minute <= 0:
            return timedelta(0)
        if key not in self._given:
            self._forget(now)
            at = max(self._next, now - BURST.total_seconds())
            self._give(key, at)
            self._next = at + 60 / per_minute
        return timedelta(seconds=max(0.0, self._given[key] - now))

    def consume(self, key: Key) -> None:
        """The gang has begun its retry; the next one needs another token."""
        if key in self._given:
            self._drop(key)

    def release(self, key: Key) -> Key | None:
        """The gang will not try again, or not now. The last in the row gets its token, which costs the others
        no reconcile: that gang is returned. None where no gang waits for a later one.
        """
        if key not in self._given:
            return None
        now, at = self._clock(), self._drop(key)
        latest, last = self._row[-1] if self._row else (at, key)
        if at < now - BURST.total_seconds() or max(latest, at) <= now:
            return None  # Gone, or others have begun with tokens as late as any of these.
        self._next = max(latest, at)
        if latest <= at:
            return None
        self._drop(last)
        self._give(last, at)
        return last

    def _give(self, key: Key, at: float) -> None:
        self._given[key] = at
        self._row.insert(bisect_left(self._row, (at, key)), (at, key))

    def _drop(self, key: Key) -> float:
        at = self._given.pop(key)
        del self._row[bisect_left(self._row, (at, key))]
        return at

    def _forget(self, now: float) -> None:
        while self._row and self._row[0][0] <= now - TOKEN_EXPIRY:
            self._drop(self._row[0][1])
