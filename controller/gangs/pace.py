"""How fast gangs come back.

Decides when the retry of a gang may begin, so that thousands that failed together come back as a stream and
not as a wave: a bucket of tokens that all gangs share, each waiter with a token of its own coming to it.
Leaves the pause of each gang to retry.py. Kept in memory only: a restart costs one burst.
"""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final

BURST: Final = timedelta(seconds=6)
"""The bucket holds the tokens of so much time: a tenth of `retry.perMinute`."""
FORGOTTEN: Final = 600.0
"""Seconds after which a token that nobody has taken is gone."""


class Pace:
    """Hands out the moments at which gangs may try again. `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = 0.0
        self._given: dict[str, float] = {}

    def wait(self, uid: str, *, per_minute: int) -> timedelta:
        """How long the gang's token still takes; asked again, the same token. 0 per minute: no bound."""
        now = self._clock()
        if per_minute <= 0:
            return timedelta(0)
        if uid not in self._given:
            self._forget(now)
            at = max(self._next, now - BURST.total_seconds())
            self._given[uid], self._next = at, at + 60 / per_minute
        return timedelta(seconds=max(0.0, self._given[uid] - now))

    def taken(self, uid: str) -> None:
        """The gang has begun its retry; the next one needs another token."""
        self._given.pop(uid, None)

    def _forget(self, now: float) -> None:
        for uid, at in list(self._given.items()):  # In the order in which they were given, so by time.
            if at > now - FORGOTTEN:
                return
            del self._given[uid]
