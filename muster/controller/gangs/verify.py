"""Checks whether the nodes of a gang exist, by placing its pods on paper.

Counts Ready, schedulable, fitting nodes, less what runs on them, less what other gangs have claimed and not
used. The condition `Provisioned` is a promise that not every autoscaler keeps. Places greedily, largest
first: where pods of very different sizes share nodes it may find less room than there is, never more.
Spreading, pod affinity and ports are the scheduler's.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from muster.controller.gangs.demand import PodNeeds
from muster.controller.gangs.objects import Node, NodeSelectorTerm, Requirement, Taint, Toleration
from muster.model.pods import Amounts
from muster.model.quantities import parse_quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDemand:
    """Pods that need room: a PodSet of this gang, or what is outstanding of another's."""

    name: str
    pool: str
    count: int
    needs: PodNeeds
    shares_nodes: bool = False


@dataclass(frozen=True, slots=True)
class Placement:
    """How many of the wanted pods found a node."""

    demand: PodDemand
    placed: int

    @property
    def is_complete(self) -> bool:
        return self.placed >= self.demand.count


def verify(
    demands: Sequence[PodDemand],
    *,
    nodes: Iterable[Node],
    used: Mapping[str, Amounts],
    claims: Sequence[PodDemand] = (),
) -> tuple[Placement, ...]:
    """Place the claims of others first, then ours; one Placement for each of ours, in the given order.
    `used`: what runs on the nodes takes, by name.
    """
    all_demands = (*claims, *demands)
    usable = [
        node for node in nodes if is_usable(node) and any(fits(each.needs, node) for each in all_demands)
    ]
    free = {node.metadata.name: _free(node, used.get(node.metadata.name, {})) for node in usable}
    for claim in _largest_first(_merge_equal(claims)):
        _place(claim, usable, free)
    placed = {id(demand): _place(demand, usable, free) for demand in _largest_first(demands)}
    return tuple(Placement(demand, placed[id(demand)]) for demand in demands)


def is_usable(node: Node) -> bool:
    return node.status.holds("Ready") and not node.spec.unschedulable and not node.metadata.deletion_timestamp


def fits(needs: PodNeeds, node: Node) -> bool:
    """Labels and taints only; amounts are counted where pods are placed."""
    return selects(needs.node_selector, needs.terms, node) and all(
        is_tolerated(taint, needs.tolerations) for taint in node.spec.taints
    )


def selects(node_selector: Mapping[str, str], terms: Sequence[NodeSelectorTerm], node: Node) -> bool:
    """Whether the node has the labels that a pod asks for. `terms`: those of its required node affinity."""
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in node_selector.items()):
        return False
    return not terms or any(_selects(term, node) for term in terms)


def _free(node: Node, used: Amounts) -> dict[str, Fraction]:
    free = {name: parse_quantity(str(amount)) for name, amount in node.status.allocatable.items()}
    for name, amount in used.items():
        free[name] = free.get(name, Fraction(0)) - amount
    return free


def _place(demand: PodDemand, nodes: Iterable[Node], free: Mapping[str, dict[str, Fraction]]) -> int:
    """Fill nodes with as many of the wanted pods as fit, and say how many did."""
    each: Amounts = {
        "pods": Fraction(1),
        **{name: amount for name, amount in demand.needs.amounts.items() if amount},
    }
    left = demand.count
    for node in nodes:
        if left == 0:
            break
        free_here = free[node.metadata.name]
        here = min(left, *(int(free_here.get(name, Fraction(0)) // amount) for name, amount in each.items()))
        if here <= 0 or not fits(demand.needs, node):
            continue
        for name, amount in each.items():
            free_here[name] -= here * amount
        left -= here
    return demand.count - left


def _merge_equal(claims: Iterable[PodDemand]) -> Iterator[PodDemand]:
    """Claims of equal pods as one: nodes are gone through once for each kind and not for each gang."""
    counts: dict[Hashable, int] = defaultdict(int)
    kinds: dict[Hashable, PodDemand] = {}
    for claim in claims:
        needs = claim.needs
        places = frozenset(needs.amounts.items()), frozenset(needs.node_selector.items())
        kind = (*places, needs.tolerations, needs.terms)
        counts[kind] += claim.count
        kinds.setdefault(kind, claim)
    return (replace(claim, count=counts[kind]) for kind, claim in kinds.items())


def _largest_first(demands: Iterable[PodDemand]) -> Iterator[PodDemand]:
    """Extended resources before cpu and memory: pods that need GPUs have the fewest nodes to choose from."""
    sizes: dict[int, tuple[Fraction, ...]] = defaultdict(tuple)
    listed = list(demands)
    for demand in listed:
        amounts = demand.needs.amounts
        extended = sum((amount for name, amount in amounts.items() if "/" in name), Fraction(0))
        sizes[id(demand)] = (extended, amounts.get("cpu", Fraction(0)), amounts.get("memory", Fraction(0)))
    return iter(sorted(listed, key=lambda demand: sizes[id(demand)], reverse=True))


def is_tolerated(taint: Taint, tolerations: Sequence[Toleration]) -> bool:
    if taint.effect == "PreferNoSchedule":
        return True
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect):
        return False
    if toleration.operator == "Exists":
        return toleration.key in ("", taint.key)
    return toleration.key == taint.key and toleration.value == taint.value


def _selects(term: NodeSelectorTerm, node: Node) -> bool:
    """An empty term selects no node (k8s.io/component-helpers, nodeaffinity.go)."""
    labels, fields = node.metadata.labels, {"metadata.name": node.metadata.name}
    return (
        bool(term.match_expressions or term.match_fields)
        and all(matches(rule, labels) for rule in term.match_expressions)
        and all(matches(rule, fields) for rule in term.match_fields)
    )


def matches(rule: Requirement, labels: Mapping[str, str]) -> bool:
    """Whether a node with these labels meets one requirement of a node affinity."""
    value = labels.get(rule.key)
    match rule.operator:
        case "In":
            return value in rule.values
        case "NotIn":
            return value not in rule.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(value, rule)
    return False


def _compares(value: str | None, rule: Requirement) -> bool:
    try:
        left, right = int(value or ""), int(rule.values[0])
    except (ValueError, IndexError):
        return False
    return left > right if rule.operator == "Gt" else left < right
