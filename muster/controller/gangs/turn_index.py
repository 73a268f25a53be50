"""The line of split gangs, kept up with what changes and with what is being written.

A gang is computed anew only when it is marked, and only the gangs whose turn has come are reconciled. What a
decision requests counts from the decision on: between it and its writes the caches do not show it. All else
in memory is an index of the caches.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Final

import structlog

from muster.controller.gangs.actions import CreateRequest
from muster.controller.gangs.turn_order import Line, TurnPosition
from muster.controller.kube.resource import Key

_NOTHING: Final[frozenset[str]] = frozenset()


class TurnIndex(ABC):
    """`enqueue` reconciles a gang whose turn has come. A key may have several gangs."""

    def __init__(self) -> None:
        self.line = Line()
        self._positions: dict[Key, tuple[TurnPosition, ...]] = {}
        self._keys: dict[str, Key] = {}
        self._changed: dict[Key, None] = {}
        self._being_asked: dict[str, frozenset[str]] = {}
        """The pools of requests that are being written, by uid."""
        self._failed = set[str]()
        """Gangs whose last write failed: they delay no other until they try again."""
        self.enqueue: Callable[[Key], None] = lambda _: None

    @abstractmethod
    def _positions_of(self, key: Key, now: datetime) -> Iterable[TurnPosition]:
        """What the caches show of the gangs of this key that take turns."""

    def reconciling(self, key: Key, *, now: datetime) -> None:
        """Take in what has changed before this gang is decided."""
        for position in self._positions.get(key, ()):
            if position.uid in self._failed:
                self._failed.discard(position.uid)
                self._changed[key] = None
        self._update(key, now)

    @contextmanager
    def _asking(
        self, gang: TurnPosition | None, actions: Iterable[object], *, key: Key, now: datetime
    ) -> Iterator[None]:
        """While the requests among these are written, the gang counts as having them."""
        pools = frozenset(each.spec.pool for each in actions if isinstance(each, CreateRequest))
        if gang is None or not pools:
            yield
            return
        self._being_asked[gang.uid] = pools
        self._changed[key] = None
        self._update(key, now)
        try:
            yield
        except BaseException:
            self._failed.add(gang.uid)
            raise
        finally:
            del self._being_asked[gang.uid]
            self._changed[key] = None
            self._update(key, now)
            self._failed &= self._keys.keys()

    def _gone(self, key: Key) -> None:
        """No decision about it follows that would take this in."""
        self._changed.pop(key, None)
        self._enqueue_affected(self._replaced(key, ()), key)

    def _update(self, own: Key, now: datetime) -> None:
        """Reconcile those whose turn has come by what has changed. `own`: is reconciled anyway."""
        changed = list[TurnPosition]()
        for key in list(self._changed):
            changed += self._recomputed(key, now)
        self._enqueue_affected(changed, own)

    def _recomputed(self, key: Key, now: datetime) -> list[TurnPosition]:
        """A gang whose position cannot be computed has none: its own reconcile reports why."""
        self._changed.pop(key, None)
        after = tuple[TurnPosition, ...]()
        try:
            after = tuple(self._written_positions(key, now))
        except Exception:
            structlog.get_logger("gangs").exception("no turn", key=str(key))
        return self._replaced(key, after)

    def _written_positions(self, key: Key, now: datetime) -> Iterator[TurnPosition]:
        for gang in self._positions_of(key, now):
            if gang.uid in self._failed:
                yield replace(gang, next_pool="", unaccepted=_NOTHING)
            elif pools := self._being_asked.get(gang.uid):
                yield replace(gang, asked=gang.asked | pools, next_pool="")  # Its turn has come.
            else:
                yield gang

    def _enqueue_affected(self, changed: Sequence[TurnPosition], own: Key) -> None:
        for position in changed:
            for other in self.line.affected_by(position):
                if (key := self._keys[other.uid]) != own:
                    self.enqueue(key)

    def _replaced(self, key: Key, after: tuple[TurnPosition, ...]) -> list[TurnPosition]:
        """What has changed: positions as they were, and as they are."""
        before = self._positions.pop(key, ())
        if after:
            self._positions[key] = after
        gone = [position for position in before if position not in after]
        new = [position for position in after if position not in before]
        for position in gone:
            self.line.remove(position.uid)
            del self._keys[position.uid]
        for position in new:
            self.line.put(position)
            self._keys[position.uid] = key
        self._failed -= {position.uid for position in gone} - {position.uid for position in new}
        return gone + new
