"""Gangs that can never fit, however long they wait.

Decides it from what the policy says of a pool. The webhook asks before a job is created, the machine once
more when Kueue has chosen the flavors. Each answer says what, where, what is allowed and how to fix it.
"""

from fractions import Fraction
from math import ceil

from controller.admission.demand import Amounts
from controller.admission.split import Gang
from model.gangpolicy import FlavorPolicy
from model.names import GPU_RESOURCE


def never_fits(gang: Gang) -> str | None:
    """Why no amount of waiting helps, or None. PodSets of one pool count together."""
    needed: dict[str, int] = {}
    for ask in gang.asks:
        for demand in ask.demands:
            reason = never_fits_node(demand.pod_set, demand.needs.amounts, ask.flavor)
            if reason is not None:
                return reason
            needed[ask.pool] = needed.get(ask.pool, 0) + nodes_needed(
                demand.count, demand.needs.amounts, ask.flavor
            )
            if 0 < ask.flavor.max_nodes < needed[ask.pool]:
                return (
                    f"the gang needs {needed[ask.pool]} nodes of pool {ask.pool}, which has at most "
                    f"{ask.flavor.max_nodes}; ask for fewer pods, or have the pool's maxNodes raised"
                )
    return None


def never_fits_node(pod_set: str, amounts: Amounts, flavor: FlavorPolicy) -> str | None:
    gpus = amounts.get(GPU_RESOURCE, Fraction(0))
    if 0 < flavor.gpus_per_node < gpus:
        return (
            f"one pod of {pod_set} asks for {gpus} GPUs; a node of pool {flavor.name} has "
            f"{flavor.gpus_per_node}; spread them over more pods"
        )
    return None


def nodes_needed(count: int, amounts: Amounts, flavor: FlavorPolicy) -> int:
    """The fewest nodes that hold so many pods, by GPUs; without GPUs it cannot be told, so none."""
    gpus = amounts.get(GPU_RESOURCE, Fraction(0))
    if not gpus or not flavor.gpus_per_node:
        return 0
    each = max(1, int(flavor.gpus_per_node // gpus))
    return ceil(count / each)
