"""Gangs that can never fit, from the policy's limits of each pool.

Each answer names the limit, what is allowed and the fix. Jobs whose pools are not chosen yet are checked by
the webhooks.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import ceil
from typing import Final

from muster.controller.gangs.demand import Demand, Uncopied
from muster.controller.gangs.identity import digest
from muster.controller.gangs.split import Gang, RequestSpec
from muster.model.gangpolicy import FlavorPolicy, GangPolicy
from muster.model.names import DEVICE_RESOURCES, JOB_PARAMETER_PREFIX, TPU_RESOURCE
from muster.model.pods import Amounts, describe, figure
from muster.model.quantities import many
from muster.model.tenancy import MOST_OBJECTS

LONGEST_PARAMETER: Final = 255
"""Characters in a value of spec.parameters (kubernetes/autoscaler, provisioningrequest/v1/types.go)."""

MOST_PLACEHOLDERS: Final = MOST_OBJECTS["pods"]
"""Of one gang: as many pods as a team may have. Ours are in no quota of the team's, and kube-scheduler
compares each of them with all others.
"""

PODS_PER_NODE: Final = Fraction(110)
"""Where the policy does not say: the kubelet's default, and what Kubernetes is tested with.
Source: https://kubernetes.io/docs/setup/best-practices/cluster-large, read 2026-11-27
"""


def unsatisfiable_reason(gang: Gang) -> str | None:
    """Why no amount of waiting helps, or None. PodSets of one pool count together, and what runs of them."""
    asked = [demand for spec in gang.request_specs for demand in spec.demands]
    for demand in asked:
        if too_large(demand.needs.amounts, demand.flavor):
            return per_node(demand.pod_set, demand.needs.amounts, [demand.flavor])
        if not gang.running and is_part_of_slice(demand.count, demand.needs.amounts, demand.flavor):
            return part_of_slice(demand.pod_set, [demand.flavor])
        if demand.apart:
            there = (each.count for each in gang.running if _is_like(each, demand))
            if too_many_nodes(nodes := sum(there, demand.count), demand.flavor):
                return per_pool(one_each(demand.pod_set, demand.apart), nodes, [demand.flavor])
    needed = _needed((*asked, *gang.running))
    for spec in gang.request_specs:
        for name, value in spec.parameters.items():
            if len(value) > LONGEST_PARAMETER:
                return parameter_too_long(name, value)
        if too_many_nodes(needed[spec.pool], spec.flavor):
            return per_pool("the gang", needed[spec.pool], [spec.flavor])
        if reason := not_by_placeholders(spec):
            return reason
    placed = [spec for spec in gang.request_specs if spec.flavor.by_placeholders]
    if (count := sum(spec.count for spec in placed)) > MOST_PLACEHOLDERS:
        return too_many_pods("the gang", count, [spec.flavor for spec in placed])
    return None


def _is_like(one: Demand, other: Demand) -> bool:
    return (one.pod_set, one.flavor.name) == (other.pod_set, other.flavor.name)


def one_each(name: str, apart: str) -> str:
    """`apart`: the field that puts each pod on a node of its own, if any."""
    return f"{name} (one for each pod, by its {apart})" if apart else name


def not_by_placeholders(spec: RequestSpec) -> str | None:
    """Why its placeholders could stand on nodes that its own pods do not fit on."""
    for demand in spec.demands:
        amounts, beside = demand.needs.amounts, (each.needs.amounts for each in spec.demands)
        if fields := uncopied_fields(demand.uncopied, amounts, beside, spec.flavor):
            return not_copied(demand.pod_set, fields, spec.pool)
    return None


def uncopied_fields(
    found: Sequence[Uncopied], amounts: Amounts, beside: Iterable[Amounts], flavor: FlavorPolicy
) -> Sequence[str]:
    """What of pods of this size placeholders would lack. What only keeps pods off a node that they would
    share is no lack where no node has room for one of them and another of the gang's, whose sizes are
    `beside`.
    """
    others = tuple(beside)
    is_alone = any(
        amounts.get(name, 0) + min(each.get(name, 0) for each in others) > size
        for name, size in flavor.node.items()
    )
    return [each.field for each in found if not (each.on_one_node and is_alone)]


def not_copied(name: str, fields: Sequence[str], pool: str) -> str:
    """`fields`: of its pods, and not of placeholders."""
    return (
        f"{name} has {' and '.join(fields)}, and pool {pool} gets gangs by placeholders, which do not copy "
        "that; remove it or make it a preference, or have the pool written with `capacity: queued` or "
        "`gangs: none`"
    )


def subject_of(gang: Gang, policy: GangPolicy) -> str:
    """What a refusal depends on: how many pods go where, with what their pools can have, and how long is
    tried. It ends when that changes; each scheduler decides which refusals end that way.
    """
    found: list[object] = [policy.retry.deadline.total_seconds()]
    found += [(each.pod_set, each.flavor.name, each.count) for each in gang.running]
    for spec in gang.request_specs:
        # What is left out where it says nothing changes no digest that an earlier release wrote.
        counts = [
            (demand.pod_set, demand.count, *((demand.apart,) if demand.apart else ()))
            for demand in spec.demands
        ]
        flavor = spec.flavor
        limits = (
            flavor.max_nodes,
            flavor.gpus_per_node,
            *((flavor.slice_nodes,) if flavor.slice_nodes > 1 else ()),
            sorted(flavor.per_node.items()),
            flavor.provisioning_class_name,
        )
        found.append((spec.pool, counts, limits, sorted(spec.parameters.items()), spec.needs_digest))
    return digest(repr(found))


def _needed(demands: Sequence[Demand]) -> Mapping[str, int]:
    """Nodes, by pool. What a PodSet has may share a node with what it lacks."""
    pods = Counter[tuple[str, str]]()
    for demand in demands:
        pods[demand.flavor.name, demand.pod_set] += demand.count
    each = {(demand.flavor.name, demand.pod_set): demand for demand in demands}
    pieces: dict[str, list[tuple[int, Amounts]]] = {}
    for place, demand in each.items():
        pieces.setdefault(demand.flavor.name, []).append((pods[place], demand.needs.amounts))
    flavors = {demand.flavor.name: demand.flavor for demand in demands}
    return {pool: fewest_nodes(found, flavors[pool]) for pool, found in pieces.items()}


def fewest_nodes(pieces: Sequence[tuple[int, Amounts]], flavor: FlavorPolicy) -> int:
    """The fewest nodes of one pool that hold all these pods: each PodSet has its own where each request is a
    lease, elsewhere they may share.
    """
    alone = [nodes_needed(count, amounts, flavor) for count, amounts in pieces]
    if flavor.one_pod_set_per_request and flavor.node_selector_from_details:
        return sum(alone)
    shared = [
        _sharing([(count, amounts.get(name, Fraction(0))) for count, amounts in pieces], size)
        for name, size in flavor.node.items()
    ]
    by_count = ceil(sum(count for count, _ in pieces) / _pods_per_node(flavor))
    return max((by_count, *shared, *alone), default=0)


def _sharing(sizes: Sequence[tuple[int, Fraction]], node: Fraction) -> int:
    """The fewest nodes by one resource, of which a node has so much."""
    together = ceil(sum(count * each for count, each in sizes) / node) if node else 0
    return max(together, sum(count for count, each in sizes if 2 * each > node))


def nodes_needed(count: int, amounts: Amounts, flavor: FlavorPolicy) -> int:
    """The fewest nodes that hold so many pods. One that asks for nothing known takes a place all the same."""
    held = [int(size // amounts[name]) for name, size in flavor.node.items() if amounts.get(name)]
    return ceil(count / max(1, min((*held, int(_pods_per_node(flavor))))))


def _pods_per_node(flavor: FlavorPolicy) -> Fraction:
    return flavor.node.get("pods", PODS_PER_NODE)


def too_large(amounts: Amounts, flavor: FlavorPolicy) -> Amounts:
    """What one pod asks for above what any node of the pool has."""
    node = flavor.node
    return {name: amount for name, amount in amounts.items() if name in node and amount > node[name]}


def too_many_nodes(nodes: int, flavor: FlavorPolicy) -> bool:
    return 0 < flavor.max_nodes < nodes


def per_node(name: str, amounts: Amounts, flavors: Sequence[FlavorPolicy]) -> str:
    """`amounts`: of one pod, too large for a node of any of these."""
    above = {key for flavor in flavors for key in too_large(amounts, flavor)}
    asked = {key: amounts[key] for key in above}
    allowed = ", ".join(
        f"{flavor.name}: {_size(amounts, flavor, is_only=len(above) == 1)}" for flavor in flavors
    )
    fix = (
        "spread them over more pods"
        if above <= {*DEVICE_RESOURCES}
        else "ask for less, or spread it over more pods"
    )
    return f"one pod of {name} asks for {describe(asked)}, more than any node has ({allowed}); {fix}"


def _size(amounts: Amounts, flavor: FlavorPolicy, *, is_only: bool) -> str:
    node = flavor.node
    found = {key: node[key] for key in too_large(amounts, flavor)}
    return ", ".join(figure(*each) for each in found.items()) if is_only else describe(found)


def is_part_of_slice(count: int, amounts: Amounts, flavor: FlavorPolicy) -> bool:
    """Whether pods with TPUs leave chips of a slice of several nodes unused: each pod takes all chips of
    its node, and the nodes are those of whole slices.
    """
    chips = amounts.get(TPU_RESOURCE)
    if flavor.slice_nodes == 1 or not chips:
        return False
    return chips != flavor.node.get(TPU_RESOURCE) or count % flavor.slice_nodes != 0


def part_of_slice(name: str, flavors: Sequence[FlavorPolicy]) -> str:
    """`flavors`: pools of which it would take a part of a slice."""
    wanted = "; ".join(
        f"{flavor.name}: {flavor.slice_nodes} pods of {figure(TPU_RESOURCE, flavor.node[TPU_RESOURCE])} chips"
        for flavor in flavors
    )
    return (
        f"{name} uses part of a TPU slice, which is created as a whole ({wanted}); ask for all of it, with "
        "numOfHosts in a worker group, or parallelism and completions in a Job"
    )


def parameter_too_long(name: str, value: str) -> str:
    return (
        f"annotation {JOB_PARAMETER_PREFIX}{name} has {len(value)} characters, and a ProvisioningRequest "
        f"takes {LONGEST_PARAMETER}; shorten it"
    )


def too_many_pods(name: str, count: int, flavors: Sequence[FlavorPolicy]) -> str:
    pools = ", ".join(dict.fromkeys(flavor.name for flavor in flavors))
    return (
        f"{name} has {count} pods, and a gang of pool {pools} gets its nodes by placeholders, "
        f"{MOST_PLACEHOLDERS} at most; ask for fewer and larger pods"
    )


def per_pool(name: str, nodes: int, flavors: Sequence[FlavorPolicy]) -> str:
    allowed = ", ".join(f"{flavor.name}: {flavor.max_nodes}" for flavor in flavors)
    return (
        f"{name} needs {many(nodes, 'node')}, more than the pool can have ({allowed}); "
        f"ask for fewer pods, or have the pool's maxNodes raised"
    )
