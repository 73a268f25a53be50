"""What a provisioned request promises, and what pods carry to claim it.

Computes the claim of each PodSet (the consume annotation, the pin to its lease) and the capacity that its
pods need. Also the capacity that other gangs have claimed and not used, which must not be given away twice.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from muster.controller.gangs.demand import Demand
from muster.controller.gangs.identity import promised_by
from muster.controller.gangs.lease import format_time, lease_end
from muster.controller.gangs.objects import Pod, ProvisioningRequest, Toleration
from muster.controller.gangs.placeholder_sets import PlaceholderSet, toleration_of
from muster.controller.gangs.split import Gang, RequestSpec
from muster.controller.gangs.vacated_leases import TakenLease
from muster.controller.gangs.verify import PodDemand
from muster.model.names import (
    CLAIM_ANNOTATIONS,
    CLASS_ANNOTATION,
    CONSUME_ANNOTATION,
    HELD_TAINT_KEY,
    LEASE_ENDS_ANNOTATION,
    PLACED_ANNOTATION,
    POD_SET_LABEL,
    UNDISTURBED,
)

# Which pods of a gang already have a node, by the request they consume and their PodSet.
#
# Where PodSets share one request, a small pod does not count for a missing large one. Kueue writes the PodSet
# on every pod that it starts (pkg/controller/jobframework/reconciler.go of 0.19.2); a pod without it (KAI's,
# or one of a PodSet that the gang does not have) counts for the first PodSet that needs one. The caller
# decides which nodes count.


class Consumers:
    """Each pod can be taken once. `pods`: those that have their node; `ended`: pods of a PodSet that are done
    and come back no more.
    """

    def __init__(self, gang: Gang, pods: Iterable[Pod], *, ended: Mapping[str, int]) -> None:
        self._ended = ended
        known = {demand.pod_set for spec in gang.request_specs for demand in spec.demands}
        self._left: Counter[tuple[str, str]] = Counter()
        for pod in pods:
            if request := promised_by(pod.metadata.annotations):
                pod_set = pod.metadata.labels.get(POD_SET_LABEL, "")
                self._left[request, pod_set if pod_set in known else ""] += 1

    def lacking(self, demand: Demand, requests: Iterable[str]) -> int:
        """How many pods of the PodSet have no node yet, after it has taken what consumes these requests: of
        each its own, then those of no name.
        """
        needed = max(0, demand.count - self._ended.get(demand.pod_set, 0))
        for request in requests:
            for name in (demand.pod_set, ""):
                taken = min(needed, self._left[request, name])
                self._left[request, name] -= taken
                needed -= taken
        return needed


@dataclass(frozen=True, slots=True, kw_only=True)
class PodClaim:
    """What the pods of one PodSet must carry to use what was promised to them."""

    pod_set: str
    annotations: Mapping[str, str]
    node_selector: Mapping[str, str]
    tolerations: tuple[Toleration, ...] = ()

    @property
    def request(self) -> str:
        """The request that pods with this claim consume."""
        return promised_by(self.annotations)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityClaim:
    """One PodSet and where its pods will go. `pod_claim` is None where nothing was requested."""

    demand: PodDemand
    pod_claim: PodClaim | None
    is_verified: bool


def capacity_claims_of(gang: Gang, requests: Mapping[str, ProvisioningRequest]) -> tuple[CapacityClaim, ...]:
    """One for each PodSet of the gang. Every request must be there."""
    asked = [claim for spec in gang.request_specs for claim in claims_of_request(spec, requests[spec.shape])]
    present = [
        CapacityClaim(demand=unpinned_demand(demand), pod_claim=None, is_verified=True)
        for demand in gang.present
    ]
    return (*asked, *present)


def pod_claims(claims: Iterable[CapacityClaim]) -> Mapping[str, PodClaim]:
    """What pods carry, by PodSet."""
    return {each.demand.name: each.pod_claim for each in claims if each.pod_claim is not None}


def claims_of_request(spec: RequestSpec, request: ProvisioningRequest) -> tuple[CapacityClaim, ...]:
    """One for each PodSet of the request."""
    return tuple(_capacity_claim(demand, spec, request) for demand in spec.demands)


def _capacity_claim(demand: Demand, spec: RequestSpec, request: ProvisioningRequest) -> CapacityClaim:
    if isinstance(request, PlaceholderSet):
        return _placed_claim(demand, request, index=spec.demands.index(demand))
    pins = pins_of(spec, request)
    if isinstance(request, TakenLease):
        # GKE's webhook would pin what claims to consume a request to nodes of that request.
        annotations, ends = {PLACED_ANNOTATION: request.metadata.name}, request.ends
    else:
        annotations = {
            CONSUME_ANNOTATION: request.metadata.name,
            CLASS_ANNOTATION: spec.flavor.provisioning_class_name,
        }
        ends = lease_end(request)
    if ends:
        # Where a program can read it (the downward API), so that it saves its work in time.
        annotations[LEASE_ENDS_ANNOTATION] = format_time(ends)
    return CapacityClaim(
        demand=pinned_demand(demand, pins),
        pod_claim=PodClaim(pod_set=demand.pod_set, annotations=annotations, node_selector=pins),
        is_verified=spec.flavor.verify_nodes,
    )


def _placed_claim(demand: Demand, held: PlaceholderSet, *, index: int) -> CapacityClaim:
    """Its nodes were looked at one by one: each has a placeholder. On the pods of a growth Kueue writes the
    annotations of ProvisioningRequests alone, so one of those tells which set they consume.
    """
    undisturbed = {key: value for key, value in UNDISTURBED.items() if key not in held.kept[index]}
    promise = CONSUME_ANNOTATION if held.shares_taint else PLACED_ANNOTATION
    claim = PodClaim(
        pod_set=demand.pod_set,
        annotations={promise: held.metadata.name, **undisturbed},
        node_selector={},
        tolerations=(toleration_of(held.held_as),),
    )
    return CapacityClaim(demand=unpinned_demand(demand), pod_claim=claim, is_verified=False)


def carried_claim(pod: Pod, pod_set: str, spec: RequestSpec) -> PodClaim:
    """The claim that a pod of this request carries."""
    keys = {selector.key for selector in spec.flavor.node_selector_from_details}
    return PodClaim(
        pod_set=pod_set,
        annotations={
            name: pod.metadata.annotations[name]
            for name in (*CLAIM_ANNOTATIONS, PLACED_ANNOTATION)
            if name in pod.metadata.annotations
        },
        node_selector={key: value for key, value in pod.spec.node_selector.items() if key in keys},
        tolerations=tuple(each for each in pod.spec.tolerations if each.key == HELD_TAINT_KEY),
    )


def pinned_demand(
    demand: Demand, pins: Mapping[str, str], tolerations: Iterable[Toleration] = ()
) -> PodDemand:
    """The capacity that the pods of a PodSet need, pinned to their lease."""
    unpinned = unpinned_demand(demand)
    needs = replace(
        unpinned.needs,
        node_selector={**unpinned.needs.node_selector, **pins},
        tolerations=(*unpinned.needs.tolerations, *tolerations),
    )
    return replace(unpinned, needs=needs)


def unpinned_demand(demand: Demand) -> PodDemand:
    return PodDemand(
        name=demand.pod_set,
        pool=demand.flavor.name,
        count=demand.count,
        needs=demand.needs,
        shares_nodes=demand.shares_nodes,
    )


def pins_of(spec: RequestSpec, request: ProvisioningRequest) -> dict[str, str]:
    """Node labels that only the nodes of this lease carry."""
    details = request.status.provisioning_class_details
    return {
        selector.key: details[selector.detail]
        for selector in spec.flavor.node_selector_from_details
        if selector.detail in details
    }


def missing_detail(spec: RequestSpec, request: ProvisioningRequest) -> str:
    """The name of a detail that the pins need and the request does not give yet; empty when it gives all."""
    details = request.status.provisioning_class_details
    demand = (selector.detail for selector in spec.flavor.node_selector_from_details)
    return next((detail for detail in demand if not details.get(detail)), "")


def unused_claims(
    gang: Gang,
    requests: Mapping[str, ProvisioningRequest],
    pods: Iterable[Pod],
    *,
    ended: Mapping[str, int],
    is_handed_over: bool = False,
) -> tuple[PodDemand, ...]:
    """What another gang's provisioned requests promise and its pods do not occupy yet. `ended`: pods of a
    PodSet that are done and come back no more. `is_handed_over`: the gang may start, so its placeholders are
    gone or go, and its nodes wait for its pods.

    Nodes of its own need no protection. What nothing was asked for (a head on nodes that stand) has no mark
    of its own: it is counted until the rest has its nodes.
    """
    consumers = Consumers(gang, (pod for pod in pods if pod.spec.node_name), ended=ended)
    provisioned = [
        (spec, request)
        for spec in gang.request_specs
        if (request := requests.get(spec.shape))
        and (request.status.holds("Provisioned") or (is_handed_over and spec.flavor.by_placeholders))
    ]
    waiting = [(spec, tuple(_unbound(spec, request, consumers))) for spec, request in provisioned]
    is_coming = len(provisioned) == len(gang.request_specs) and any(left for _, left in waiting)
    present = [unpinned_demand(demand) for demand in gang.present] if is_coming else []
    shared = [each for spec, left in waiting if not spec.flavor.has_own_nodes for each in left]
    return (*present, *shared)


def _unbound(spec: RequestSpec, request: ProvisioningRequest, consumers: Consumers) -> Iterator[PodDemand]:
    """The room in this request that no pod has taken yet."""
    for demand in spec.demands:
        if count := consumers.lacking(demand, (request.metadata.name,)):
            yield replace(unpinned_demand(demand), count=count)
