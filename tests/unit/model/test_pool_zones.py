"""A GKE pool is in zones that sell its machine: GKE itself picks zones without the accelerator, and fails."""

from dataclasses import replace

from muster.model.clusters import GkeCluster
from muster.model.machines import machines_of, zones_selling
from muster.model.pools import Pool
from muster.model.regions import REGIONS, Provider
from muster.validation.pools import node_rules
from tests.unit.model.model_stacks import CPU, L4

CLUSTER = GkeCluster(name="ml", project="p", region="us-central1")
FOUR_ZONES = replace(CLUSTER, zones=tuple(f"us-central1-{letter}" for letter in "abcf"))


def _warnings(pool: Pool, cluster: GkeCluster) -> list[str]:
    return [str(each) for each in node_rules(pool, cluster, "muster:pools.l4") if each.level == "warning"]


def test_without_zones_a_gpu_pool_has_those_of_the_region_that_sell_its_machine() -> None:
    sold = ("us-central1-a", "us-central1-b", "us-central1-c")
    assert CLUSTER.zones_of(L4) == FOUR_ZONES.zones_of(L4) == sold
    assert FOUR_ZONES.zones_of(CPU) == FOUR_ZONES.zones
    assert CLUSTER.zones_of(CPU) == ()


def test_what_a_stack_names_is_kept_and_warned_of() -> None:
    named = replace(L4, zones=("us-central1-f",))
    assert FOUR_ZONES.zones_of(named) == ("us-central1-f",)
    (warning,) = _warnings(named, FOUR_ZONES)
    assert "g2-standard-8 was not sold in us-central1-f" in warning
    assert "zones: [us-central1-a, us-central1-b, us-central1-c]" in warning
    assert not _warnings(L4, FOUR_ZONES)


def test_a_region_that_sells_none_is_warned_of_where_zones_are_named() -> None:
    cluster = replace(CLUSTER, region="us-west2", zones=("us-west2-a",))
    assert cluster.zones_of(L4) == ("us-west2-a",)
    (warning,) = _warnings(L4, cluster)
    assert "choose another region or machine" in warning


def test_a_zonal_cluster_keeps_its_zone() -> None:
    zonal = replace(CLUSTER, zone="us-central1-f", zones=("us-central1-f",))
    assert zonal.zones_of(L4) == ("us-central1-f",)


def test_the_table_has_only_zones_of_regions() -> None:
    zones = {zone for name in machines_of(Provider.GKE) for zone in zones_selling(name)}
    assert {zone.rpartition("-")[0] for zone in zones} <= REGIONS[Provider.GKE]
