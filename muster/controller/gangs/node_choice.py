"""Which pools are left to pods by their node selector and required node affinity.

Compares with the labels of pools as Kueue does with those of flavors: a key that no pool has, and that none
is known to lack, leaves every pool. What every node has by its machine and place is known of all.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Self

from muster.controller.gangs.objects import (
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    Requirement,
    TopologySpreadConstraint,
)
from muster.controller.gangs.verify import matches
from muster.model.gangpolicy import FlavorPolicy, GangPolicy
from muster.model.names import POOL_LABEL, ZONE_LABEL

NODE: Final = "kubernetes.io/hostname"
_REGION_LABEL: Final = "topology.kubernetes.io/region"
_OF_EVERY_NODE: Final = {"kubernetes.io/os": "linux"}
# us-central1-a of Google, us-east-1a of AWS.
_ZONE: Final = re.compile(r"(?P<google>[a-z]+-[a-z]+\d+)-[a-z]|(?P<aws>[a-z]{2}(-[a-z]+)+-\d)[a-z]")


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """What a pod template says of its nodes' labels: all of `selector`, and one of `terms` if it has any."""

    selector: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    terms: tuple[NodeSelectorTerm, ...] = ()

    @classmethod
    def of(cls, spec: PodSpec) -> Self:
        return cls(spec.node_selector, spec.required_terms)

    @property
    def requirements(self) -> tuple[tuple[Requirement, ...], ...]:
        """Alternatives of requirements that hold together. A term without any matches no node."""
        named = tuple(
            Requirement(key=key, operator="In", values=(value,)) for key, value in self.selector.items()
        )
        if not self.terms:
            return (named,)
        kept = (term for term in self.terms if term.match_expressions or term.match_fields)
        return tuple((*named, *term.match_expressions) for term in kept)

    def leaves(self, flavor: FlavorPolicy, policy: GangPolicy) -> bool:
        """Whether nodes of the pool may be what it asks for."""
        return any(all(_may_meet(rule, flavor, policy) for rule in rules) for rules in self.requirements)

    def misses(self, flavors: Sequence[FlavorPolicy], policy: GangPolicy) -> str:
        """The requirements that keep it from these pools, and what each of them has instead."""
        wrong = dict.fromkeys(
            rule
            for rules in self.requirements
            for rule in rules
            if any(not _may_meet(rule, flavor, policy) for flavor in flavors)
        )
        listed = (_described(rule, flavors) for rule in wrong)
        return " and ".join(listed) if self.requirements else "an empty nodeSelectorTerm"


ANY_NODE: Final = NodeChoice()


def _described(rule: Requirement, flavors: Sequence[FlavorPolicy]) -> str:
    values = ", ".join(rule.values)
    asked = (
        f"{rule.key}={values}" if rule.operator == "In" else f"{rule.key} {rule.operator} {values}".rstrip()
    )
    listed = (
        f"{flavor.name}: {' or '.join(filter(None, _values(rule.key, flavor) or ())) or 'none'}"
        for flavor in flavors
    )
    return f"{asked} ({', '.join(listed)})"


def _may_meet(rule: Requirement, flavor: FlavorPolicy, policy: GangPolicy) -> bool:
    if not _is_compared(rule.key, policy):
        return True
    values = _values(rule.key, flavor)
    return values is None or any(matches(rule, {rule.key: value} if value else {}) for value in values)


def _is_compared(key: str, policy: GangPolicy) -> bool:
    if key in (POOL_LABEL, ZONE_LABEL, _REGION_LABEL, *_OF_EVERY_NODE) or any(
        key in flavor.node_labels for flavor in policy.flavors
    ):
        return True
    return any(
        key == each or (each.endswith("/") and key.startswith(each)) for each in policy.compared_labels
    )


def domains(key: str, flavor: FlavorPolicy, policy: GangPolicy) -> int | None:
    """How many values of this label nodes of the pool have; None where that is not known."""
    values = _values(key, flavor) if _is_compared(key, policy) else None
    return None if values is None else sum(value is not None for value in values)


def _values(key: str, flavor: FlavorPolicy) -> Sequence[str | None] | None:
    """What nodes of the pool may have; None where that is not known."""
    if key == POOL_LABEL:
        return (flavor.name,)
    if key == ZONE_LABEL:
        return flavor.zones or None
    if key == _REGION_LABEL:
        zones = [_ZONE.fullmatch(zone) for zone in flavor.zones]
        regions = dict.fromkeys(zone["google"] or zone["aws"] for zone in zones if zone)
        return list(regions) if all(zones) and regions else None
    value = flavor.node_labels.get(key, _OF_EVERY_NODE.get(key))
    return value.split(",") if value else (value,)


def on_their_nodes(rules: PodAffinity | None, others: Iterable[Mapping[str, str]]) -> bool:
    """Whether these require something of a pod's node about all pods with such labels there."""
    labels = tuple(others)
    terms = rules.required_during_scheduling_ignored_during_execution if rules else ()
    return any(
        term.topology_key == NODE
        and not term.mismatch_label_keys
        and all(selects(term, each) for each in labels)
        for term in terms
    )


def selects(rule: PodAffinityTerm | TopologySpreadConstraint, labels: Mapping[str, str]) -> bool:
    """Whether it selects all pods of a template for each of them. KubeRay adds labels to its pods, of which
    those of the cluster are all pods' of a group. Others that a controller writes may be another for each.
    """
    selector = rule.label_selector
    if selector is None or not labels.keys() >= {*rule.match_label_keys}:
        return False
    named = {**selector.match_labels}
    return all(
        labels.get(key, value if key.startswith("ray.io/") else None) == value for key, value in named.items()
    ) and all(rule.key.startswith("ray.io/") or matches(rule, labels) for rule in selector.match_expressions)
