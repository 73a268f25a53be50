"""Brings a table of prices up to date from the list of a stack's cloud.

Responsible for which prices are asked for: those that are missing, and those that a list gave before today.
Prices of the user's own are never replaced.
"""

from collections.abc import Iterator, Sequence
from datetime import date
from typing import Final

from muster.cloud import amazon as aws
from muster.cloud.google import Google
from muster.cloud.price_lists import amazon, google
from muster.errors import MusterError
from muster.model.clusters import EksCluster, GkeCluster
from muster.model.pools import Pool
from muster.model.prices import Price, PriceTable
from muster.model.stack import Stack

_FROM_A_LIST: Final = (amazon.LIST, amazon.SPOT, google.SKUS)


def refreshed(known: PriceTable, stack: Stack, *, day: date, cloud: Google | None = None) -> PriceTable:
    """The known prices, with those of the stack's pools as they are today. `cloud` replaces Google's address.

    Raises AmazonError or GoogleError, and MusterError where the known prices are not in USD as the lists are.
    Then no price is lost: the table that was known still holds.
    """
    other = next((each.currency for each in known.prices if each.currency != "USD"), None)
    if other is not None:
        raise MusterError(
            f"the lists are in USD, and the prices of this file in {other}.",
            fix="name another file for the prices of the list.",
        )
    pools = [pool for pool in stack.pools if not _is_settled(known.of(pool, stack.cluster), day)]
    found = tuple(_read(pools, stack, day, cloud)) if pools else ()
    replaced = {_key(price) for price in found}
    return PriceTable((*found, *(price for price in known.prices if _key(price) not in replaced)))


def _is_settled(price: Price | None, day: date) -> bool:
    return price is not None and (price.read >= day or not price.source.startswith(_FROM_A_LIST))


def _read(pools: Sequence[Pool], stack: Stack, day: date, cloud: Google | None) -> Iterator[Price]:
    cluster = stack.cluster
    if isinstance(cluster, GkeCluster):
        yield from google.prices(pools, cluster, google=cloud or Google(), day=day)
    elif isinstance(cluster, EksCluster):
        list_, ec2 = aws.client("pricing", amazon.LIST_REGION), aws.client("ec2", cluster.region)
        yield from amazon.prices(pools, cluster, list_=list_, ec2=ec2, day=day)


def _key(price: Price) -> tuple[str, str, str]:
    return price.machine, price.region, price.capacity
