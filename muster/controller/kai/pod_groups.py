"""The pods of a batch as a gang.

Computes the pool of each pod and the nodes to request. A pod with a part of a GPU has no GPU request, so no
autoscaler would provision one for it: pods of equal parts are packed into whole GPUs, and those are
requested. Equal parts pack in any order; parts of different sizes are not mixed, because KAI's own order
might need one GPU more than was requested, and the gang would never start. Requests are
muster.controller.gangs'.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from muster.controller.gangs.demand import (
    TOPOLOGY,
    Demand,
    PodNeeds,
    Uncopied,
    pod_amounts,
    pod_needs,
    port_field,
    uncopied,
)
from muster.controller.gangs.gpu_parts import Share, read_share, shared_gpus
from muster.controller.gangs.node_choice import NodeChoice, on_their_nodes
from muster.controller.gangs.objects import Toleration
from muster.controller.kai.labels import group_of, pool_of
from muster.controller.kai.objects import REQUIRED_PLACEMENT, GangOwner, GatedPod
from muster.model.gangpolicy import FlavorPolicy, GangPolicy
from muster.model.names import (
    GKE_QUEUED_CLASS,
    GKE_QUEUED_TAINT_KEY,
    GPU_FRACTION,
    GPU_MEMORY,
    GPU_RESOURCE,
    GPU_TAINT_KEY,
    HELD_TAINT_KEY,
    POOL_LABEL,
)
from muster.model.pods import Amounts

_GPU: Final = Toleration(key=GPU_TAINT_KEY, operator="Exists", effect="NoSchedule")
_QUEUED: Final = Toleration(key=GKE_QUEUED_TAINT_KEY, operator="Exists", effect="NoSchedule")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroupDemand:
    """Equal pods and the nodes they need: as many as pods, or fewer where they share GPUs."""

    demand: Demand
    pods: tuple[GatedPod, ...]
    is_packed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    """One pod, its pool, and what it needs there; without a pool nothing is requested for it."""

    pod: GatedPod
    flavor: FlavorPolicy
    needs: PodNeeds
    share: Share | None
    uncopied: tuple[Uncopied, ...]


def pod_group_demands(
    pods: Iterable[GatedPod], cluster: GangOwner, policy: GangPolicy
) -> tuple[PodGroupDemand, ...]:
    """The pods whose pool the policy speaks of. Raises ValueError for a GPU pod without a pool, and for what
    cannot be read.
    """
    alike: dict[Hashable, list[_Placed]] = {}
    for pod in pods:
        placed = _place(pod, cluster, policy)
        if placed is not None:
            alike.setdefault(_likeness(placed), []).append(placed)
    return _named([_packed(group) if group[0].share else _whole(group, policy) for group in alike.values()])


def gpus(pod: GatedPod, gpu_memory: int = 0) -> Fraction:
    """What KAI counts against the quota: whole GPUs, or the parts. Raises ValueError."""
    found = share(pod, gpu_memory)
    return found.gpus if found else pod_amounts(pod.spec).get(GPU_RESOURCE, Fraction(0))


def share(pod: GatedPod, gpu_memory: int) -> Share | None:
    """The part of a GPU that the pod requests; a whole one where the size of the GPU is not known."""
    try:
        return read_share(pod.metadata.annotations, gpu_memory)
    except ValueError as error:
        raise ValueError(f"pod {pod.key}: {error}") from None


def gpu_size(pod: GatedPod, cluster: GangOwner | None, policy: GangPolicy) -> int:
    """MiB of a GPU where the pod goes: in its pool, or in the only one that has GPUs. 0: not known."""
    pools = _gpu_pools(pod, policy)
    flavor = policy.flavor(pool_of(pod, cluster) or (pools[0] if len(pools) == 1 else ""))
    return flavor.gpu_memory if flavor else 0


def _place(pod: GatedPod, cluster: GangOwner, policy: GangPolicy) -> _Placed | None:
    amounts = pod_amounts(pod.spec)
    asked = any(amounts.get(name) for name in policy.managed_resources) or _shares(pod)
    wants_gpu = asked or bool(pod.spec.resource_claims)
    pool = pool_of(pod, cluster)
    if not pool and wants_gpu:
        pool = _only_pool(pod, policy)
    flavor = policy.flavor(pool)
    if flavor is None:
        if wants_gpu:
            known = ", ".join(flavor.name for flavor in policy.flavors)
            raise ValueError(f"pod {pod.key} goes to pool {pool}, which is not one of {known}")
        return None
    pinned = {POOL_LABEL: pool}
    own = {key: value for key, value in pod.spec.node_selector.items() if key not in _pins(flavor)}
    needs = pod_needs(
        pod.spec, amounts, node_selector=pinned, tolerations=missing_tolerations(flavor, pod.spec.tolerations)
    )
    # As if its gate were still there: alike pods make one demand while the batch passes.
    tolerations = tuple(each for each in needs.tolerations if each.key != HELD_TAINT_KEY)
    needs = replace(needs, node_selector={**own, **pinned}, tolerations=tolerations)
    return _Placed(
        pod=pod,
        flavor=flavor,
        needs=needs,
        share=share(pod, flavor.gpu_memory),
        uncopied=_uncopied(pod, cluster) if flavor.by_placeholders else (),
    )


def _uncopied(pod: GatedPod, cluster: GangOwner) -> tuple[Uncopied, ...]:
    has_topology = any(REQUIRED_PLACEMENT in each.metadata.annotations for each in (pod, cluster))
    return (*uncopied(pod.spec), *((TOPOLOGY,) if has_topology else ()))


def missing_tolerations(flavor: FlavorPolicy, own: Sequence[Toleration]) -> tuple[Toleration, ...]:
    """What the nodes of the pool are tainted with and the pod does not tolerate by itself. Kueue adds such
    tolerations from its ResourceFlavors; KAI has no such place.
    """
    wanted = [_GPU] if flavor.gpus_per_node else []
    wanted += [_QUEUED] if flavor.provisioning_class_name == GKE_QUEUED_CLASS else []
    return tuple(each for each in wanted if each not in own)


def _pins(flavor: FlavorPolicy) -> set[str]:
    """What an earlier reconcile may have added when it removed the pod's gate."""
    return {selector.key for selector in flavor.node_selector_from_details}


def _only_pool(pod: GatedPod, policy: GangPolicy) -> str:
    pools = _gpu_pools(pod, policy)
    if len(pools) == 1:
        return pools[0]
    what = "claims a device" if pod.spec.resource_claims else "asks for a GPU"
    raise ValueError(
        f"pod {pod.key} {what} and names no pool; set nodeSelector {POOL_LABEL} to one of {', '.join(pools)}"
    )


def _gpu_pools(pod: GatedPod, policy: GangPolicy) -> list[str]:
    """Those that its node selector and affinity leave; all where they leave none."""
    known, nodes = [flavor for flavor in policy.flavors if flavor.gpus_per_node], NodeChoice.of(pod.spec)
    left = [flavor.name for flavor in known if nodes.leaves(flavor, policy)]
    return left or [flavor.name for flavor in known]


def _shares(pod: GatedPod) -> bool:
    return GPU_FRACTION in pod.metadata.annotations or GPU_MEMORY in pod.metadata.annotations


def _likeness(placed: _Placed) -> Hashable:
    """Equal pods make one demand. Those that share GPUs may be of several groups."""
    needs = placed.needs
    where = (frozenset(needs.node_selector.items()), needs.tolerations, needs.terms)
    if placed.share:
        return placed.flavor.name, placed.share, where
    return placed.flavor.name, group_of(placed.pod), frozenset(needs.amounts.items()), where


def _whole(group: Sequence[_Placed], policy: GangPolicy) -> PodGroupDemand:
    first = group[0]
    demand = Demand(
        pod_set=group_of(first.pod),
        count=len(group),
        needs=first.needs,
        flavor=first.flavor,
        managed=bool(first.pod.spec.resource_claims)
        or any(first.needs.amounts.get(name) for name in policy.managed_resources),
        uncopied=_all_uncopied(group),
        apart=_apart([each.pod for each in group]),
    )
    return PodGroupDemand(demand=demand, pods=tuple(each.pod for each in group), is_packed=False)


def _apart(pods: Sequence[GatedPod]) -> str:
    """By which field no node takes two of them, if any."""
    first, *others = pods
    rules = first.spec.affinity.pod_anti_affinity if first.spec.affinity else None
    keeps_off = on_their_nodes(rules, [each.metadata.labels for each in others])
    return "podAntiAffinity" if keeps_off else port_field(first.spec)


def _packed(group: Sequence[_Placed]) -> PodGroupDemand:
    """The GPUs that they share."""
    first = group[0]
    assert first.share is not None
    shared = shared_gpus(first.share, [(1, placed.needs.amounts) for placed in group], first.flavor.node)
    names = dict.fromkeys(group_of(placed.pod) for placed in group)
    demand = Demand(
        pod_set="+".join(names),
        count=shared.count,
        needs=replace(first.needs, amounts=shared.amounts),
        flavor=first.flavor,
        managed=True,
        # Pods that share a GPU share its node.
        uncopied=tuple(replace(found, on_one_node=False) for found in _all_uncopied(group)),
    )
    return PodGroupDemand(demand=demand, pods=tuple(placed.pod for placed in group), is_packed=True)


def _all_uncopied(group: Sequence[_Placed]) -> tuple[Uncopied, ...]:
    return tuple(dict.fromkeys(each for placed in group for each in placed.uncopied))


def _named(found: Sequence[PodGroupDemand]) -> tuple[PodGroupDemand, ...]:
    """Every demand of a gang has a name of its own: the group's, numbered where a group has pods of several
    kinds.
    """
    seen: dict[str, int] = {}
    named = []
    for group_demand in found:
        name = group_demand.demand.pod_set
        seen[name] = seen.get(name, 0) + 1
        own = name if seen[name] == 1 else f"{name}#{seen[name]}"
        named.append(replace(group_demand, demand=replace(group_demand.demand, pod_set=own)))
    return tuple(named)


def amounts_of(pod: GatedPod, gpu_memory: int) -> Amounts:
    """What a pod takes of its queue: gpu devices, cpu cores, memory bytes. Raises ValueError."""
    amounts = pod_amounts(pod.spec)
    return {
        "gpu": gpus(pod, gpu_memory),
        "cpu": amounts.get("cpu", Fraction(0)),
        "memory": amounts.get("memory", Fraction(0)),
    }
