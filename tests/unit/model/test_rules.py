"""Every rule fires on what it is about, at its path, and on nothing else."""

from dataclasses import replace

import pytest

from muster.model.clusters import Cluster, ExistingCluster, Provider
from muster.model.machines import MACHINES
from muster.model.pools import Capacity, Pool, Reservation
from muster.model.priorities import Priority
from muster.model.quantities import Gpus, parse_cpu, parse_memory
from muster.model.queues import Allowance, Amount, Bound, Department, Limit
from muster.model.stack import Stack
from muster.validation import check
from tests.unit.model.model_stacks import CPU, EKS, GKE, H100, L4, gpus, stack, team, two_teams

TEAM_A = "muster:departments.research.teams.team-a"


def paths(some: Stack) -> list[str]:
    return [violation.path for violation in check(some, adjacent={})]


def message(some: Stack, path: str) -> str:
    return next(violation.message for violation in check(some, adjacent={}) if violation.path == path)


def test_a_sound_stack_breaks_no_rule() -> None:
    first = Allowance(
        quota={"l4": gpus(4)}, borrow=Limit(pools={"l4": gpus(2)}), lend=Limit(otherwise=Bound.NONE)
    )
    assert check(two_teams(first, Allowance(quota={"l4": gpus(4), "h100": gpus(8)})), adjacent={}) == []


@pytest.mark.parametrize("key", ["quota", "borrow", "lend"])
def test_an_unknown_pool_is_named_with_the_nearest_one(key: str) -> None:
    share = {"h10": gpus(1)}
    allowance = Allowance(quota=share) if key == "quota" else Allowance(**{key: Limit(pools=share)})  # type: ignore[arg-type]  # one key of three
    found = check(two_teams(allowance), adjacent={})
    assert [violation.path for violation in found] == [f"{TEAM_A}.{key}.h10"]
    assert "did you mean 'h100'?" in found[0].fix


def test_lending_more_than_the_quota_is_refused() -> None:
    some = two_teams(Allowance(quota={"l4": gpus(2)}, lend=Limit(pools={"h10": gpus(1), "l4": gpus(3)})))
    assert paths(some) == [f"{TEAM_A}.lend.h10", f"{TEAM_A}.lend.l4"]
    assert paths(two_teams(Allowance(quota={"l4": gpus(2)}, lend=Limit(pools={"l4": gpus(2)})))) == []


def test_what_a_department_lends_is_its_teams_quota() -> None:
    inner = Department(
        name="research",
        allowance=Allowance(lend=Limit(pools={"l4": gpus(1)})),
        teams=(team("team-a", Allowance(quota={"l4": gpus(2)})),),
    )
    assert paths(stack(Department(name="company", departments=(inner,)))) == []


def test_borrowing_without_a_lender_is_refused() -> None:
    wish = Allowance(borrow=Limit(pools={"l4": gpus(1)}))
    owner = Allowance(quota={"l4": gpus(1)})
    miser = replace(owner, lend=Limit(otherwise=Bound.NONE))
    assert paths(two_teams(wish)) == [f"{TEAM_A}.borrow.l4"]
    assert paths(two_teams(wish, miser)) == [f"{TEAM_A}.borrow.l4"]
    later = Allowance(borrow=Limit(pools={"h100": Bound.NONE, "l4": gpus(1)}))
    assert paths(two_teams(later)) == [f"{TEAM_A}.borrow.l4"]
    assert paths(two_teams(wish, owner)) == []


def test_departments_side_by_side_do_not_lend_to_each_other_and_nested_ones_do() -> None:
    wish = Department(
        name="research", teams=(team("team-a", Allowance(borrow=Limit(pools={"l4": gpus(1)}))),)
    )
    owner = Department(name="product", teams=(team("team-c", Allowance(quota={"l4": gpus(1)})),))
    assert paths(stack(wish, owner)) == [f"{TEAM_A}.borrow.l4"]
    assert paths(stack(Department(name="company", departments=(wish, owner)))) == []


def test_a_top_level_department_cannot_borrow_or_lend() -> None:
    top = Department(
        name="research", allowance=Allowance(borrow=Limit(otherwise=Bound.ALL)), teams=(team("team-a"),)
    )
    assert paths(stack(top)) == ["muster:departments.research.borrow"]


def test_quotas_fit_the_pool_together() -> None:
    some = two_teams(Allowance(quota={"l4": gpus(6)}), Allowance(quota={"l4": gpus(5)}))
    assert paths(some) == ["muster:pools.l4.maxNodes"]
    assert "team-a 6 GPUs" in message(some, "muster:pools.l4.maxNodes")
    assert paths(two_teams(Allowance(quota={"l4": gpus(5)}), Allowance(quota={"l4": gpus(5)}))) == []
    much = two_teams(Allowance(quota={"l4": Amount(gpus=Gpus(1), cpu=parse_cpu("500"))}))
    assert "quotas of 500 CPU" in message(much, "muster:pools.l4.maxNodes")


def test_half_a_node_is_a_warning_and_no_error() -> None:
    found = check(two_teams(Allowance(quota={"h100": gpus(12)})), adjacent={})
    assert [(violation.path, violation.level) for violation in found] == [(f"{TEAM_A}.quota.h100", "warning")]
    assert "8 or 16" in found[0].fix


@pytest.mark.parametrize(
    ("pool", "amount"),
    [
        ("cpu", Amount(gpus=Gpus(1))),
        ("l4", Amount(cpu=parse_cpu("1"))),
        ("cpu", Amount(memory=parse_memory("1Gi"))),
    ],
)
def test_a_pool_is_counted_in_its_own_unit(pool: str, amount: Amount) -> None:
    assert f"{TEAM_A}.quota.{pool}" in paths(two_teams(Allowance(quota={pool: amount})))


@pytest.mark.parametrize("name", ["Team", "a_b", "-a", "a-", "a.b", "", "x" * 64])
def test_names_are_dns_1123_labels(name: str) -> None:
    some = stack(Department(name="research", teams=(team(name),)))
    assert f"muster:departments.research.teams.{name}" in paths(some)


def test_departments_and_teams_share_one_space_of_names() -> None:
    some = stack(Department(name="a", teams=(team("b"),)), Department(name="b", teams=(team("c"),)))
    assert "muster:departments.a.teams.b" in paths(some)


def test_two_teams_never_share_a_namespace_nor_take_one_of_the_cluster() -> None:
    shared = replace(team("team-b"), namespace="team-a")
    assert paths(stack(Department(name="research", teams=(team("team-a"), shared)))) == [
        "muster:departments.research.teams.team-b.namespace"
    ]
    for reserved in ("kube-system", "kueue-system", "muster-system", "kube-public", "gpu-operator"):
        assert f"{TEAM_A}.namespace" in paths(
            stack(Department(name="research", teams=(replace(team("team-a"), namespace=reserved),)))
        )


def test_priorities_that_teams_name_exist_and_differ() -> None:
    some = stack(Department(name="research", teams=(team("team-a", priorities=("prd",)),)))
    assert paths(some) == [f"{TEAM_A}.priorities[0]"]
    twins = replace(some, priorities=(Priority(1, "prd"), Priority(1, "other")))
    assert paths(twins) == ["muster:priorities.other"]


_CLUSTERS: dict[Provider, Cluster] = {
    Provider.GKE: GKE,
    Provider.EKS: EKS,
    Provider.EXISTING: ExistingCluster(name="ml", context="ml"),
}


def _pools(*pools: Pool, provider: Provider = Provider.GKE) -> list[str]:
    cpu = replace(CPU, machine=MACHINES["m6i.xlarge"]) if provider is Provider.EKS else CPU
    return paths(Stack(cluster=_CLUSTERS[provider], pools=(cpu, *pools), departments=()))


@pytest.mark.parametrize(
    ("provider", "capacity", "legal"),
    [
        (Provider.GKE, Capacity.CAPACITY_BLOCK, False),
        (Provider.GKE, Capacity.RESERVATION, True),
        (Provider.EKS, Capacity.CAPACITY_BLOCK, True),
        (Provider.EXISTING, Capacity.SPOT, False),
        (Provider.EXISTING, Capacity.RESERVATION, False),
        (Provider.EXISTING, Capacity.ON_DEMAND, True),
    ],
)
def test_a_capacity_kind_is_legal_only_where_its_cloud_has_it(
    provider: Provider, capacity: Capacity, legal: bool
) -> None:
    reservation = Reservation(name="r") if capacity.is_reserved else None
    machine = MACHINES["p5.4xlarge" if provider is Provider.EKS else "g2-standard-8"]
    pool = replace(L4, machine=machine, capacity=capacity, provisioning_class=None, reservation=reservation)
    assert ("muster:pools.l4.capacity" not in _pools(pool, provider=provider)) is legal


def test_a_reservation_is_named_exactly_where_one_is_used() -> None:
    bare = replace(L4, capacity=Capacity.RESERVATION, provisioning_class=None)
    assert _pools(bare) == ["muster:pools.l4.reservation"]
    assert _pools(replace(L4, reservation=Reservation(name="r"))) == ["muster:pools.l4.reservation"]


def test_the_gke_class_is_not_served_on_eks() -> None:
    pool = replace(L4, machine=MACHINES["g6.2xlarge"])
    assert _pools(pool, provider=Provider.EKS) == ["muster:pools.l4.provisioningClass"]


def test_a_cpu_pool_is_never_queued_and_a_queued_pool_has_no_permanent_nodes() -> None:
    queued = replace(L4, name="more", machine=MACHINES["e2-standard-4"], gpus_per_node=0)
    assert _pools(queued) == ["muster:pools.more.capacity"]
    assert _pools(replace(L4, min_nodes=1)) == ["muster:pools.l4.minNodes"]


def test_a_stack_without_a_cpu_pool_has_no_place_for_heads() -> None:
    some = Stack(cluster=GKE, pools=(L4,), departments=())
    assert paths(some) == ["muster:pools"]


def test_the_system_pool_is_not_a_users() -> None:
    assert _pools(replace(H100, name="system")) == ["muster:pools.system"]
