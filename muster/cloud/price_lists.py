"""Prices of a stack's machines: the user's own, as YAML, and those of the clouds' public lists."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import yaml

from muster.cloud import clients
from muster.cloud.clients import Google, from_amazon, from_google
from muster.errors import MusterError
from muster.model.capacity import Capacity
from muster.model.clusters import EksCluster, GkeCluster
from muster.model.pools import Pool
from muster.model.prices import BUILT_IN, Price, PriceTable, bought_as, document, read
from muster.model.stack import Stack
from muster.printable import sanitize_line
from muster.whole_file import write_whole


class PriceError(MusterError):
    """A price file with mistakes; the message lists all of them."""


def load_prices(path: Path | None) -> PriceTable:
    """The user's prices, with Muster's own as a fallback. Without a file, Muster's own."""
    return BUILT_IN if path is None else read_price_file(path).before(BUILT_IN)


def read_price_file(path: Path) -> PriceTable:
    """The prices of one file."""
    try:
        found = read(yaml.safe_load(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise PriceError(
            f"{path}: cannot be read: {error.strerror}.", fix="name a price file that exists."
        ) from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        raise PriceError(f"{path}: not YAML.", fix="write `prices:` with a list below it.") from None
    if isinstance(found, PriceTable):
        return found
    raise PriceError(sanitize_line(f"{path}: {' '.join(str(each) for each in found)}", longest=2000))


def write_price_file(path: Path, table: PriceTable) -> None:
    """An interrupted run leaves the old file."""
    try:
        write_whole(path, yaml.safe_dump(document(table), sort_keys=False).encode())
    except OSError as error:
        raise PriceError(f"{path}: cannot be written: {error.strerror}.") from None


# AWS's list: what an instance costs for an hour.
#
# Responsible for on-demand prices (the Price List API) and the spot price of the moment (EC2). Capacity
# blocks have a price of their own each, so no list has them.

LIST_REGION: Final = "us-east-1"
"""The Price List API answers in few regions, for all of them:
https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/using-price-list-query-api.html
"""
AMAZON_LIST: Final = "AWS Price List API"
AMAZON_SPOT: Final = "EC2 spot price history"
_PLAIN_LINUX: Final = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
}


def amazon_prices(
    pools: Sequence[Pool], cluster: EksCluster, *, list_: Any, ec2: Any, day: date
) -> Iterator[Price]:
    """The price of each pool's machine that AWS's lists have. Raises AmazonError."""
    for pool in pools:
        capacity = bought_as(pool, cluster)
        machine, source = pool.machine.name, AMAZON_LIST
        if capacity in (Capacity.ON_DEMAND, Capacity.RESERVATION):
            # An on-demand reservation is billed as on-demand instances are, used or not:
            # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-reservations-pricing-billing.html
            hourly = _on_demand(machine, cluster.region, list_)
        elif capacity is Capacity.SPOT:
            hourly, source = _spot(machine, pool.zones or cluster.zones, ec2), AMAZON_SPOT
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
    products = from_amazon(lambda: list_.get_products(ServiceCode="AmazonEC2", Filters=filters))["PriceList"]
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
    history = from_amazon(
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


# Google's list: what a node costs for an hour, summed from its vCPUs, its memory and its GPUs.
#
# Responsible for on-demand and Spot machines without their disks. A machine has no price here unless each
# of its parts is on the list once: a sum without the GPU would mislead. Flex-start has SKUs of its own,
# which have not been compared with a bill, so queued pools have none either; TPUs are on another list.

Sku = Mapping[str, Any]
"""Of https://cloud.google.com/billing/docs/reference/rest/v1/services.skus"""

SKUS: Final = "https://cloud.google.com/skus"
_COMPUTE_ENGINE: Final = "services/6F81-5844-456A"
_PAGE: Final = 5000
_GIB: Final = 1024**3
# A reservation is billed as the machines in it:
# https://cloud.google.com/compute/docs/instances/reservations-overview
_USAGE: Final = {
    Capacity.ON_DEMAND: "OnDemand",
    Capacity.RESERVATION: "OnDemand",
    Capacity.SPOT: "Preemptible",
}
_SERIES: Final = {"n1": "N1 Predefined", "a3-megagpu": "A3Plus", "a3-ultragpu": "A3Ultra"}
"""How the names of SKUs begin, where that is not the series in capitals."""


def google_prices(
    pools: Sequence[Pool], cluster: GkeCluster, *, google: Google, day: date
) -> Iterator[Price]:
    """The price of each pool's machine that Google's list has. Raises GoogleError."""
    skus = list(_skus(google))
    for pool in pools:
        capacity = bought_as(pool, cluster)
        usage = _USAGE.get(capacity)
        here = [each for each in skus if usage and _is_sold(each, usage=usage, region=cluster.region)]
        parts = [(_sku(name, here), amount) for name, amount in _parts(pool)]
        known = [(sku, amount) for sku, amount in parts if sku is not None]
        if parts and len(known) == len(parts):
            yield Price(
                machine=pool.machine.name,
                region=cluster.region,
                capacity=capacity,
                hourly=sum((_unit_price(sku) * amount for sku, amount in known), Decimal()),
                currency="USD",
                read=day,
                source=f"{SKUS} ({', '.join(sku['skuId'] for sku, _ in known)})",
            )


def _skus(google: Google) -> Iterator[Sku]:
    """All of Compute Engine, in some pages."""
    listed = google.service("cloudbilling", "v1").services().skus()
    asked = listed.list(parent=_COMPUTE_ENGINE, pageSize=_PAGE, currencyCode="USD")
    while asked is not None:
        page = _page(asked)
        yield from page.get("skus", [])
        asked = listed.list_next(asked, page)


def _page(request: Any) -> Any:
    return from_google(lambda: request)


def _is_sold(sku: Sku, *, usage: str, region: str) -> bool:
    return sku["category"].get("usageType") == usage and region in sku.get("serviceRegions", [])


def _parts(pool: Pool) -> Iterator[tuple[str, Decimal]]:
    """What a node is billed as: the name of each part, and how many of its units.

    An accelerator whose SKU was not read gives a part that cannot be found.
    """
    machine, accelerator = pool.machine, pool.accelerator
    if accelerator is None or not accelerator.gke_whole:
        family = machine.name.rpartition("-")[0]
        letter = family.partition("-")[0]
        series = _SERIES.get(family) or _SERIES.get(letter) or letter.upper()
        yield f"{series} Instance Core", Decimal(machine.cpu) / 1000
        yield f"{series} Instance Ram", Decimal(machine.memory) / _GIB
    if accelerator is not None:
        yield accelerator.gke_sku, Decimal(pool.gpus_per_node)


def _sku(name: str, skus: Sequence[Sku]) -> Sku | None:
    """The one SKU of this name; None where there is none, or more than one."""
    pattern = re.compile(
        rf"(Spot Preemptible )?{re.escape(name)}( attached to Spot Preemptible VMs)? running in .+"
    )
    found = [each for each in skus if name and pattern.fullmatch(each["description"])]
    return found[0] if len(found) == 1 else None


def _unit_price(sku: Sku) -> Decimal:
    """In USD for an hour of a vCPU, a GiB or a GPU; the first tier that costs anything."""
    tiers = sku["pricingInfo"][-1]["pricingExpression"]["tieredRates"]
    amounts = [
        Decimal(tier["unitPrice"].get("units", 0)) + Decimal(tier["unitPrice"].get("nanos", 0)) / 10**9
        for tier in tiers
    ]
    return next((each for each in amounts if each), Decimal())


# Brings a table of prices up to date from the list of a stack's cloud.
#
# Responsible for which prices are asked for: those that are missing, and those that a list gave before today.
# Prices of the user's own are never replaced.

_FROM_A_LIST: Final = (AMAZON_LIST, AMAZON_SPOT, SKUS)


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
    found = tuple(_read_lists(pools, stack, day, cloud)) if pools else ()
    replaced = {_key(price) for price in found}
    return PriceTable((*found, *(price for price in known.prices if _key(price) not in replaced)))


def _is_settled(price: Price | None, day: date) -> bool:
    return price is not None and (price.read >= day or not price.source.startswith(_FROM_A_LIST))


def _read_lists(pools: Sequence[Pool], stack: Stack, day: date, cloud: Google | None) -> Iterator[Price]:
    cluster = stack.cluster
    if isinstance(cluster, GkeCluster):
        yield from google_prices(pools, cluster, google=cloud or Google(), day=day)
    elif isinstance(cluster, EksCluster):
        list_, ec2 = clients.client("pricing", LIST_REGION), clients.client("ec2", cluster.region)
        yield from amazon_prices(pools, cluster, list_=list_, ec2=ec2, day=day)


def _key(price: Price) -> tuple[str, str, str]:
    return price.machine, price.region, price.capacity
