"""A price has a source and a date, or there is none."""

from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from muster.config import load
from muster.model.capacity import Capacity
from muster.model.machines import MACHINES
from muster.model.prices import BUILT_IN, PriceTable, read
from tests.unit.model.model_stacks import EKS, GKE, L4

STACKS = Path(__file__).parents[3] / "stacks"
POOL = replace(L4, machine=MACHINES["g5.xlarge"], capacity=Capacity.ON_DEMAND)
ROW: dict[str, Any] = {
    "machine": "g5.xlarge",
    "region": "us-east-1",
    "capacity": "on-demand",
    "hourly": 0.75,
    "read": date(2026, 11, 1),
    "source": "our contract",
}


def _table(**more: Any) -> PriceTable:
    found = read({"prices": [{**ROW, **more}]})
    assert isinstance(found, PriceTable)
    return found


def test_every_built_in_price_has_a_source_and_a_machine() -> None:
    for price in BUILT_IN.prices:
        assert price.source.startswith("https://"), price
        assert price.machine.partition(" with ")[0] in MACHINES, price
        assert price.hourly > 0, price


@pytest.mark.parametrize("name", ["eks-dev", "eks-prod", "gke-dev", "gke-prod", "kai-prod"])
def test_every_shipped_stack_of_a_cloud_has_prices(name: str) -> None:
    stack = load(STACKS / f"Pulumi.{name}.yaml")
    priced = [pool.name for pool in stack.pools if BUILT_IN.of(pool, stack.cluster)]
    assert "cpu" in priced
    # Capacity blocks, flex-start and Spot on EC2 are on no list.
    rest = {
        (pool.capacity, pool.machine.name.partition("-")[0])
        for pool in stack.pools
        if pool.name not in priced
    }
    assert all(capacity is not Capacity.ON_DEMAND for capacity, _ in rest), rest


def test_a_users_price_goes_before_ours_and_ours_stay() -> None:
    elsewhere = replace(EKS, region="us-west-2", zones=("us-west-2a",))
    mine = _table(region="us-west-2").before(BUILT_IN)
    assert [price and price.hourly for price in (mine.of(POOL, elsewhere), mine.of(POOL, EKS))] == [
        Decimal("0.75"),
        Decimal("1.006"),
    ]
    assert _table().before(BUILT_IN).of(POOL, EKS) == _table().of(POOL, EKS)


def test_queued_and_reserved_nodes_of_eks_cost_what_nodes_on_demand_cost() -> None:
    found = {
        capacity: BUILT_IN.of(replace(POOL, capacity=capacity), EKS)
        for capacity in (Capacity.ON_DEMAND, Capacity.QUEUED, Capacity.RESERVATION, Capacity.SPOT)
    }
    assert found.pop(Capacity.SPOT) is None
    assert {price and price.hourly for price in found.values()} == {Decimal("1.006")}


def test_the_price_of_attached_gpus_depends_on_how_many() -> None:
    attached = replace(L4, machine=MACHINES["n1-standard-8"], capacity=Capacity.SPOT)
    found = [BUILT_IN.of(replace(attached, gpus_per_node=count), GKE) for count in (0, 1, 2, 4)]
    # 0.08 for the machine, 0.11 for each T4.
    assert [price and str(price.hourly) for price in found] == [None, "0.19", "0.3", "0.52"]


def test_a_price_is_old_after_ninety_days() -> None:
    price = _table(read=date(2026, 7, 20)).prices[0]
    assert not price.is_old(date(2026, 10, 18))
    assert price.is_old(date(2026, 10, 19))


def test_a_machine_that_a_stack_describes_can_have_a_price() -> None:
    assert _table(machine="g8e.12xlarge").prices[0].machine == "g8e.12xlarge"


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ({"machine": "g5.xlarg"}, "prices[0].machine"),
        ({"capacity": "bought"}, "prices[0].capacity"),
        ({"hourly": "much"}, "prices[0].hourly"),
        ({"hourly": -1}, "prices[0].hourly"),
        ({"hourly": float("nan")}, "prices[0].hourly"),
        ({"hourly": True}, "prices[0].hourly"),
        ({"read": "yesterday"}, "prices[0].read"),
        ({"source": ""}, "prices[0].source"),
        ({"more": 1}, "prices[0]"),
    ],
)
def test_a_price_that_is_none_is_named_with_its_fix(more: dict[str, Any], path: str) -> None:
    found = read({"prices": [{**ROW, **more}]})
    assert not isinstance(found, PriceTable)
    assert [each.path for each in found] == [path]


@pytest.mark.parametrize("found", [None, [], {"prices": 3}, {"prices": [1]}, {"currency": "$", "prices": []}])
def test_a_file_of_another_shape_is_refused(found: object) -> None:
    assert not isinstance(read(found), PriceTable)
