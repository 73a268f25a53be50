"""The PodSets of a Workload as a gang.

Computes which PodSets request capacity and what one of their pods needs from a node, in the flavors that
Kueue assigned. The rest is muster.controller.gangs'.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from muster.controller.gangs.demand import Demand, PodNeeds, pod_amounts, pod_needs, port_field, uncopied
from muster.controller.gangs.objects import PodSpec, Toleration
from muster.controller.gangs.split import Gang, split
from muster.controller.kueue.objects import Flavors, PodSet, PodSetAssignment, Workload
from muster.model.gangpolicy import GangPolicy
from muster.model.names import UNCOUNTED_DEVICES
from muster.model.pods import Amounts

NONE: Final[Mapping[str, int]] = MappingProxyType({})


def gang(
    workload: Workload, policy: GangPolicy, flavors: Flavors, *, granted: Mapping[str, int] = NONE
) -> Gang:
    """The gang that an admitted-quota Workload makes under the policy, less the pods of it that run already.
    Raises ValueError for a bad quantity.
    """
    return split(
        demands(workload, policy, flavors, granted=granted),
        annotations=workload.metadata.annotations,
        running=demands(part(workload, granted), policy, flavors) if granted else (),
    )


def part(workload: Workload, counts: Mapping[str, int]) -> Workload:
    """The Workload with no more pods than these."""
    pod_sets = tuple(
        replace(each, count=min(each.count, counts.get(each.name, 0))) for each in workload.spec.pod_sets
    )
    return replace(workload, spec=replace(workload.spec, pod_sets=pod_sets))


def done_before(workload: Workload) -> Mapping[str, int]:
    """The pods, by PodSet, that were done when the Workload was admitted: Kueue reserves for the rest alone
    (pkg/workload/workload.go of 0.19.2, totalRequestsFromPodSets). Of a PodSet that may be admitted in part
    this is unknown, so none.
    """
    admission = workload.status.admission
    admitted = {each.name: each.count for each in (admission.pod_set_assignments if admission else ())}
    found = {}
    for each in workload.spec.pod_sets:
        count = admitted.get(each.name)
        if count is not None and each.min_count is None:
            found[each.name] = max(0, each.count - count)
    return found


def done_since(workload: Workload) -> Mapping[str, int]:
    """The pods, by PodSet, that are done, of those that were admitted."""
    before = done_before(workload)
    return {
        each.name: max(0, each.count - before.get(each.name, 0)) for each in workload.status.reclaimable_pods
    }


def admitted_counts(workload: Workload) -> Mapping[str, int]:
    """The pods, by PodSet, that it may start."""
    admission = workload.status.admission
    assignments = {each.name: each for each in (admission.pod_set_assignments if admission else ())}
    return {
        each.name: _admitted(each, assignments[each.name])
        for each in workload.spec.pod_sets
        if each.name in assignments
    }


def _admitted(pod_set: PodSet, assignment: PodSetAssignment) -> int:
    """Less than the job wants where Kueue admits a part, more where an elastic one has shrunk meanwhile."""
    return pod_set.count if assignment.count is None else min(assignment.count, pod_set.count)


def demands(
    workload: Workload, policy: GangPolicy, flavors: Flavors, *, granted: Mapping[str, int] = NONE
) -> tuple[Demand, ...]:
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
        less = granted.get(pod_set.name, 0)
        demand = _demand(pod_set, assignment, policy, flavors, less=less) if assignment else None
        if demand is not None:
            found.append(demand)
    return tuple(found)


def _demand(
    pod_set: PodSet, assignment: PodSetAssignment, policy: GangPolicy, flavors: Flavors, *, less: int
) -> Demand | None:
    count = max(0, _admitted(pod_set, assignment) - less)
    amounts = pod_amounts(pod_set.template.spec)
    resource = managed_resource(amounts, policy) or claimed_resource(pod_set, assignment, amounts)
    assigned = assignment.flavors.get(resource) or next(iter(sorted(assignment.flavors.values())), "")
    flavor = policy.flavor(assigned)
    if flavor is None or count == 0:
        return None
    names = tuple(dict.fromkeys(assignment.flavors.values()))
    return Demand(
        pod_set=pod_set.name,
        count=count,
        needs=flavored(pod_set.template.spec, amounts, names, flavors),
        flavor=flavor,
        assigned=names,
        managed=bool(resource),
        uncopied=uncopied(pod_set.template.spec) if flavor.by_placeholders else (),
        apart=port_field(pod_set.template.spec),
    )


def unlisted(pod_set: PodSet, assignment: PodSetAssignment, policy: GangPolicy) -> str:
    """The flavor that its managed resource is assigned to and that the policy does not speak of: without the
    PodSet, what is left of the gang would count as the whole. Empty where there is none. Raises ValueError
    for a bad quantity.
    """
    amounts = pod_amounts(pod_set.template.spec)
    resource = managed_resource(amounts, policy) or claimed_resource(pod_set, assignment, amounts)
    assigned = assignment.flavors.get(resource, "")
    return assigned if assigned and policy.flavor(assigned) is None else ""


def managed_resource(amounts: Amounts, policy: GangPolicy) -> str:
    """The first managed resource that a pod requests, in whichever of its containers or as a whole; empty
    where it requests none.
    """
    return next((name for name in policy.managed_resources if amounts.get(name)), "")


def claimed_resource(pod_set: PodSet, assignment: PodSetAssignment, amounts: Amounts) -> str:
    """What Kueue counts the pods' ResourceClaims as (`muster:kueue.deviceClasses`): it has assigned a flavor
    for it, and no container requests it. Empty where they claim no device that has quota.
    """
    counted = sorted(assignment.flavors.keys() - amounts.keys() - {"pods", UNCOUNTED_DEVICES})
    return counted[0] if counted and pod_set.template.spec.resource_claims else ""


def flavored(spec: PodSpec, amounts: Amounts, assigned: Iterable[str], flavors: Flavors) -> PodNeeds:
    """The template's own demands and those of its flavors, merged as Kueue merges them when it starts the
    job.
    """
    selector: dict[str, str] = {}
    tolerations: list[Toleration] = []
    for name in assigned:
        if name in flavors:
            selector |= flavors[name].spec.node_labels
            tolerations += flavors[name].spec.tolerations
    return pod_needs(spec, amounts, node_selector=selector, tolerations=tolerations)
