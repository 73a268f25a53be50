"""How many nodes pods need that share GPUs is one answer, before they are created and behind the gate."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from muster.controller.gangs.gpu_parts import Share, SharedGpus, shared_gpus
from muster.controller.gangs.limits import nodes_needed, too_large
from muster.controller.gangs.objects import Container, ResourceNeeds
from muster.controller.kai.objects import GatedPod, GatedSpec
from muster.controller.kai.pod_groups import pod_group_demands
from muster.controller.kube.resource import ObjectMeta
from muster.controller.kueue.jobs import JobPodSet
from muster.controller.kueue.limits import Pools, nodes_for, with_parts
from muster.model.gangpolicy import GangPolicy, KaiPolicy
from muster.model.names import GPU_RESOURCE, POOL_LABEL
from tests.unit.gangs.paper import flavor_policy
from tests.unit.kai.kai_world import Group, World


def policy_of(gpus: int, cpus: int) -> GangPolicy:
    flavor = flavor_policy("l4", 10, gpus_per_node=gpus, per_node={"cpu": str(cpus)})
    return GangPolicy(flavors=(flavor,), kai=KaiPolicy())


def behind_the_gate(policy: GangPolicy, count: int, notes: dict[str, str], cpus: int) -> int | None:
    """Nodes, or None where a node never holds one of them."""
    here = World()
    here.submit("gang", {"headgroup": Group("cpu")})
    pods = [
        GatedPod(
            metadata=ObjectMeta(name=f"pod-{number}", annotations=notes),
            spec=GatedSpec(
                containers=(Container(resources=ResourceNeeds(requests={"cpu": cpus})),),
                node_selector={POOL_LABEL: "l4"},
            ),
        )
        for number in range(count)
    ]
    (found,) = pod_group_demands(pods, here.clusters["gang"], policy)
    demand = found.demand
    if too_large(demand.needs.amounts, demand.flavor):
        return None
    return nodes_needed(demand.count, demand.needs.amounts, demand.flavor)


def before(policy: GangPolicy, count: int, notes: dict[str, str], cpus: int) -> int | None:
    amounts = {"cpu": Fraction(cpus)}
    pod_set = JobPodSet(
        name="workers", count=count, amounts=amounts, pool="l4", tolerated=frozenset(), notes=notes
    )
    counted = with_parts(pod_set, policy)
    large = Pools(policy=policy).large_enough(counted)
    return nodes_for(counted, large[0]) if large else None


def placed(count: int, part: Fraction, devices: int, cpus: int, *, gpus: int, node_cpus: int) -> int:
    """Nodes that KAI fills with them, one pod after another."""
    nodes: list[tuple[list[Fraction], int]] = []
    for _ in range(count):
        for index, (free, left) in enumerate([*nodes, ([Fraction(1)] * gpus, node_cpus)]):
            fitting = [number for number, room in enumerate(free) if room >= part]
            # A GPU that others share before an empty one.
            chosen = sorted(fitting, key=lambda number: free[number])[:devices]
            if len(chosen) == devices and left >= cpus:
                after = [room - part if number in chosen else room for number, room in enumerate(free)]
                nodes[index : index + 1] = [(after, left - cpus)]
                break
    return len(nodes)


def test_two_halves_that_ask_for_more_cpu_than_a_node_has_get_a_node_each() -> None:
    asked = policy_of(1, 4), 2, {"gpu-fraction": "0.5"}, 3
    assert (before(*asked), behind_the_gate(*asked)) == (2, 2)


def test_pods_of_two_sizes_share_gpus_as_the_largest_of_them_allow() -> None:
    """Three CPUs and one fit on a node of four, and then no other. One of them alone asks for memory."""
    sizes = [(3, {"cpu": Fraction(1)}), (1, {"cpu": Fraction(3), "memory": Fraction(2)})]
    shared = shared_gpus(Share(part=Fraction(1, 4), devices=1), sizes, {"cpu": Fraction(4)})
    amounts = {"cpu": Fraction(4), "memory": Fraction(2), GPU_RESOURCE: Fraction(1)}
    assert shared == SharedGpus(count=2, amounts=amounts)


def test_a_part_of_more_gpus_than_a_node_has_never_fits() -> None:
    asked = policy_of(1, 64), 2, {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}, 1
    assert (before(*asked), behind_the_gate(*asked)) == (None, None)


@given(
    count=st.integers(1, 12),
    part=st.sampled_from(["0.1", "0.25", "0.3", "0.4", "0.5", "0.6", "0.9"]),
    devices=st.integers(1, 2),
    cpus=st.integers(1, 9),
    gpus=st.sampled_from([1, 2, 4, 8]),
    node_cpus=st.integers(4, 32),
)
def test_both_ask_for_the_nodes_on_which_kai_places_them(
    count: int, part: str, devices: int, cpus: int, gpus: int, node_cpus: int
) -> None:
    notes = {"gpu-fraction": part} | ({"gpu-fraction-num-devices": str(devices)} if devices > 1 else {})
    policy = policy_of(gpus, node_cpus)
    found = before(policy, count, notes, cpus)
    assert found == behind_the_gate(policy, count, notes, cpus)
    fits = devices <= gpus and cpus <= node_cpus
    assert (found is not None) == fits
    if found is not None:
        needed = placed(count, Fraction(part), devices, cpus, gpus=gpus, node_cpus=node_cpus)
        assert found >= needed, "the gang would never start"
