"""Quotas derive from the machine table and never promise more than the pool."""

from hypothesis import given
from hypothesis import strategies as st

from muster.model.pools import Pool
from muster.model.quantities import MIB, Bytes, Gpus, Millicores, parse_cpu, parse_memory
from muster.model.queues import Allowance, Amount, Department
from muster.model.quotas import NOTHING, Resources, cpu_share, named_quota, quota, resources, unnamed, whole
from muster.model.stack import Stack
from tests.unit.model.model_stacks import CPU, H100, L4, gpus, stack, stacks, team, two_teams


def test_a_gpu_brings_its_part_of_its_node() -> None:
    machine = H100.machine
    assert resources(H100, gpus(8)) == Resources(
        machine.allocatable_cpu, Bytes(machine.allocatable_memory // MIB * MIB), Gpus(8)
    )
    assert resources(H100, gpus(2)).cpu == machine.allocatable_cpu * 2 // 8


def test_a_cpu_brings_its_part_of_the_memory() -> None:
    half = resources(CPU, Amount(cpu=Millicores(CPU.machine.allocatable_cpu // 2)))
    assert half.memory == CPU.machine.allocatable_memory // 2 // MIB * MIB
    assert half.gpus == 0


def test_explicit_figures_of_an_amount_override_derived_ones() -> None:
    amount = Amount(gpus=Gpus(2), cpu=parse_cpu("3"), memory=parse_memory("5Gi"))
    assert resources(L4, amount) == Resources(Millicores(3000), parse_memory("5Gi"), Gpus(2))


@given(st.sampled_from([L4, H100]), st.lists(st.integers(0, 16), max_size=6))
def test_parts_never_sum_to_more_than_the_whole(pool: Pool, counts: list[int]) -> None:
    total = NOTHING
    for count in counts:
        total += resources(pool, gpus(count))
    assert total.within(resources(pool, gpus(sum(counts))))


@given(stacks())
def test_default_cpu_shares_and_named_quotas_fit_the_cpu_pool(some: Stack) -> None:
    total = named_quota(some, CPU)
    for _, member in some.owners():
        if CPU.name not in member.allowance.quota:
            total += cpu_share(unnamed(some), CPU, weight=member.weight)
    assert total.within(whole(CPU))


def test_unnamed_cpu_is_divided_by_weight_after_what_is_named() -> None:
    some = stack(
        Department(
            name="research",
            teams=(
                team("named", Allowance(quota={"cpu": Amount(cpu=parse_cpu("2"))})),
                team("heavy", Allowance(weight=3)),
                team("light", Allowance(weight=1)),
            ),
        )
    )
    left = CPU.max_cpu - 2000
    assert cpu_share(unnamed(some), CPU, weight=3).cpu == left * 3 // 4
    assert cpu_share(unnamed(some), CPU, weight=1).cpu == left // 4


def test_a_team_has_no_gpu_that_it_does_not_name() -> None:
    some = two_teams(Allowance(quota={"l4": gpus(2)}))
    assert quota(unnamed(some), Allowance(), L4, weight=1) is None
    assert quota(unnamed(some), Allowance(quota={"l4": gpus(2)}), L4, weight=1) == resources(L4, gpus(2))
