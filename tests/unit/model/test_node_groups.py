"""Node groups of EKS: one a zone, each with a name that EKS takes and no other group has, and a bound."""

from dataclasses import replace

import pytest

from muster.model.clusters import Cluster
from muster.model.machines import MACHINES
from muster.model.pools import Pool
from muster.model.queues import Allowance, Amount, Department, Team
from muster.model.stack import Stack
from muster.model.violations import Violation
from muster.validation.amounts import amount_rules
from muster.validation.pools import node_group_rules
from tests.unit.model.model_stacks import CPU, EKS, GKE

POOL = replace(CPU, machine=MACHINES["m6i.xlarge"], max_nodes=4)


def pool(name: str, *zones: str) -> Pool:
    return replace(POOL, name=name, zones=zones)


def refused(*pools: Pool, cluster: Cluster = EKS) -> list[Violation]:
    return list(node_group_rules(pools, cluster))


def test_two_pools_whose_groups_would_have_one_name_are_refused() -> None:
    several, one = pool("h100"), pool("h100-us-east-1a", "us-east-1a")
    (violation,) = refused(several, one)
    assert violation.path == "muster:pools.h100-us-east-1a"
    assert "pool h100" in violation.message
    assert violation.level == "error"
    assert not refused(several, replace(one, zones=("us-east-1a", "us-east-1b")))
    assert not refused(several, one, cluster=GKE)


@pytest.mark.parametrize(("length", "zones", "is_refused"), [(52, 2, False), (53, 2, True), (63, 1, False)])
def test_a_name_that_is_too_long_with_its_zone_is_refused(length: int, zones: int, is_refused: bool) -> None:
    found = refused(pool("p" * length, *EKS.zones[:zones]))
    assert bool(found) is is_refused
    assert all("shorter by 1" in each.fix for each in found)


def unlimited(cluster: Cluster, given: Pool) -> list[Violation]:
    allowance = Allowance(quota={given.name: Amount(is_unlimited=True)})
    research = Department(name="research", teams=(Team(name="a", namespace="a", allowance=allowance),))
    return amount_rules(Stack(cluster=cluster, pools=(given,), departments=(research,)))


def test_a_quota_without_a_bound_is_warned_of_where_quota_is_the_only_bound() -> None:
    (violation,) = unlimited(EKS, pool("p"))
    assert (violation.path, violation.level) == ("muster:departments.research.teams.a.quota.p", "warning")
    assert "8 nodes in all, and not 4." in violation.message
    assert "muster:pools.p.zones" in violation.fix


@pytest.mark.parametrize(
    ("cluster", "given"),
    [
        (EKS, pool("p", "us-east-1a")),
        (EKS, replace(pool("p"), min_nodes=4)),
        (GKE, replace(CPU, zones=("us-central1-a", "us-central1-b"))),
    ],
)
def test_a_quota_without_a_bound_is_not_warned_of_where_nodes_have_one(cluster: Cluster, given: Pool) -> None:
    assert unlimited(cluster, given) == []
