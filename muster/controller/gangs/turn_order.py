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
class Place:
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


def ahead(me: Place, others: Iterable[Place]) -> Place | None:
    """Who goes before `me` in the pool that it would ask next, or None when it is its turn."""
    if me.next_pool in me.asked:
        return None
    in_line = [other for other in others if other.uid != me.uid and _goes_before(other, me)]
    return min(in_line, key=lambda other: (me.next_pool not in other.asked, *_order(other)), default=None)


def crossed(me: Place, others: Iterable[Place]) -> Place | None:
    """A gang that goes first and has asked in a pool where `me` has asked as well: neither saw the other in
    time.
    """
    met = [other for other in others if other.uid != me.uid and other.asked & me.asked]
    return min((other for other in met if _order(other) < _order(me)), key=_order, default=None)


def _goes_before(other: Place, me: Place) -> bool:
    if me.next_pool in other.asked:
        return True
    return other.next_pool == me.next_pool and _order(other) < _order(me)


def _order(place: Place) -> tuple[int, datetime, str]:
    return -place.priority, place.since, place.uid
