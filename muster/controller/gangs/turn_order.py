"""Order in which split gangs that share a pool make their requests.

Prevents two gangs from holding half of their capacity each and waiting for the other half. Every split gang
requests its pools in one global order (split.py). In each pool a gang with requests that is not complete
precedes all others, then the highest priority, then the oldest quota. A gang of one request holds nothing
while it waits, so it takes no turn. With a stale cache two gangs may request in one pool: the later one then
releases its requests, and because the order is total, one of them always stays.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPosition:
    """A split gang that is not complete."""

    uid: str
    name: str
    since: datetime
    """When its quota was reserved."""
    asked: frozenset[str]
    """Pools in which it has live requests."""
    priority: int
    next_pool: str
    """The pool of its next request; empty when it has all of them."""


def blocking_gang(waiter: TurnPosition, others: Iterable[TurnPosition]) -> TurnPosition | None:
    """Return the gang that precedes `waiter` in its next pool; None when it is the turn of `waiter`."""
    if waiter.next_pool in waiter.asked:
        return None
    preceding = [other for other in others if other.uid != waiter.uid and _precedes(other, waiter)]
    return min(
        preceding, key=lambda other: (waiter.next_pool not in other.asked, *_order(other)), default=None
    )


def conflicting_gang(waiter: TurnPosition, others: Iterable[TurnPosition]) -> TurnPosition | None:
    """Return a preceding gang with requests in a pool of `waiter`: neither saw the other in time."""
    competing = [other for other in others if other.uid != waiter.uid and other.asked & waiter.asked]
    return min((other for other in competing if _order(other) < _order(waiter)), key=_order, default=None)


def _precedes(other: TurnPosition, waiter: TurnPosition) -> bool:
    if waiter.next_pool in other.asked:
        return True
    return other.next_pool == waiter.next_pool and _order(other) < _order(waiter)


def _order(position: TurnPosition) -> tuple[int, datetime, str]:
    return -position.priority, position.since, position.uid
