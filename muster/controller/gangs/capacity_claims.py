"""What a provisioned request promises, and what the gang's pods must carry to claim it.

Decides the claim of each PodSet (the consume annotation, the pin to its lease) and the room that its pods
will look for with it. Also what other gangs were promised and have not used: room that must not be promised
twice.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from muster.controller.gangs.consumers import Consumers
from muster.controller.gangs.demand import Demand
from muster.controller.gangs.lease import lease_end, written
from muster.controller.gangs.objects import Pod, ProvisioningRequest
from muster.controller.gangs.split import Ask, Gang
from muster.controller.gangs.verify import Wanted
from muster.model.names import CLASS_ANNOTATION, CONSUME_ANNOTATION, LEASE_ENDS_ANNOTATION


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What the pods of one PodSet must carry to use what was promised to them."""

    pod_set: str
    annotations: Mapping[str, str]
    node_selector: Mapping[str, str]

    @property
    def request(self) -> str:
        """The request that pods with this claim consume."""
        return self.annotations.get(CONSUME_ANNOTATION, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """One PodSet and where its pods will go. `claim` is None where nothing was asked for."""

    wanted: Wanted
    claim: Claim | None
    is_verified: bool


def promises(gang: Gang, requests: Mapping[str, ProvisioningRequest]) -> tuple[Promise, ...]:
    """One for each PodSet of the gang. Every request must be there."""
    asked = [promise for ask in gang.asks for promise in promises_of(ask, requests[ask.shape])]
    present = [Promise(wanted=_wanted(demand), claim=None, is_verified=True) for demand in gang.present]
    return (*asked, *present)


def promises_of(ask: Ask, request: ProvisioningRequest) -> tuple[Promise, ...]:
    """One for each PodSet of the request."""
    return tuple(_promise(demand, ask, request) for demand in ask.demands)


def _promise(demand: Demand, ask: Ask, request: ProvisioningRequest) -> Promise:
    pins = pins_of(ask, request)
    annotations = {
        CONSUME_ANNOTATION: request.metadata.name,
        CLASS_ANNOTATION: ask.flavor.provisioning_class_name,
    }
    if ends := lease_end(request):
        # Where a program can read it (the downward API), so that it saves its work in time.
        annotations[LEASE_ENDS_ANNOTATION] = written(ends)
    return Promise(
        wanted=wanted_with(demand, pins),
        claim=Claim(pod_set=demand.pod_set, annotations=annotations, node_selector=pins),
        is_verified=ask.flavor.verify_nodes,
    )


def wanted_with(demand: Demand, pins: Mapping[str, str]) -> Wanted:
    """The room that the pods of a PodSet look for, pinned to their lease."""
    wanted = _wanted(demand)
    needs = replace(wanted.needs, node_selector={**wanted.needs.node_selector, **pins})
    return replace(wanted, needs=needs)


def _wanted(demand: Demand) -> Wanted:
    return Wanted(
        name=demand.pod_set,
        pool=demand.flavor.name,
        count=demand.count,
        needs=demand.needs,
        shares_nodes=demand.shares_nodes,
    )


def pins_of(ask: Ask, request: ProvisioningRequest) -> dict[str, str]:
    """Node labels that only the nodes of this lease carry."""
    details = request.status.provisioning_class_details
    return {
        selector.key: details[selector.detail]
        for selector in ask.flavor.node_selector_from_details
        if selector.detail in details
    }


def missing_detail(ask: Ask, request: ProvisioningRequest) -> str:
    """The name of a detail that the pins need and the request does not give yet; empty when it gives all."""
    details = request.status.provisioning_class_details
    wanted = (selector.detail for selector in ask.flavor.node_selector_from_details)
    return next((detail for detail in wanted if not details.get(detail)), "")


def outstanding(
    gang: Gang,
    requests: Mapping[str, ProvisioningRequest],
    pods: Iterable[Pod],
    *,
    ended: Mapping[str, int],
) -> tuple[Wanted, ...]:
    """What another gang's provisioned requests promise and its pods do not occupy yet. `ended`: pods of a
    PodSet that are done and come back no more.

    A lease with nodes of its own needs no protection: nobody else's pods select its label. What nothing was
    asked for (a head on nodes that stand) has no mark of its own: it is counted until the rest has its nodes.
    """
    there = Consumers(gang, (pod for pod in pods if pod.spec.node_name), ended=ended)
    promised = [
        (ask, request)
        for ask in gang.asks
        if (request := requests.get(ask.shape)) and request.status.holds("Provisioned")
    ]
    waiting = [(ask, tuple(_unused(ask, request, there))) for ask, request in promised]
    is_coming = len(promised) == len(gang.asks) and any(left for _, left in waiting)
    present = [_wanted(demand) for demand in gang.present] if is_coming else []
    shared = [each for ask, left in waiting if not ask.flavor.node_selector_from_details for each in left]
    return (*present, *shared)


def _unused(ask: Ask, request: ProvisioningRequest, there: Consumers) -> Iterator[Wanted]:
    """The room in this request that no pod has taken yet."""
    for demand in ask.demands:
        if count := there.lacking(demand, (request.metadata.name,)):
            yield replace(_wanted(demand), count=count)
