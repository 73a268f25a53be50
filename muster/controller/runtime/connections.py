"""Which connections to the webhooks' port stay open.

Decides how many there may be in all and from one address, how many bytes of bodies they may hold, and how
long one may wait. The API server has no address and no certificate that every cluster knows, so every client
that reaches the port may connect. A new connection always gets a place: where all are taken, that one goes
which has waited longest since its last answer, those without any answer before all others. Leaves sockets,
TLS and HTTP to the webhook server.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final, Literal

HANDSHAKE_TIMEOUT: Final = 5
"""Seconds for a TLS handshake: the API server has waited longer than our timeoutSeconds by then."""

UNANSWERED: Final = 10.0
"""Seconds that a new connection may wait for its first answer."""

IDLE: Final = 120.0
"""Seconds between two reviews of one connection; the API server's own client closes after 90."""

Reason = Literal["full", "bodies", "idle"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """A waiting connection takes about 45 KiB, up to 150 where headers do not end: all of them and the bodies
    fit into the 256 MiB of the smallest webhook pod.
    """

    at_once: int = 768
    """Below the 1,024 files that some container runtimes let a process open."""
    of_one_source: int = 384
    """The API server reviews at most 600 requests at a time by default, with two pods to share them."""
    bytes_of_bodies: int = 32 * 1024 * 1024


@dataclass(eq=False, slots=True)
class Connection:
    """One client. `close` drops it at once, whatever it is about to send."""

    source: str
    close: Callable[[], None]
    since: float
    """When it was opened or, later, used last."""
    held: int = 0
    """Bytes of the body that is being read."""


class Connections:
    """All that are open, in two lines that are in order of time: strangers, and those that got an answer."""

    def __init__(
        self, *, clock: Callable[[], float], on_drop: Callable[[Reason], None], limits: Limits | None = None
    ) -> None:
        self._clock, self._on_drop, self._limits = clock, on_drop, limits or Limits()
        self._strangers: dict[Connection, None] = {}
        self._answered: dict[Connection, None] = {}
        self._of_source: Counter[str] = Counter()
        self._held = 0

    def __len__(self) -> int:
        return len(self._strangers) + len(self._answered)

    def open(self, source: str, close: Callable[[], None]) -> Connection:
        """A place for a new client, for which another may have to go."""
        if self._of_source[source] >= self._limits.of_one_source:
            self._drop(next(each for each in self._in_order() if each.source == source), "full")
        elif len(self) >= self._limits.at_once:
            self._drop(next(self._in_order()), "full")
        connection = Connection(source, close, self._clock())
        self._strangers[connection] = None
        self._of_source[source] += 1
        return connection

    def used(self, connection: Connection) -> None:
        """A request begins on it. To a stranger this gains nothing: every client can begin one."""
        if connection in self._answered:
            self.answered(connection)

    def hold(self, connection: Connection, size: int) -> None:
        """More of a body has arrived. Where there is too much, the client that waits longest goes."""
        if connection not in self:
            return
        connection.held += size
        self._held += size
        while self._held > self._limits.bytes_of_bodies:
            self._drop(next(each for each in self._in_order() if each.held), "bodies")

    def release(self, connection: Connection) -> None:
        """Its body is no longer needed."""
        self._held -= connection.held
        connection.held = 0

    def answered(self, connection: Connection) -> None:
        """It has got an answer to a review just now."""
        if connection in self:
            self._strangers.pop(connection, None)
            self._answered.pop(connection, None)
            self._answered[connection] = None
            connection.since = self._clock()

    def gone(self, connection: Connection) -> None:
        """It is closed, by whichever side."""
        if connection in self:
            self._strangers.pop(connection, None)
            self._answered.pop(connection, None)
            self.release(connection)
            self._of_source[connection.source] -= 1
            if not self._of_source[connection.source]:
                del self._of_source[connection.source]

    def drop_idle(self) -> None:
        """Drop each that has waited too long."""
        for line, longest in ((self._strangers, UNANSWERED), (self._answered, IDLE)):
            while line and self._clock() - (first := next(iter(line))).since >= longest:
                self._drop(first, "idle")

    def __contains__(self, connection: Connection) -> bool:
        return connection in self._strangers or connection in self._answered

    def _in_order(self) -> Iterator[Connection]:
        return chain(self._strangers, self._answered)

    def _drop(self, connection: Connection, reason: Reason) -> None:
        self.gone(connection)
        self._on_drop(reason)
        connection.close()
