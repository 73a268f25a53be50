"""Another flavor of the queue for a gang whose pool is out of stock.

Computes which flavors a gang avoids and whether its queue has another one where it fits. Kueue has no field
for it (kubernetes-sigs/kueue 2560) and assigns the same flavor again. It does obey the node affinity of a
PodSet, which may be changed while the Workload holds no quota; the job's own pods never see it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from muster.controller.gangs.demand import Demand, pod_amounts, uncopied
from muster.controller.gangs.limits import nodes_needed, too_large, too_many_nodes, unsatisfiable_reason
from muster.controller.gangs.objects import NodeSelectorTerm, PodSpec
from muster.controller.gangs.split import split
from muster.controller.kueue.objects import ResourceFlavor, Workload
from muster.controller.kueue.podsets import managed_resource
from muster.controller.kueue.snapshot import WorkloadSnapshot
from muster.model.gangpolicy import GangPolicy
from muster.model.names import POOL_LABEL

_NOT_IN: Final = "NotIn"


def next_flavor(snapshot: WorkloadSnapshot, policy: GangPolicy, *, exhausted: str) -> str:
    """The next flavor of the queue for what was to come from the exhausted one; empty when there is none.

    Nor is there one when it was avoided already, and the gang got it all the same: it would get it again.
    """
    if exhausted in snapshot.history.avoid:
        return ""
    if not _pools(snapshot, (exhausted,)):
        return ""  # Without our label on its nodes, no affinity keeps a gang away from it.
    group = next((group for group in snapshot.queue_flavors if exhausted in group), ())
    tried = {*snapshot.history.avoid, exhausted}
    pools = _pools(snapshot, tried)
    moving = [
        demand for spec in snapshot.gang.request_specs if spec.pool == exhausted for demand in spec.demands
    ]
    if not moving:
        return ""  # Nothing was asked for there: who lacks its nodes (a head) would stay in that flavor.
    specs = {pod_set.name: pod_set.template.spec for pod_set in snapshot.workload.spec.pod_sets}
    return next(
        (
            name
            for name in group
            if name not in tried
            and _pools(snapshot, (name,)).isdisjoint(pools)
            and all(_fits(demand, specs[demand.pod_set], name, snapshot, policy) for demand in moving)
            and not _refusal(moving, specs, name, snapshot, policy)
        ),
        "",
    )


def _fits(demand: Demand, own: PodSpec, name: str, snapshot: WorkloadSnapshot, policy: GangPolicy) -> bool:
    flavor, known = snapshot.flavors.get(name), policy.flavor(name)
    if flavor is None or known is None or not _pool(flavor):
        return False
    if _is_bound(own, pools_to_avoid(snapshot), policy):
        return False
    if any(own.node_selector.get(key, value) != value for key, value in flavor.spec.node_labels.items()):
        return False
    amounts = demand.needs.amounts
    nodes = nodes_needed(demand.count, amounts, known)
    return not too_large(amounts, known) and not too_many_nodes(nodes, known)


def _refusal(
    moving: Iterable[Demand],
    specs: Mapping[str, PodSpec],
    name: str,
    snapshot: WorkloadSnapshot,
    policy: GangPolicy,
) -> str | None:
    """Why the gang would be given up there, where its own pool may have nodes again."""
    known = policy.flavor(name)
    assert known is not None  # It fits.
    moved = {
        each.pod_set: replace(
            each, flavor=known, uncopied=uncopied(specs[each.pod_set]) if known.by_placeholders else ()
        )
        for each in moving
    }
    asked = (demand for spec in snapshot.gang.request_specs for demand in spec.demands)
    wanted = [moved.get(each.pod_set, each) for each in asked]
    return unsatisfiable_reason(split(wanted, annotations=snapshot.workload.metadata.annotations))


def pools_to_avoid(snapshot: WorkloadSnapshot) -> tuple[str, ...]:
    """The values of our pool label that the gang's PodSets are to keep away from."""
    return tuple(sorted(_pools(snapshot, snapshot.history.avoid)))


def _pools(snapshot: WorkloadSnapshot, names: Iterable[str]) -> frozenset[str]:
    found = (snapshot.flavors.get(name) for name in names)
    return frozenset(_pool(flavor) for flavor in found if flavor and _pool(flavor))


def avoided_pools(workload: Workload, policy: GangPolicy) -> tuple[str, ...]:
    """What the Workload's PodSets keep away from now, by our word."""
    specs = (each.template.spec for each in workload.spec.pod_sets)
    return tuple(sorted({pool for spec in specs for pool in _avoided(spec, policy)[1]}))


def pod_sets(workload: Workload, pools: Collection[str], policy: GangPolicy) -> Iterator[Mapping[str, Any]]:
    """What to apply: the affinity of each PodSet that may be moved, after what admission wrote there, and
    nothing else of it.
    """
    for each in workload.spec.pod_sets:
        spec = each.template.spec
        if pools and (_is_bound(spec, pools, policy) or not managed_resource(pod_amounts(spec), policy)):
            continue
        listed = filter(None, (_avoided(spec, policy)[0], sorted(pools)))
        rules = [{"key": POOL_LABEL, "operator": _NOT_IN, "values": [*values]} for values in listed]
        if rules:
            terms = {"nodeSelectorTerms": [{"matchExpressions": rules}]}
            required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
            yield {"name": each.name, "template": {"spec": {"affinity": {"nodeAffinity": required}}}}


def _pool(flavor: ResourceFlavor) -> str:
    return flavor.spec.node_labels.get(POOL_LABEL, "")


def _is_bound(spec: PodSpec, pools: Collection[str], policy: GangPolicy) -> bool:
    """It has an affinity of its own, which ours would replace. `pools`: what we keep it away from; a person
    may have written the same kind of rule about others.
    """
    kept, ours = _avoided(spec, policy)
    return bool(spec.required_terms) and not ((kept or ours) and set(ours) <= set(pools))


def _avoided(spec: PodSpec, policy: GangPolicy) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The pools that it keeps away from, where it requires nothing else of nodes: those that admission wrote,
    whose nodes are too small (defaults.py), and those of the rule after it, which is ours.
    """
    match spec.required_terms:
        case (NodeSelectorTerm(match_expressions=rules, match_fields=()),):
            amounts = pod_amounts(spec)
            small = {flavor.name for flavor in policy.flavors if too_large(amounts, flavor)}
            listed = [each.values for each in rules if (each.key, each.operator) == (POOL_LABEL, _NOT_IN)]
            kept = listed[0] if listed and small.issuperset(listed[0]) else ()
            rest = listed[1:] if kept else listed
            if len(listed) == len(rules) and len(rest) <= 1:
                return kept, (rest[0] if rest else ())
    return (), ()
