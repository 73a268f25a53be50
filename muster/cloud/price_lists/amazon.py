"""AWS's list: what an instance costs for an hour.

Responsible for on-demand prices (the Price List API) and the spot price of the moment (EC2). Capacity blocks
have a price of their own each, so no list has them.
"""

import json
from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, Final

from muster.cloud.amazon import answered
from muster.model.capacity import Capacity
from muster.model.clusters import EksCluster
from muster.model.pools import Pool
from muster.model.prices import Price, bought_as

LIST_REGION: Final = "us-east-1"
"""The Price List API answers in few regions, for all of them:
https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/using-price-list-query-api.html
"""
LIST: Final = "AWS Price List API"
SPOT: Final = "EC2 spot price history"
_PLAIN_LINUX: Final = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
}


def prices(pools: Sequence[Pool], cluster: EksCluster, *, list_: Any, ec2: Any, day: date) -> Iterator[Price]:
    """The price of each pool's machine that AWS's lists have. Raises AmazonError."""
    for pool in pools:
        capacity = bought_as(pool, cluster)
        machine, source = pool.machine.name, LIST
        if capacity in (Capacity.ON_DEMAND, Capacity.RESERVATION):
            # An on-demand reservation is billed as on-demand instances are, used or not:
            # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-reservations-pricing-billing.html
            hourly = _on_demand(machine, cluster.region, list_)
        elif capacity is Capacity.SPOT:
            hourly, source = _spot(machine, pool.zones or cluster.zones, ec2), SPOT
        else:
            hourly = None
        if hourly is not None:
            yield Price(
                machine=machine,
                region=cluster.region,
                capacity=capacity,
                hourly=hourly,
                currency="USD",
                read=day,
                source=source,
            )


def _on_demand(machine: str, region: str, list_: Any) -> Decimal | None:
    """None where the list has no such product, or several prices for it."""
    wanted = {"instanceType": machine, "regionCode": region, **_PLAIN_LINUX}
    filters = [{"Type": "TERM_MATCH", "Field": key, "Value": value} for key, value in wanted.items()]
    products = answered(lambda: list_.get_products(ServiceCode="AmazonEC2", Filters=filters))["PriceList"]
    found = {amount for each in products for amount in _hourly(json.loads(each))}
    return found.pop() if len(found) == 1 else None


def _hourly(product: dict[str, Any]) -> Iterator[Decimal]:
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term.get("priceDimensions", {}).values():
            amount = dimension.get("pricePerUnit", {}).get("USD")
            if dimension.get("unit") == "Hrs" and amount is not None:
                yield Decimal(amount)


def _spot(machine: str, zones: Sequence[str], ec2: Any) -> Decimal | None:
    """The dearest zone's price now: any of the pool's zones may be the one that has stock."""
    history = answered(
        lambda: ec2.describe_spot_price_history(
            InstanceTypes=[machine],
            ProductDescriptions=["Linux/UNIX"],
            Filters=[{"Name": "availability-zone", "Values": list(zones)}],
            MaxResults=100,
        )
    )["SpotPriceHistory"]
    newest: dict[str, tuple[Any, Decimal]] = {}
    for each in history:
        zone, entry = each["AvailabilityZone"], (each["Timestamp"], Decimal(each["SpotPrice"]))
        newest[zone] = max(newest.get(zone, entry), entry)
    return max((price for _, price in newest.values()), default=None)
