"""Gangs that can never fit, however long they wait.

Decides it from what the policy says of its pools. Each answer says what, where, what is allowed and how to
fix it. Leaves jobs whose pools are not chosen yet to the webhooks.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil

from controller.gangs.demand import Demand
from controller.gangs.split import Gang
from model.gangpolicy import FlavorPolicy
from model.names import GPU_RESOURCE
from model.pods import Amounts


def never_fits(gang: Gang) -> str | None:
    """Why no amount of waiting helps, or None. PodSets of one pool count together, and what runs of them."""
    asked = [demand for ask in gang.asks for demand in ask.demands]
    for demand in asked:
        if too_many_gpus(demand.needs.amounts, demand.flavor):
            return per_node(demand.pod_set, demand.needs.amounts, [demand.flavor])
    needed = _needed((*asked, *gang.running))
    for ask in gang.asks:
        if too_many_nodes(needed[ask.pool], ask.flavor):
            return per_pool("the gang", needed[ask.pool], [ask.flavor])
    return None


def _needed(demands: Sequence[Demand]) -> Mapping[str, int]:
    """Nodes, by pool. What a PodSet has may share a node with what it lacks."""
    pods = Counter[tuple[str, str]]()
    for demand in demands:
        pods[demand.flavor.name, demand.pod_set] += demand.count
    each = {(demand.flavor.name, demand.pod_set): demand for demand in demands}
    needed = Counter[str]()
    for place, demand in each.items():
        needed[demand.flavor.name] += nodes_needed(pods[place], demand.needs.amounts, demand.flavor)
    return needed


def nodes_needed(count: int, amounts: Amounts, flavor: FlavorPolicy) -> int:
    """The fewest nodes that hold so many pods, by GPUs; without GPUs it cannot be told, so none."""
    gpus = amounts.get(GPU_RESOURCE, Fraction(0))
    if not gpus or not flavor.gpus_per_node:
        return 0
    return ceil(count / max(1, int(flavor.gpus_per_node // gpus)))


def too_many_gpus(amounts: Amounts, flavor: FlavorPolicy) -> bool:
    return 0 < flavor.gpus_per_node < amounts.get(GPU_RESOURCE, Fraction(0))


def too_many_nodes(nodes: int, flavor: FlavorPolicy) -> bool:
    return 0 < flavor.max_nodes < nodes


def per_node(name: str, amounts: Amounts, flavors: Sequence[FlavorPolicy]) -> str:
    allowed = ", ".join(f"{flavor.name}: {flavor.gpus_per_node}" for flavor in flavors)
    return (
        f"one pod of {name} asks for {amounts[GPU_RESOURCE]} GPUs, more than any node has ({allowed}); "
        f"spread them over more pods"
    )


def per_pool(name: str, nodes: int, flavors: Sequence[FlavorPolicy]) -> str:
    allowed = ", ".join(f"{flavor.name}: {flavor.max_nodes}" for flavor in flavors)
    return (
        f"{name} needs {nodes} nodes, more than the pool can have ({allowed}); "
        f"ask for fewer pods, or have the pool's maxNodes raised"
    )
