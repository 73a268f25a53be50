"""Gangs that can never fit, however long they wait.

Decides it from what the policy says of its pools. The webhook asks before a job is created, when its pools
are not chosen yet; the machine once more when Kueue has chosen them. Each answer says what, where, what is
allowed and how to fix it.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import ceil

from controller.admission.jobs import Piece
from controller.admission.split import Gang
from model.gangpolicy import FlavorPolicy, GangPolicy
from model.names import GPU_RESOURCE
from model.pods import Amounts


def never_fits(gang: Gang) -> str | None:
    """Why no amount of waiting helps, or None. PodSets of one pool count together."""
    needed: dict[str, int] = {}
    for ask in gang.asks:
        for demand in ask.demands:
            amounts = demand.needs.amounts
            if _too_many_gpus(amounts, ask.flavor):
                return _per_node(demand.pod_set, amounts, [ask.flavor])
            needed[ask.pool] = needed.get(ask.pool, 0) + nodes_needed(demand.count, amounts, ask.flavor)
            if _too_many_nodes(needed[ask.pool], ask.flavor):
                return _per_pool("the gang", needed[ask.pool], [ask.flavor])
    return None


def never_fits_anywhere(pieces: Iterable[Piece], policy: GangPolicy) -> str | None:
    """The same for a job whose PodSets may still go to any pool, or to the one that their node selector
    names.

    The policy lists every GPU pool, also those that nothing is asked for: what fits in none of them fits
    nowhere.
    """
    pinned: dict[str, int] = {}
    for piece in pieces:
        if not piece.amounts.get(GPU_RESOURCE) or not piece.count:
            continue
        flavors = [
            flavor for flavor in policy.flavors if flavor.gpus_per_node and piece.pool in ("", flavor.name)
        ]
        large = [flavor for flavor in flavors if not _too_many_gpus(piece.amounts, flavor)]
        if flavors and not large:
            return _per_node(piece.name, piece.amounts, flavors)
        sizes = [(nodes_needed(piece.count, piece.amounts, flavor), flavor) for flavor in large]
        if sizes and all(_too_many_nodes(nodes, flavor) for nodes, flavor in sizes):
            return _per_pool(piece.name, min(nodes for nodes, _ in sizes), large)
        if piece.pool and sizes:
            pinned[piece.pool] = pinned.get(piece.pool, 0) + sizes[0][0]
            if _too_many_nodes(pinned[piece.pool], sizes[0][1]):
                return _per_pool("the gang", pinned[piece.pool], large)
    return None


def nodes_needed(count: int, amounts: Amounts, flavor: FlavorPolicy) -> int:
    """The fewest nodes that hold so many pods, by GPUs; without GPUs it cannot be told, so none."""
    gpus = amounts.get(GPU_RESOURCE, Fraction(0))
    if not gpus or not flavor.gpus_per_node:
        return 0
    return ceil(count / max(1, int(flavor.gpus_per_node // gpus)))


def _too_many_gpus(amounts: Amounts, flavor: FlavorPolicy) -> bool:
    return 0 < flavor.gpus_per_node < amounts.get(GPU_RESOURCE, Fraction(0))


def _too_many_nodes(nodes: int, flavor: FlavorPolicy) -> bool:
    return 0 < flavor.max_nodes < nodes


def _per_node(name: str, amounts: Amounts, flavors: Sequence[FlavorPolicy]) -> str:
    allowed = ", ".join(f"{flavor.name}: {flavor.gpus_per_node}" for flavor in flavors)
    return (
        f"one pod of {name} asks for {amounts[GPU_RESOURCE]} GPUs, more than any node has ({allowed}); "
        f"spread them over more pods"
    )


def _per_pool(name: str, nodes: int, flavors: Sequence[FlavorPolicy]) -> str:
    allowed = ", ".join(f"{flavor.name}: {flavor.max_nodes}" for flavor in flavors)
    return (
        f"{name} needs {nodes} nodes, more than the pool can have ({allowed}); "
        f"ask for fewer pods, or have the pool's maxNodes raised"
    )
