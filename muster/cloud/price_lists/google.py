"""Google's list: what a node costs for an hour, summed from its vCPUs, its memory and its GPUs.

Responsible for on-demand and Spot machines without their disks. A machine has no price here unless each of
its parts is on the list once: a sum without the GPU would mislead. Flex-start has SKUs of its own, which have
not been compared with a bill, so queued pools have none either; TPUs are on another list.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, Final

from muster.cloud.google import Google, answered
from muster.model.capacity import Capacity
from muster.model.clusters import GkeCluster
from muster.model.pools import Pool
from muster.model.prices import Price, bought_as

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


def prices(pools: Sequence[Pool], cluster: GkeCluster, *, google: Google, day: date) -> Iterator[Price]:
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
    return answered(lambda: request)


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
