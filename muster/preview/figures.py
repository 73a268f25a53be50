"""Formats amounts for reviewers.

The unit of a pool is GPUs, or CPU where its nodes have none. CPU and memory of a GPU pool are only shown when
they change and the GPUs do not. From ten CPUs on an amount is rounded to whole CPUs, unless that would hide
the difference of two amounts.
"""

from typing import Final

from muster.model.kueue.tree import in_pool_unit
from muster.model.names import DEVICES
from muster.model.pools import Pool
from muster.model.quantities import format_memory
from muster.model.quotas import NOTHING, Resources, is_unlimited
from muster.preview.compare.pools import PoolCost
from muster.preview.compare.quota import Quota, QuotaChange

HOURS_A_DAY: Final = 24
NOT_PRICED: Final = "not priced"
# Millicores from which an amount is rounded to whole CPUs.
_WHOLE: Final = 10_000


def format_amount(pool: Pool, value: int) -> str:
    """An amount in the pool's unit."""
    if is_unlimited(pool, value):
        return "unlimited"
    return str(value) if pool.is_gpu else _format_cpus(value)


def format_amounts(pool: Pool, before: int, after: int) -> str:
    """`1 → 2`, in the pool's unit."""
    one, two = format_amount(pool, before), format_amount(pool, after)
    if one == two and before != after and not is_unlimited(pool, before):
        one, two = (f"{each / 1000:.3f}" for each in (before, after))
    return format_change(one, two)


def format_unit(pool: Pool) -> str:
    return DEVICES[pool.device] if pool.is_gpu else "CPU"


def format_change(before: str, after: str) -> str:
    return after if before == after else f"{before} → {after}"


def format_resources(pool: Pool, before: Resources | None, after: Resources | None) -> str:
    """`1 → 2`; a missing side is a dash."""
    one, two = before or NOTHING, after or NOTHING
    if before is None or after is None or one == two:
        return format_change(_format_short(pool, before), _format_short(pool, after))
    if in_pool_unit(pool, one) != in_pool_unit(pool, two):
        return format_amounts(pool, in_pool_unit(pool, one), in_pool_unit(pool, two))
    return format_change(_format_long(pool, one), _format_long(pool, two))


def format_signed(pool: Pool, value: int) -> str:
    if not value:
        return "±0"
    if is_unlimited(pool, value):
        return "to unlimited" if value > 0 else "from unlimited"
    return f"{'+' if value > 0 else '−'}{format_amount(pool, abs(value))}"


def format_limits(change: QuotaChange, key: str) -> str:
    """The borrowing or lending limit, before and after."""
    return format_change(
        _format_limit(change.pool, change.before, key), _format_limit(change.pool, change.after, key)
    )


def format_reach(change: QuotaChange) -> str:
    """The most that the queue could use, before and after."""
    sides = [None if side is None else side.most for side in (change.before, change.after)]
    return format_change(*("–" if most is None else format_amount(change.pool, most) for most in sides))


def format_gpu_hours(pool: Pool | None) -> str:
    """GPU-hours a day, from the nodes that always exist to all nodes."""
    if pool is None or not pool.is_gpu:
        return "–" if pool is None else "0"
    least = pool.min_nodes * pool.gpus_per_node * HOURS_A_DAY
    return f"{least} to {pool.max_nodes * pool.gpus_per_node * HOURS_A_DAY}"


def format_cost(cost: PoolCost) -> str:
    """`USD 0.00 to 10.06 → 0.00 to 20.12` an hour, or that it is not priced."""
    if cost.before is None or cost.after is None or cost.currency is None:
        return NOT_PRICED
    before, after = (f"{side.least:.2f} to {side.most:.2f}" for side in (cost.before, cost.after))
    return f"{cost.currency} {format_change(before, after)}"


def _format_cpus(millis: int) -> str:
    """127 for 127120 millicores; 1.5 and 0.25 as they are."""
    if abs(millis) >= _WHOLE and millis % 1000:
        return str(round(millis / 1000))
    return f"{millis / 1000:g}" if millis % 1000 else str(millis // 1000)


def _format_limit(pool: Pool, side: Quota | None, key: str) -> str:
    if side is None or side.holding is None:
        return "–"
    limit = side.holding.borrow if key == "borrow" else side.holding.lend
    return "all" if limit is None else format_amount(pool, in_pool_unit(pool, limit))


def _format_short(pool: Pool, value: Resources | None) -> str:
    return "–" if value is None else format_amount(pool, in_pool_unit(pool, value))


def _format_long(pool: Pool, value: Resources) -> str:
    memory = format_memory(value.memory)
    return (
        f"{_format_short(pool, value)} ({_format_cpus(value.cpu)} CPU, {memory})"
        if pool.is_gpu
        else (f"{_format_short(pool, value)} ({memory})")
    )
