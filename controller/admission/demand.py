"""What a gang needs: its PodSets as amounts, selectors and tolerations.

Decides which PodSets ask for capacity of ours and what one of their pods needs from a node. Leaves to
split.py how that becomes ProvisioningRequests, and to verify.py whether nodes have it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controller.admission.objects import (
    Flavors,
    NodeSelectorTerm,
    PodSet,
    PodSetAssignment,
    PodSpec,
    ResourceNeeds,
    Toleration,
    Workload,
)
from model import pods
from model.gangpolicy import FlavorPolicy, GangPolicy
from model.pods import Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class PodNeeds:
    """What one pod demands of its node."""

    amounts: Amounts
    node_selector: Mapping[str, str]
    tolerations: tuple[Toleration, ...]
    terms: tuple[NodeSelectorTerm, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """One PodSet of a gang as Kueue assigned it."""

    pod_set: str
    count: int
    needs: PodNeeds
    flavor: FlavorPolicy
    assigned: tuple[str, ...]
    """All flavors that the PodSet was assigned, each once."""
    managed: bool
    """Asks for a managed resource, so it gets a request where its flavor has a provisioning class."""


def demands(workload: Workload, policy: GangPolicy, flavors: Flavors) -> tuple[Demand, ...]:
    """The PodSets whose assigned flavor the policy speaks of, in the Workload's order; empty without an
    admission.
    """
    admission = workload.status.admission
    if admission is None:
        return ()
    assignments = {assignment.name: assignment for assignment in admission.pod_set_assignments}
    found = []
    for pod_set in workload.spec.pod_sets:
        assignment = assignments.get(pod_set.name)
        demand = _demand(pod_set, assignment, policy, flavors) if assignment else None
        if demand is not None:
            found.append(demand)
    return tuple(found)


def _demand(
    pod_set: PodSet, assignment: PodSetAssignment, policy: GangPolicy, flavors: Flavors
) -> Demand | None:
    count = pod_set.count if assignment.count is None else assignment.count
    amounts = pod_amounts(pod_set.template.spec)
    resource = next((name for name in policy.managed_resources if amounts.get(name)), "")
    assigned = assignment.flavors.get(resource) or next(iter(sorted(assignment.flavors.values())), "")
    flavor = policy.flavor(assigned)
    if flavor is None or count == 0:
        return None
    names = tuple(dict.fromkeys(assignment.flavors.values()))
    return Demand(
        pod_set=pod_set.name,
        count=count,
        needs=pod_needs(pod_set.template.spec, amounts, names, flavors),
        flavor=flavor,
        assigned=names,
        managed=bool(resource),
    )


def pod_needs(spec: PodSpec, amounts: Amounts, assigned: Iterable[str], flavors: Flavors) -> PodNeeds:
    """The template's own demands and those of its flavors, merged as Kueue merges them when it starts the
    job.
    """
    selector = dict(spec.node_selector)
    tolerations = list(spec.tolerations)
    for name in assigned:
        if name in flavors:
            selector |= flavors[name].spec.node_labels
            tolerations += flavors[name].spec.tolerations
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return PodNeeds(
        amounts=amounts,
        node_selector=selector,
        tolerations=tuple(tolerations),
        terms=required.node_selector_terms if required else (),
    )


def pod_amounts(spec: PodSpec) -> Amounts:
    """What the scheduler counts for one pod. Raises ValueError for a bad quantity."""
    initials = (
        pods.Initial(_needs(container.resources), container.restart_policy == "Always")
        for container in spec.init_containers
    )
    return pods.total(
        initials,
        (_needs(container.resources) for container in spec.containers),
        pods.read({}, spec.overhead),
    )


def _needs(needs: ResourceNeeds) -> Amounts:
    return pods.read(needs.limits, needs.requests)
