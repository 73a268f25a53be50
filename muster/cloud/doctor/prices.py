"""The prices of a stack's machines, from the list of its cloud."""

from collections.abc import Callable, Iterator
from datetime import date

from muster.cloud.doctor.findings import Finding, State, passed
from muster.cloud.google import Google
from muster.cloud.price_lists.refresh import refreshed
from muster.errors import MusterError
from muster.model.prices import PriceTable
from muster.model.stack import Stack

_OWN_PRICES = "write the price into the file by hand, with its source"


def check_prices(
    stack: Stack,
    known: PriceTable,
    save: Callable[[PriceTable], None],
    *,
    day: date,
    cloud: Google | None = None,
) -> Iterator[Finding]:
    """Save what the list has, and say for each pool what a node costs."""
    try:
        table = refreshed(known, stack, day=day, cloud=cloud)
    except MusterError as error:
        fix = error.fix or _OWN_PRICES
        yield Finding("prices", State.UNKNOWN, f"the list was not read: {error.message}", fix)
        return
    save(table)
    for pool in stack.pools:
        price = table.of(pool, stack.cluster)
        if price is None:
            message = f"{pool.name}: no list has a price for {pool.machine.name} bought as {pool.capacity}"
            yield Finding("prices", State.UNKNOWN, message, _OWN_PRICES)
            continue
        amount = f"{price.hourly.normalize():f} {price.currency}"
        yield passed("prices", f"{pool.name}: {amount} a node and hour, without disks, read on {price.read}")
