"""The quota of teams as bars: guaranteed, borrowable, and in use where a snapshot shows it.

Responsible for what a bar contains. Not responsible for drawing it (svg.py). Bars of one pool have one scale.
"""

from collections.abc import Sequence

from muster.model.kueue.tree import in_pool_unit
from muster.model.quotas import is_unlimited
from muster.preview.compare.overuse import Used
from muster.preview.compare.quota import Quota, QuotaChange
from muster.preview.document import Bar
from muster.preview.figures import format_amount, format_amounts


def to_bars(changes: Sequence[QuotaChange], used: Used) -> tuple[Bar, ...]:
    """One bar for each change."""
    scales: dict[str, int] = {}
    for change in changes:
        amounts = (*_amounts(change), used.get((change.name, change.pool.name), 0))
        finite = [each for each in amounts if not is_unlimited(change.pool, each)]
        scales[change.pool.name] = max([scales.get(change.pool.name, 1), *finite])
    return tuple(_bar(each, used, scales[each.pool.name]) for each in changes)


def _bar(change: QuotaChange, used: Used, scale: int) -> Bar:
    before, after, most, reach = _amounts(change)
    now = used.get((change.name, change.pool.name))
    words = [
        f"guaranteed {format_amounts(change.pool, before, after)}",
        f"could use {format_amounts(change.pool, most, reach)}",
        *(() if now is None else (f"uses {format_amount(change.pool, now)} now",)),
    ]
    return Bar(before=before, after=after, reach=reach, used=now, scale=scale, label=", ".join(words))


def _amounts(change: QuotaChange) -> tuple[int, int, int, int]:
    """Guaranteed before and after, and the most that could be used before and after."""
    sides = change.before, change.after
    before, after = (0 if side is None else in_pool_unit(change.pool, side.own) for side in sides)
    most, reach = (_most(side) for side in sides)
    return before, after, most, reach


def _most(side: Quota | None) -> int:
    return 0 if side is None else side.most
