"""The price of a node for an hour, for machines whose price has a source.

Responsible for which price applies to a pool. Every price has a date and a source, because a reader would
trust a number without one. A price of the user's table overrides the built-in one, of the lists in prices.csv
and prices.toml.
"""

import csv
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal, InvalidOperation
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from muster.model.capacity import Capacity
from muster.model.clusters import Cluster
from muster.model.machines import MACHINES, similar_machines
from muster.model.pools import Pool
from muster.model.regions import Provider
from muster.model.violations import Violation, at, suggestion

OLD: Final = timedelta(days=90)


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The price of one node for an hour. `machine` is `NAME with COUNT ACCELERATOR` where the price holds for
    that many attached GPUs alone. `read`: the day on which the source was read.
    """

    machine: str
    region: str
    capacity: Capacity
    hourly: Decimal
    currency: str
    read: date
    source: str

    def is_old(self, today: date) -> bool:
        """Whether it was read more than 90 days ago, which a report has to say."""
        return today - self.read > OLD


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Prices, the first that fits wins."""

    prices: tuple[Price, ...]

    def of(self, pool: Pool, cluster: Cluster) -> Price | None:
        """The price of one node of a pool; None where nothing is known."""
        region, capacity = getattr(cluster, "region", ""), bought_as(pool, cluster)
        names = (
            pool.machine.name,
            f"{pool.machine.name} with {pool.gpus_per_node} {pool.machine.accelerator}",
        )
        return next(
            (
                each
                for each in self.prices
                if each.machine in names and (each.region, each.capacity) == (region, capacity)
            ),
            None,
        )

    def before(self, other: "PriceTable") -> "PriceTable":
        """This table, and the other where this one is silent."""
        return PriceTable((*self.prices, *other.prices))


def bought_as(pool: Pool, cluster: Cluster) -> Capacity:
    """How a pool's nodes are billed: on EKS queueing is the autoscaler's affair, the nodes are on demand."""
    if pool.capacity is Capacity.QUEUED and cluster.provider is Provider.EKS:
        return Capacity.ON_DEMAND
    return pool.capacity


def _built_in() -> Iterator[Price]:
    """The lists of prices.csv. A reservation is billed as the machines in it are on demand, used or not:
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-reservations-pricing-billing.html and
    https://cloud.google.com/compute/docs/instances/reservations-overview
    """
    folder = files("muster.model")
    lists = tomllib.loads((folder / "prices.toml").read_text(encoding="utf-8"))
    with (folder / "prices.csv").open(encoding="utf-8") as table:
        for row in csv.DictReader(table):
            price = Price(
                machine=row["machine"],
                region=row["region"],
                capacity=Capacity(row["capacity"]),
                hourly=Decimal(row["hourly"]),
                currency="USD",
                **lists[row["list"]],
            )
            yield price
            if price.capacity is Capacity.ON_DEMAND:
                yield replace(price, capacity=Capacity.RESERVATION)


BUILT_IN: Final = PriceTable(tuple(_built_in()))

_FIELDS: Final = ("machine", "region", "capacity", "hourly", "read", "source")
_EXAMPLE: Final = MappingProxyType(
    {
        "machine": "p5.48xlarge",
        "region": "us-east-1",
        "capacity": "on-demand",
        "hourly": "12.34",
        "read": "2026-11-01",
        "source": "our contract",
    }
)


def read(found: object) -> PriceTable | list[Violation]:
    """A user's table: `{currency: USD, prices: [{machine, region, capacity, hourly, read, source}]}`."""
    if not isinstance(found, Mapping) or not isinstance(found.get("prices"), Sequence):
        return [
            Violation("prices", "is no list of prices.", f"write `prices:` with items such as {_shown()}.")
        ]
    currency = found.get("currency", "USD")
    if not isinstance(currency, str) or len(currency) != 3 or not currency.isupper():
        return [Violation("currency", f"{currency!r} is no currency.", "use three capitals, such as USD.")]
    prices: list[Price] = []
    wrong: list[Violation] = []
    for index, each in enumerate(found["prices"]):
        problems = list(_judge(each, at("prices", index)))
        wrong += problems
        if not problems:
            prices.append(_price(each, currency))
    return wrong or PriceTable(tuple(prices))


def document(table: PriceTable) -> dict[str, object]:
    """What `read` reads. All prices must have one currency, as a file does."""
    (currency,) = {each.currency for each in table.prices} or {"USD"}
    prices = [{name: getattr(each, name) for name in _FIELDS} for each in table.prices]
    return {
        "currency": currency,
        "prices": [
            {**each, "capacity": each["capacity"].value, "hourly": str(each["hourly"])} for each in prices
        ],
    }


def _shown() -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in _EXAMPLE.items()) + "}"


def _judge(found: object, path: str) -> Iterator[Violation]:
    if not isinstance(found, Mapping) or set(found) != set(_FIELDS):
        yield Violation(path, f"needs exactly {', '.join(_FIELDS)}.", f"write it like {_shown()}.")
        return
    # Another name may be that of a machine which a stack describes.
    named = str(found["machine"])
    if named not in MACHINES and (near := similar_machines(named, MACHINES)):
        fix = suggestion(named, near, noun="machine")
        yield Violation(at(path, "machine"), f"{named!r} is no machine in the table.", fix)
    if found["capacity"] not in list(Capacity):
        fix = suggestion(str(found["capacity"]), list(Capacity), noun="capacity")
        yield Violation(at(path, "capacity"), f"{found['capacity']!r} is no way to buy a node.", fix)
    if _amount(found["hourly"]) is None:
        yield Violation(
            at(path, "hourly"), f"{found['hourly']!r} is no price.", "write a number such as 1.006."
        )
    if _day(found["read"]) is None:
        yield Violation(at(path, "read"), f"{found['read']!r} is no day.", "write it like 2026-11-01.")
    for name in ("region", "source"):
        if not isinstance(found[name], str) or not found[name]:
            yield Violation(at(path, name), "is empty.", f"write the {name}; a price needs one.")


def _price(found: Mapping[str, object], currency: str) -> Price:
    hourly, day = _amount(found["hourly"]), _day(found["read"])
    assert hourly is not None
    assert day is not None
    return Price(
        machine=str(found["machine"]),
        region=str(found["region"]),
        capacity=Capacity(str(found["capacity"])),
        hourly=hourly,
        currency=currency,
        read=day,
        source=str(found["source"]),
    )


def _amount(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        return None
    return amount if amount.is_finite() and 0 <= amount < 1_000_000 else None


def _day(value: object) -> date | None:
    if isinstance(value, date):
        return value
    try:
        return date.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
