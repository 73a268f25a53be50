"""Rate limit of retries, shared by all gangs and fair to each namespace.

A token bucket, so that thousands of gangs that failed together come back as a stream and not as a wave. The
namespaces take turns at its tokens, and the gangs of one namespace come in the order in which they failed: a
tenant with nine thousand delays another's first by one token. The backoff of a single gang is retry.py's.
Kept in memory only: a restart costs one burst.
"""

import time
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Final

from muster.controller.kube.resource import Key

BURST: Final = timedelta(seconds=6)
"""The bucket holds the tokens of so much time: a tenth of `retry.perMinute`."""
TOKEN_EXPIRY: Final = 600.0
"""Seconds after which a gang that did not come for its token loses its place."""
_EARLIER: Final = 0.001
"""Seconds by which a token has to come earlier than expected, for its gang to be reconciled for that."""


@dataclass(slots=True)
class _Place:
    number: int
    """Its place among the gangs of its namespace."""
    expected: float = float("inf")
    """When its token was due, by the last answer."""


class RetryLimiter:
    """Hands out the moments at which gangs may try again. `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next, self._interval = 0.0, 0.0
        self._places: dict[Key, _Place] = {}
        self._lanes: OrderedDict[str, list[tuple[int, Key]]] = OrderedDict()
        """The gangs that wait, by namespace: whose turn it is comes first."""
        self._numbers = count()

    def wait(self, key: Key, *, per_minute: int) -> timedelta:
        """How long until the gang's token is due, as things are now. 0 per minute: no limit."""
        if per_minute <= 0:
            return timedelta(0)
        now, self._interval = self._clock(), 60 / per_minute
        self._expire(now)
        # What was saved up is for those that wait, and one burst.
        self._next = max(self._next, now - BURST.total_seconds() - len(self._places) * self._interval)
        if key not in self._places:
            place = self._places[key] = _Place(next(self._numbers))
            self._lanes.setdefault(key.namespace, []).append((place.number, key))
        place = self._places[key]
        place.expected = self._next + self._rank(key, place) * self._interval
        return timedelta(seconds=max(0.0, place.expected - now))

    def consume(self, key: Key) -> Key | None:
        """The gang has begun its retry; the next one needs another token. Returns the gang whose token comes
        earlier than it expects, to be reconciled; None where there is none.
        """
        if key not in self._places:
            return None
        self._drop(key)
        self._next += self._interval
        if key.namespace in self._lanes:
            self._lanes.move_to_end(key.namespace)
        return self._sooner()

    def release(self, key: Key) -> Key | None:
        """The gang will not try again, or not now: those after it come earlier. Answers as `consume` does."""
        if key not in self._places:
            return None
        self._drop(key)
        return self._sooner()

    def _rank(self, key: Key, place: _Place) -> int:
        """How many come before it."""
        index = bisect_left(self._lanes[key.namespace], (place.number, key))
        before = sum(min(len(lane), index) for lane in self._lanes.values())
        for namespace, lane in self._lanes.items():
            if namespace == key.namespace:
                break
            before += len(lane) > index
        return before

    def _sooner(self) -> Key | None:
        """The next; the one after it is looked at when the next has begun."""
        if not self._lanes:
            return None
        _, key = next(iter(self._lanes.values()))[0]
        return key if self._places[key].expected > self._next + _EARLIER else None

    def _drop(self, key: Key) -> None:
        place, lane = self._places.pop(key), self._lanes[key.namespace]
        del lane[bisect_left(lane, (place.number, key))]
        if not lane:
            del self._lanes[key.namespace]

    def _expire(self, now: float) -> None:
        for lane in list(self._lanes.values()):
            while lane and self._places[lane[0][1]].expected <= now - TOKEN_EXPIRY:
                self._drop(lane[0][1])
