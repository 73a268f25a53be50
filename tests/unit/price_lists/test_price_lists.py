"""Prices come from the clouds' lists, each with its day and source; an unclear list gives none."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from botocore.stub import Stubber

from muster import config
from muster.cloud import clients as aws
from muster.cloud.doctor.findings import State
from muster.cloud.doctor.support import check_prices
from muster.cloud.price_lists import read_price_file, refreshed, write_price_file
from muster.config.edit import template
from muster.model.capacity import Capacity
from muster.model.machines import MACHINES
from muster.model.pools import Pool
from muster.model.prices import PriceTable
from muster.model.regions import Provider
from muster.model.stack import Stack
from tests.unit.cloud.google_world import Routes, cloud

DAY = date(2026, 11, 23)
NONE = PriceTable(())
SKUS = "GET /v1/services/6F81-5844-456A/skus"


def stack(provider: Provider, *pools: Pool) -> Stack:
    made = config.parse(yaml.safe_load(template("here", provider))["config"], source="x")
    return replace(made, pools=pools)


def pool(machine: str, capacity: Capacity, gpus: int = 8) -> Pool:
    return Pool(name="p", machine=MACHINES[machine], gpus_per_node=gpus, capacity=capacity, max_nodes=1)


# ---- Google ------------------------------------------------------------------------


def sku(description: str, nanos: int, *, usage: str = "OnDemand", region: str = "us-central1") -> Any:
    return {
        "skuId": f"ID-{nanos}",
        "description": description,
        "category": {"usageType": usage, "resourceFamily": "Compute"},
        "serviceRegions": [region],
        "pricingInfo": [
            {"pricingExpression": {"tieredRates": [{"unitPrice": {"units": "0", "nanos": nanos}}]}}
        ],
    }


MEGA = [
    sku("A3Plus Instance Core running in Americas", 26_000_000),
    sku("A3Plus Instance Ram running in Americas", 2_000_000),
    sku("Nvidia H100 80GB Plus GPU running in Americas", 900_000_000),
    # Beside them on the list, and not what such a machine costs:
    sku("A3Plus Instance Core running in Frankfurt", 99_000_000, region="europe-west3"),
    sku("Reserved Nvidia H100 80GB Mega GPU in Americas in Calendar Mode", 400_000_000),
    sku("Nvidia H100 80GB GPU running in Americas", 800_000_000),
    sku("A3 Instance Core running in Americas", 29_000_000),
    sku("Commitment v1: Nvidia H100 80GB Plus GPU running in Americas for 1 Year", 1, usage="Commit1Yr"),
    sku("Spot Preemptible A3Plus Instance Core running in Americas", 10_000_000, usage="Preemptible"),
    sku("Spot Preemptible A3Plus Instance Ram running in Americas", 1_000_000, usage="Preemptible"),
    sku(
        "Nvidia H100 80GB Plus GPU attached to Spot Preemptible VMs running in Americas",
        500_000_000,
        usage="Preemptible",
    ),
]


def google_table(listed: list[Any], wanted: Pool, *, known: PriceTable = NONE) -> PriceTable:
    routes: Routes = {SKUS: (200, {"skus": listed})}
    with cloud(routes) as (_, here):
        return refreshed(known, stack(Provider.GKE, wanted), day=DAY, cloud=here)


def test_a_google_machine_costs_its_vcpus_its_memory_and_its_gpus() -> None:
    (price,) = google_table(MEGA, pool("a3-megagpu-8g", Capacity.ON_DEMAND)).prices
    assert price.hourly == Decimal("0.026") * 208 + Decimal("0.002") * 1872 + Decimal("0.9") * 8
    assert (price.region, price.currency, price.read) == ("us-central1", "USD", DAY)
    assert "ID-26000000" in price.source


def test_spot_has_its_own_skus() -> None:
    (price,) = google_table(MEGA, pool("a3-megagpu-8g", Capacity.SPOT)).prices
    assert price.hourly == Decimal("0.010") * 208 + Decimal("0.001") * 1872 + Decimal("0.5") * 8


def test_a_gpu_that_is_priced_with_its_machine_is_not_added_to_vcpus() -> None:
    listed = [sku("A4 Nvidia B200 (1 gpu slice) running in Americas", 16)]
    assert google_table(listed, pool("a4-highgpu-8g", Capacity.SPOT)).prices == ()  # It is on demand.
    listed = [sku("A4 Nvidia B200 (1 gpu slice) running in Americas", 16, usage="Preemptible")]
    (found,) = google_table(listed, pool("a4-highgpu-8g", Capacity.SPOT)).prices
    assert found.hourly == Decimal(16 * 8) / 10**9


@pytest.mark.parametrize(
    ("listed", "wanted"),
    [
        (MEGA[:2], pool("a3-megagpu-8g", Capacity.ON_DEMAND)),
        ([*MEGA, MEGA[2]], pool("a3-megagpu-8g", Capacity.ON_DEMAND)),
        (MEGA, pool("a3-megagpu-8g", Capacity.QUEUED)),
        (MEGA, pool("a2-highgpu-8g", Capacity.ON_DEMAND)),
    ],
    ids=["no GPU on the list", "two prices for the GPU", "flex-start", "another series"],
)
def test_a_machine_of_which_a_part_is_missing_or_twice_there_has_no_price(
    listed: list[Any], wanted: Pool
) -> None:
    assert google_table(listed, wanted).prices == ()


# ---- AWS -----------------------------------------------------------------------------


def product(*amounts: str, unit: str = "Hrs") -> str:
    dimensions = {f"d{at}": {"unit": unit, "pricePerUnit": {"USD": each}} for at, each in enumerate(amounts)}
    return json.dumps({"terms": {"OnDemand": {"t": {"priceDimensions": dimensions}}}})


@pytest.fixture
def amazon(monkeypatch: pytest.MonkeyPatch) -> dict[str, Stubber]:
    stubs: dict[str, Stubber] = {}
    clients: dict[str, Any] = {}
    for name in ("pricing", "ec2"):
        clients[name] = boto3.client(
            name, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b"
        )
        stubs[name] = Stubber(clients[name])
        stubs[name].activate()
    monkeypatch.setattr(aws, "client", lambda service, region: clients[service])
    return stubs


def test_an_instance_costs_what_the_price_list_says(amazon: dict[str, Stubber]) -> None:
    amazon["pricing"].add_response("get_products", {"PriceList": [product("98.32")]})
    wanted = stack(Provider.EKS, pool("p5.48xlarge", Capacity.QUEUED))
    (price,) = refreshed(NONE, wanted, day=DAY).prices
    # On EKS a queued pool's nodes are billed as on demand.
    assert (price.hourly, price.capacity) == (Decimal("98.32"), Capacity.ON_DEMAND)


def test_several_prices_for_one_instance_are_none(amazon: dict[str, Stubber]) -> None:
    amazon["pricing"].add_response("get_products", {"PriceList": [product("1.0"), product("2.0")]})
    wanted = stack(Provider.EKS, pool("p5.48xlarge", Capacity.ON_DEMAND))
    assert refreshed(NONE, wanted, day=DAY).prices == ()


def test_spot_costs_what_the_dearest_zone_asks_now(amazon: dict[str, Stubber]) -> None:
    def entry(zone: str, hour: int, price: str) -> dict[str, Any]:
        at = datetime(2026, 11, 23, hour, tzinfo=UTC)
        return {"AvailabilityZone": zone, "Timestamp": at, "SpotPrice": price}

    history = [entry("us-east-1a", 9, "9"), entry("us-east-1a", 10, "30"), entry("us-east-1b", 8, "40")]
    amazon["ec2"].add_response("describe_spot_price_history", {"SpotPriceHistory": history})
    (price,) = refreshed(NONE, stack(Provider.EKS, pool("p5.48xlarge", Capacity.SPOT)), day=DAY).prices
    assert price.hourly == Decimal(40)


def test_capacity_blocks_are_on_no_list(amazon: dict[str, Stubber]) -> None:
    wanted = stack(Provider.EKS, pool("p5.48xlarge", Capacity.CAPACITY_BLOCK))
    assert refreshed(NONE, wanted, day=DAY).prices == ()


# ---- the file ------------------------------------------------------------------------


def test_prices_of_todays_list_and_ones_own_are_not_read_again(
    amazon: dict[str, Stubber], tmp_path: Path
) -> None:
    wanted = stack(Provider.EKS, pool("p5.48xlarge", Capacity.ON_DEMAND))
    file = tmp_path / "prices.yaml"
    amazon["pricing"].add_response("get_products", {"PriceList": [product("98.32")]})
    write_price_file(file, refreshed(NONE, wanted, day=DAY))
    table = read_price_file(file)
    assert refreshed(table, wanted, day=DAY) == table  # The stub has no second answer.
    amazon["pricing"].add_response("get_products", {"PriceList": [product("90")]})
    (newer,) = refreshed(table, wanted, day=date(2026, 11, 24)).prices
    assert newer.hourly == Decimal(90)
    own = PriceTable((replace(newer, source="our contract", read=date(2020, 1, 1)),))
    assert refreshed(own, wanted, day=DAY) == own


def test_prices_in_another_currency_are_never_lost(amazon: dict[str, Stubber], tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    text = (
        "currency: EUR\nprices:\n- {machine: p5.48xlarge, region: us-east-1, capacity: on-demand, hourly: 40,"
    )
    file.write_text(text + " read: 2026-11-01, source: our contract}\n")
    before, saved = file.read_text(), list[PriceTable]()
    wanted = stack(Provider.EKS, pool("p4d.24xlarge", Capacity.ON_DEMAND))
    (found,) = check_prices(wanted, read_price_file(file), saved.append, day=DAY)
    assert "the prices of this file in EUR" in found.message
    assert found.fix == "name another file for the prices of the list."
    assert (saved, file.read_text()) == ([], before)


def test_a_list_that_cannot_be_read_leaves_the_file_alone(amazon: dict[str, Stubber]) -> None:
    amazon["pricing"].add_client_error("get_products", "AccessDeniedException", "no pricing:GetProducts")
    wanted = stack(Provider.EKS, pool("p5.48xlarge", Capacity.ON_DEMAND))
    saved: list[PriceTable] = []
    (found,) = check_prices(wanted, NONE, saved.append, day=DAY)
    assert found.state is State.UNKNOWN
    assert "no pricing:GetProducts" in found.message
    assert saved == []


def test_the_doctor_gives_the_price_of_each_pool(amazon: dict[str, Stubber]) -> None:
    amazon["pricing"].add_response("get_products", {"PriceList": [product("98.3200000000")]})
    wanted = stack(
        Provider.EKS, pool("p5.48xlarge", Capacity.ON_DEMAND), pool("p4d.24xlarge", Capacity.CAPACITY_BLOCK)
    )
    saved: list[PriceTable] = []
    unpriced, priced = sorted(
        check_prices(wanted, NONE, saved.append, day=DAY), key=lambda each: each.state, reverse=True
    )
    assert priced.message == "p: 98.32 USD a node and hour, without disks, read on 2026-11-23"
    assert unpriced.state is State.UNKNOWN
    assert len(saved) == 1
