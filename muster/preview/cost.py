"""What a pool's nodes cost, before and after.

Decides that money is only told where both sides have a price of one currency, and that a span is told: from
the nodes that always stand to all of them. Leaves prices to the model.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from muster.model.pools import Pool
from muster.model.prices import Price, PriceTable
from muster.model.stack import Stack
from muster.preview.compare.changes import PoolChange
from muster.preview.figures import format_change

NOT_PRICED: Final = "not priced"


@dataclass(frozen=True, slots=True)
class HourlyCost:
    """What an hour of a side of a pool costs. `price` is None of a side that is not there."""

    least: Decimal
    most: Decimal
    price: Price | None


def hourly_cost(pool: Pool | None, stack: Stack | None, prices: PriceTable) -> HourlyCost | None:
    """The cost of a side; None where it has no price. A side that is not there costs nothing."""
    if pool is None or stack is None:
        return HourlyCost(Decimal(0), Decimal(0), None)
    price = prices.of(pool, stack.cluster)
    if price is None:
        return None
    return HourlyCost(pool.min_nodes * price.hourly, pool.max_nodes * price.hourly, price)


def format_cost(before: HourlyCost | None, after: HourlyCost | None) -> str:
    """`USD 0.00 to 10.06 → 0.00 to 20.12` an hour, or that it is not priced."""
    if before is None or after is None or len(currencies(before, after)) != 1:
        return NOT_PRICED
    (currency,) = currencies(before, after)
    return (
        f"{currency} {format_change(*(f'{side.least:.2f} to {side.most:.2f}' for side in (before, after)))}"
    )


def currencies(*sides: HourlyCost | None) -> set[str]:
    return {side.price.currency for side in sides if side is not None and side.price is not None}


@dataclass(frozen=True, slots=True)
class TotalCost:
    """All pools that change together: the most that an hour costs. `unpriced` pools are not in it."""

    currency: str
    before: Decimal
    after: Decimal
    unpriced: tuple[str, ...]


def total_cost(
    pools: tuple[PoolChange, ...], base: Stack | None, head: Stack | None, prices: PriceTable
) -> TotalCost | None:
    """None where nothing is priced, or in several currencies, which cannot be added."""
    sides = {
        each.name: (hourly_cost(each.before, base, prices), hourly_cost(each.after, head, prices))
        for each in pools
    }
    priced = [(one, two) for one, two in sides.values() if one is not None and two is not None]
    found = currencies(*(side for pair in priced for side in pair))
    if len(found) != 1:
        return None
    (currency,) = found
    unpriced = tuple(sorted(name for name, pair in sides.items() if None in pair))
    before, after = (sum((pair[side].most for pair in priced), Decimal(0)) for side in (0, 1))
    return TotalCost(currency, before, after, unpriced)
