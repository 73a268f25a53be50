"""Whose turn it is: split gangs that share a pool ask one after another.

Decides whether a gang may make its next request now, so that two gangs never hold half each and wait for the
other half. Every split gang asks its pools in one global order (split.py); in each pool, one that has asked
and is not whole yet goes before all others, then the one of the highest priority, then the one whose quota
is oldest. A gang of one request holds nothing while it waits, so it is never in line. A stale cache can let
two ask in one pool: the later in this order then gives way, and the order is total, so one of them always
stays.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPosition:
    """A split gang that is not whole yet."""

    uid: str
    name: str
    since: datetime
    """When its quota was reserved."""
    asked: frozenset[str]
    """Pools in which it has live requests."""
    priority: int
    next_pool: str
    """The pool that it asks next; empty when it has asked everywhere."""


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
