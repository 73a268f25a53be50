"""A price has a source and a date, or there is none."""

from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from muster.model.capacity import Capacity
from muster.model.clusters import EksCluster
from muster.model.machines import MACHINES
from muster.model.prices import BUILT_IN, PriceTable, read
from tests.unit.model.model_stacks import CPU, GKE, L4

EKS = EksCluster(name="ml", region="us-east-1", zones=("us-east-1a", "us-east-1b"))
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


def test_every_built_in_price_has_a_source_and_a_date() -> None:
    for price in BUILT_IN.prices:
        assert price.source.startswith("https://")
        assert price.machine in MACHINES
        assert price.read > date(2026, 1, 1)


def test_a_users_price_goes_before_ours_and_ours_stay() -> None:
    mine = _table().before(BUILT_IN).of(POOL, EKS)
    elsewhere = _table(region="us-west-2").before(BUILT_IN).of(POOL, EKS)
    assert (mine and mine.hourly) == Decimal("0.75")
    assert (elsewhere and elsewhere.hourly) == Decimal("1.006")


def test_queued_nodes_of_eks_cost_what_nodes_on_demand_cost() -> None:
    assert BUILT_IN.of(replace(POOL, capacity=Capacity.QUEUED), EKS) is not None
    assert BUILT_IN.of(replace(POOL, capacity=Capacity.SPOT), EKS) is None


def test_a_machine_without_a_source_has_no_price() -> None:
    assert [BUILT_IN.of(pool, GKE) for pool in (CPU, L4)] == [None, None]


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
