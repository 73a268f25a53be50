"""What a user reads while a gang waits.

Decides the words of a gang's progress, and that they change only when something has: the minutes that
passed are those at the last change, so a gang that waits costs no writes.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from muster.controller.gangs.deadlines import Deadline
from muster.controller.gangs.retry import History
from muster.controller.gangs.split import Ask, Gang
from muster.controller.gangs.verify import Room
from muster.model.gangpolicy import format_duration
from muster.model.waiting import clock, rounded

_AFTER: Final = " after "
_FAR: Final = timedelta(hours=12)


def waiting(what: str, limit: Deadline, now: datetime, *, told: str) -> str:
    """`2 of 4 l4 nodes after 12m of 30m; releases at 10:42 UTC`, or what was told before when only time has
    passed.
    """
    end = f" of {format_duration(limit.limit)}; releases at {clock(limit.at, far=limit.limit >= _FAR)}"
    before, after, _ = told.partition(_AFTER)
    if after and before == what and told.endswith(end):
        return told
    return f"{what}{_AFTER}{rounded(now - limit.began)}{end}"


def nodes(rooms: Sequence[Room]) -> str:
    """The first pool that is short, and how many are."""
    short = [room for room in rooms if not room.is_enough]
    first, wanted = short[0], short[0].wanted
    more = f", {len(short) - 1} more PodSets short" if len(short) > 1 else ""
    there = room(f"{first.placed} of {wanted.count}", wanted.pool, shares_nodes=wanted.shares_nodes)
    return f"{there} for {wanted.name}{more}"


def lacks(rooms: Sequence[Room]) -> str:
    """What a running gang has lost."""
    each = (f"{_lack(found)} for {found.wanted.name}" for found in rooms)
    return f"lacks {', '.join(each)}"


def _lack(found: Room) -> str:
    count, wanted = found.wanted.count - found.placed, found.wanted
    if count == 1 and not wanted.shares_nodes:
        return f"1 {wanted.pool} node"
    return room(str(count), wanted.pool, shares_nodes=wanted.shares_nodes)


def room(count: str, pool: str, *, shares_nodes: bool) -> str:
    """`2 of 4 l4 nodes`, where each pod has a node of its own."""
    return f"room for {count} pods on {pool}" if shares_nodes else f"{count} {pool} nodes"


def needed(ask: Ask) -> str:
    return room(str(ask.count), ask.pool, shares_nodes=ask.shares_nodes)


def stands(gang: Gang) -> str:
    """What has come, all of it."""
    count = sum(ask.count for ask in gang.asks)
    if gang.shares_nodes:
        return f"room for all {count} pods is provisioned"
    return f"all {count} nodes are provisioned"


def released(past: History) -> str:
    """What a user is told when a gang is released."""
    when = f" at {clock(past.retry_at)}" if past.retry_at else ""
    why = past.last_failure.rstrip(".")
    return f"{why}. Everything is released and no quota is held; try {past.tries + 1}{when}"
