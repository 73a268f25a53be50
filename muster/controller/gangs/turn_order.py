"""Order in which split gangs that share a pool make their requests, and which of them gives way.

Every split gang requests its pools in one global order (split.py). In a pool a gang makes its request when
those before it have had theirs Accepted, so that every cloud queue is entered in the same order, and the turn
passes on without waiting for nodes. Between gangs that have requested nothing the order is the highest
priority, then the oldest quota. A gang that has begun precedes those that have not, until it has asked for
everything. A gang of one request holds nothing while it waits, so it takes no turn.

A cloud need not serve its queue in order. So a gang that holds a part of its capacity releases it when it is
the last of a circle in which each lacks what the next one holds. The first of all gangs never gives way, so
one of them always goes on (docs/decisions/018-the-turn-of-split-gangs.md).
"""

from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Final

import structlog

from muster.controller.gangs.actions import CreateRequest
from muster.controller.kube.resource import Key

Order = tuple[int, datetime, str]


@dataclass(frozen=True, kw_only=True)
class TurnPosition:
    """A split gang that is not complete."""

    uid: str
    since: datetime
    """When its quota was reserved."""
    priority: int = 0
    pools: frozenset[str]
    asked: frozenset[str] = frozenset()
    """Pools in which it has live requests."""
    unaccepted: frozenset[str] = frozenset()
    """Pools in which it still has a request to make or to be Accepted. None by placeholders: no cloud queues
    those.
    """
    held: frozenset[str] = frozenset()
    """Pools in which a request of it is Provisioned."""
    short: frozenset[str] = frozenset()
    """Pools in which a request of it is Accepted and not Provisioned: it waits for the cloud's stock."""
    by_pods: frozenset[str] = frozenset()
    """Pools in which it asks by placeholders: whatever node comes there may serve any gang."""
    next_pool: str = ""
    """The pool of its next request; empty when it has all of them."""

    @cached_property
    def order(self) -> Order:
        return -self.priority, self.since, self.uid

    @property
    def is_waiting(self) -> bool:
        """It has requested nothing yet."""
        return bool(self.next_pool) and not self.asked

    @property
    def entering(self) -> frozenset[str]:
        """Pools in which it waits to begin: those of clouds' queues, where it has any, as they come first."""
        return self.unaccepted or self.pools

    @property
    def is_asking(self) -> bool:
        """It has begun, and has not joined the queue of every cloud that it needs."""
        return bool(self.asked and self.unaccepted)

    @property
    def wanting(self) -> frozenset[str]:
        """Pools in which it has placeholders without a node."""
        return self.by_pods & self.short

    @property
    def holds_part(self) -> bool:
        """It keeps capacity from others while it waits for more."""
        return bool(self.held and self.short)


@dataclass(slots=True)
class _Lane:
    """The gangs of one pool. Lists are sorted."""

    waiting: list[Order] = field(default_factory=list)
    asking: dict[str, None] = field(default_factory=dict)
    holding: list[Order] = field(default_factory=list)
    """Those that hold a part of their capacity, some of it here."""
    short: list[Order] = field(default_factory=list)
    """Those that hold a part of their capacity and lack some of this pool."""
    wanting: list[Order] = field(default_factory=list)
    """Those that have placeholders without a node here."""


class Line:
    """The split gangs that are not complete, by pool: a question costs what its gang's pools cost."""

    def __init__(self, positions: Iterable[TurnPosition] = ()) -> None:
        self._positions: dict[str, TurnPosition] = {}
        self._lanes: defaultdict[str, _Lane] = defaultdict(_Lane)
        for position in positions:
            self.put(position)

    def __iter__(self) -> Iterator[TurnPosition]:
        return iter(self._positions.values())

    def put(self, position: TurnPosition) -> None:
        self.remove(position.uid)
        self._positions[position.uid] = position
        for lane in self._lanes_of(position):
            if position.is_asking:
                lane.asking[position.uid] = None
        for ranked in self._ranked(position):
            insort(ranked, position.order)

    def remove(self, uid: str) -> None:
        if (position := self._positions.pop(uid, None)) is None:
            return
        for lane in self._lanes_of(position):
            lane.asking.pop(uid, None)
        for ranked in self._ranked(position):
            del ranked[bisect_left(ranked, position.order)]

    def must_wait(self, gang: TurnPosition) -> bool:
        """Whether another gang precedes it in its next pool."""
        if not gang.next_pool:
            return False
        if self._is_outranked(gang, gang.next_pool):
            return True
        if any(self._goes_first(other, gang) for other in self._asking(gang)):
            return True
        if gang.asked:
            return False
        if any(_is_before(self._lanes[pool].waiting, gang) for pool in gang.unaccepted):
            return True
        # One that has begun completes what it holds a part of before others take from the same pool.
        return any(_is_before(self._lanes[pool].short, gang) for pool in gang.entering)

    @staticmethod
    def _goes_first(other: TurnPosition, gang: TurnPosition) -> bool:
        """`other` has begun and has not asked for everything."""
        if other.order < gang.order:
            return gang.next_pool in other.unaccepted
        return not gang.asked and bool(other.unaccepted & gang.pools)

    def must_give_way(self, gang: TurnPosition) -> frozenset[str]:
        """The pools in which it has to release what it has requested, and ask again when its turn comes: all
        of them in a circle, and those where a gang of higher priority has placeholders without a node.
        """
        if self._closes_circle(gang):
            return gang.pools
        if not (gang.short or gang.next_pool):
            return frozenset()
        return frozenset(pool for pool in gang.by_pods if self._is_outranked(gang, pool))

    def _is_outranked(self, gang: TurnPosition, pool: str) -> bool:
        """Whether nodes of this pool are due to a gang of higher priority first. kube-scheduler would give
        them to the placeholder that has waited longest.
        """
        wanting = self._lanes[pool].wanting
        return bool(wanting) and -wanting[0][0] > gang.priority

    def _closes_circle(self, gang: TurnPosition) -> bool:
        """A preceding gang waits for what this one holds, and this one for what that one holds, be it through
        further preceding gangs.
        """
        if not (gang.holds_part and any(_is_before(self._lanes[pool].short, gang) for pool in gang.held)):
            return False
        preceding = self._waited_for_by(gang, before=gang.order)
        return any(other.short & gang.held for other in preceding)

    def affected_by(self, changed: TurnPosition) -> Iterator[TurnPosition]:
        """The gangs whose turn has come, or that must give way, now that this one is as it is or is gone."""
        found = {
            uid: self._positions[uid]
            for lane in self._lanes_of(changed)
            for uid in (*lane.asking, *(order[-1] for order in lane.waiting[:1]))
        }
        if changed.holds_part:
            found |= {each.uid: each for each in self._waited_for_by(changed)}
        for lane in (self._lanes[pool] for pool in changed.wanting):
            for ranked in (lane.wanting, lane.holding):
                later = ranked[bisect_left(ranked, (1 - changed.priority,)) :]
                found |= {order[-1]: self._positions[order[-1]] for order in later}
        found.pop(changed.uid, None)
        for position in found.values():
            if self.must_give_way(position) or (position.next_pool and not self.must_wait(position)):
                yield position

    def _waited_for_by(self, gang: TurnPosition, *, before: Order | None = None) -> Iterator[TurnPosition]:
        """The gangs that hold what it lacks, what one of those lacks, and so on: all that a circle with it
        has. `before`: only through gangs that precede this place.
        """
        pools, seen = list(gang.short), set[str]()
        while pools:
            holding = self._lanes[pools.pop()].holding
            for order in holding if before is None else holding[: bisect_left(holding, before)]:
                if order[-1] not in seen:
                    seen.add(order[-1])
                    position = self._positions[order[-1]]
                    pools += position.short
                    yield position

    def _lanes_of(self, gang: TurnPosition) -> list[_Lane]:
        return [self._lanes[pool] for pool in gang.pools]

    def _ranked(self, gang: TurnPosition) -> Iterator[list[Order]]:
        """The lists that it is in."""
        if gang.is_waiting:
            yield from (self._lanes[pool].waiting for pool in gang.entering)
        if gang.holds_part:
            yield from (self._lanes[pool].holding for pool in gang.held)
            yield from (self._lanes[pool].short for pool in gang.short)
        yield from (self._lanes[pool].wanting for pool in gang.wanting)

    def _asking(self, gang: TurnPosition) -> Iterator[TurnPosition]:
        """The others that share a pool with it and have begun and not asked for everything."""
        for uid in {uid for lane in self._lanes_of(gang) for uid in lane.asking} - {gang.uid}:
            yield self._positions[uid]


def _is_before(ranked: list[Order], gang: TurnPosition) -> bool:
    """Whether one of these precedes the gang."""
    return bool(ranked) and ranked[0] < gang.order


# The line of split gangs, kept up with what changes and with what is being written.
#
# A gang is computed anew only when it is marked, and only the gangs whose turn has come are reconciled. What
# a decision requests counts from the decision on: between it and its writes the caches do not show it. All
# else in memory is an index of the caches.


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
