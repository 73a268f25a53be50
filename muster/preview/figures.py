"""Amounts in the words of a reviewer.

Decides the unit of a pool (GPUs, or CPU where it has none) and when CPU and memory beside a GPU are worth
saying: when they change and the GPUs do not.
"""

from typing import Final

from muster.model.pools import Pool
from muster.model.quantities import Millicores, format_cpu, format_memory
from muster.model.quotas import NOTHING, Resources
from muster.preview.compare.changes import Quota, QuotaChange
from muster.preview.tree import count

HOURS_A_DAY: Final = 24


def amount(pool: Pool, value: int) -> str:
    """A figure in the pool's unit."""
    return str(value) if pool.is_gpu else format_cpu(Millicores(value))


def unit(pool: Pool) -> str:
    return "GPU" if pool.is_gpu else "CPU"


def arrow(before: str, after: str) -> str:
    return after if before == after else f"{before} → {after}"


def resources(pool: Pool, before: Resources | None, after: Resources | None) -> str:
    """`1 → 2`; a side that is not there is a dash."""
    one, two = before or NOTHING, after or NOTHING
    if before is None or after is None or count(pool, one) != count(pool, two) or one == two:
        return arrow(_short(pool, before), _short(pool, after))
    return arrow(_long(pool, one), _long(pool, two))


def difference(change: QuotaChange) -> int:
    """The gain or loss of guaranteed quota, in the pool's unit."""
    one, two = quota(change.before), quota(change.after)
    return count(change.pool, two) - count(change.pool, one)


def signed(pool: Pool, value: int) -> str:
    if not value:
        return "±0"
    return f"{'+' if value > 0 else '−'}{amount(pool, abs(value))}"


def quota(side: Quota | None) -> Resources:
    return NOTHING if side is None else side.own


def limits(change: QuotaChange, key: str) -> str:
    """The borrowing or lending limit, before and after."""
    return arrow(_limit(change.pool, change.before, key), _limit(change.pool, change.after, key))


def reach(change: QuotaChange) -> str:
    """The most that the queue could use, before and after."""
    sides = [None if side is None else side.most for side in (change.before, change.after)]
    before, after = ("–" if most is None else amount(change.pool, most) for most in sides)
    return arrow(before, after)


def gpu_hours(pool: Pool | None) -> str:
    """GPU-hours a day, from the nodes that always stand to all of them."""
    if pool is None or not pool.is_gpu:
        return "–" if pool is None else "0"
    least = pool.min_nodes * pool.gpus_per_node * HOURS_A_DAY
    return f"{least} to {pool.max_nodes * pool.gpus_per_node * HOURS_A_DAY}"


def _limit(pool: Pool, side: Quota | None, key: str) -> str:
    if side is None or side.holding is None:
        return "–"
    limit = side.holding.borrow if key == "borrow" else side.holding.lend
    return "all" if limit is None else amount(pool, count(pool, limit))


def _short(pool: Pool, value: Resources | None) -> str:
    return "–" if value is None else amount(pool, count(pool, value))


def _long(pool: Pool, value: Resources) -> str:
    beside = f"{format_memory(value.memory)}"
    return (
        f"{_short(pool, value)} ({format_cpu(value.cpu)} CPU, {beside})"
        if pool.is_gpu
        else (f"{_short(pool, value)} ({beside})")
    )
