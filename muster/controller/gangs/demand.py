"""What the pods of a gang need: amounts, node selectors and tolerations.

Computes what one pod needs from a node. Each scheduler decides which pods a gang has and which pool each
uses; split.py makes ProvisioningRequests of that, and verify.py checks the nodes.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from muster.controller.gangs.objects import NodeSelectorTerm, PodAffinity, PodSpec, ResourceNeeds, Toleration
from muster.controller.kube.resource import LARGEST_SHARED
from muster.model import pods
from muster.model.gangpolicy import FlavorPolicy
from muster.model.names import GPU_RESOURCE, KAI_REQUIRED_PLACEMENT
from muster.model.pods import Amounts

# What a pod demands of its node that a placeholder does not copy.
#
# A ProvisioningRequest sends the whole pod template. Placeholders have its amounts, node selector,
# tolerations, required node affinity and RuntimeClass, so that they may stand where the gang's own pods do
# not fit.


_NODE: Final = "kubernetes.io/hostname"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncopied:
    """`field`: of the pod's spec. `on_one_node`: it only keeps pods off a node that they would share."""

    field: str
    on_one_node: bool = False


TOPOLOGY: Final = Uncopied(field=f"annotation {KAI_REQUIRED_PLACEMENT}")
"""With KAI. Of an object it holds for all of its pods."""


def uncopied(spec: PodSpec) -> tuple[Uncopied, ...]:
    return tuple(_fields(spec))


def _fields(spec: PodSpec) -> Iterator[Uncopied]:
    if spec.resource_claims:
        yield Uncopied(field="resourceClaims")
    if spec.affinity and _topologies(spec.affinity.pod_affinity):
        yield Uncopied(field=f"affinity.podAffinity.{_REQUIRED}")
    if spec.affinity and (apart := _topologies(spec.affinity.pod_anti_affinity)):
        field = f"affinity.podAntiAffinity.{_REQUIRED}"
        yield Uncopied(field=field, on_one_node=apart == {_NODE})
    hard = {each.topology_key for each in spec.topology_spread_constraints if each.is_required}
    if hard:
        field = "topologySpreadConstraints with whenUnsatisfiable: DoNotSchedule"
        yield Uncopied(field=field, on_one_node=hard == {_NODE})
    if any(volume.ephemeral is not None for volume in spec.volumes):
        # A node takes so many disks (CSINode), which no other pod of the gang needs there.
        yield Uncopied(field="ephemeral volumes", on_one_node=True)
    if field := port_field(spec):
        yield Uncopied(field=_PORTS[field], on_one_node=True)


_PORTS: Final = {"hostPort": "hostPort of a container", "hostNetwork": "hostNetwork with ports"}


def port_field(spec: PodSpec) -> str:
    """By which field each pod takes a port of its node, which two of them cannot; empty where by none. The
    scheduler counts ports of containers, and of init containers that go on beside them.
    Source: GetHostPorts of https://github.com/kubernetes/kubernetes/blob/008b3652/pkg/scheduler/util/utils.go,
    read 2026-11-30
    """
    sidecars = (each for each in spec.init_containers if each.restart_policy == "Always")
    ports = [port for container in (*sidecars, *spec.containers) for port in container.ports]
    if any(port.host_port for port in ports):
        return "hostPort"
    return "hostNetwork" if spec.host_network and ports else ""


def _topologies(rules: PodAffinity | None) -> set[str]:
    terms = rules.required_during_scheduling_ignored_during_execution if rules else ()
    return {term.topology_key for term in terms}


_MOST: Final = 4096
"""Specs whose amounts are cached, the latest ones: a few megabytes."""

_KNOWN: Final[OrderedDict[int, tuple[PodSpec, Amounts]]] = OrderedDict()
"""By the id of the spec, which is held with them so that nothing else is given its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodNeeds:
    """What one pod demands of its node."""

    amounts: Amounts
    node_selector: Mapping[str, str]
    tolerations: tuple[Toleration, ...]
    terms: tuple[NodeSelectorTerm, ...] = ()
    runtime_class: str = ""
    overhead: Amounts | None = None
    """The part of `amounts` that the API server adds to a pod of the RuntimeClass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Equal pods of a gang and the pool that they go to."""

    pod_set: str
    count: int
    needs: PodNeeds
    flavor: FlavorPolicy
    managed: bool
    """Asks for a managed resource, such as GPUs."""
    assigned: tuple[str, ...] = ()
    """All flavors that Kueue assigned to the PodSet, each once."""
    uncopied: tuple[Uncopied, ...] = ()
    """What placeholders of its pods would lack; empty where its flavor has none."""
    apart: str = ""
    """The field that puts each of its pods on a node of its own, if any."""

    @property
    def shares_nodes(self) -> bool:
        """A node has GPUs for several of its pods: so many pods are not so many nodes."""
        gpus = self.needs.amounts.get(GPU_RESOURCE)
        if gpus is None:
            device = self.flavor.device
            count = self.needs.amounts.get(device)
            return count is not None and 0 < 2 * count <= self.flavor.node.get(device, 0)
        # In whole numbers: to compare fractions takes ten times as long, and every text asks for it.
        return 0 < 2 * gpus.numerator <= self.flavor.gpus_per_node * gpus.denominator


def pod_needs(
    spec: PodSpec,
    amounts: Amounts,
    *,
    node_selector: Mapping[str, str],
    tolerations: Sequence[Toleration] = (),
) -> PodNeeds:
    """The pod's own demands and those that its pool adds."""
    return PodNeeds(
        amounts=amounts,
        node_selector={**spec.node_selector, **node_selector},
        tolerations=(*spec.tolerations, *tolerations),
        terms=spec.required_terms,
        runtime_class=spec.runtime_class_name,
        overhead=pods.read({}, spec.overhead) if spec.runtime_class_name else None,
    )


def pod_amounts(spec: PodSpec) -> Amounts:
    """What the scheduler counts for one pod. Raises ValueError for a bad quantity.

    Fractions are exact and slow, and each look at a gang asks for those of all its pods, so they are
    remembered by the object: it cannot change, caches hand out one and the same, and to compare what is in it
    would take as long as to add it up.
    """
    known = _KNOWN.get(id(spec))
    if known is not None:
        _KNOWN.move_to_end(id(spec))
        return known[1]
    amounts = amounts_once(spec)
    if len(msgspec.json.encode(spec)) <= LARGEST_SHARED:
        _KNOWN[id(spec)] = spec, amounts
        if len(_KNOWN) > _MOST:
            _KNOWN.popitem(last=False)
    return amounts


def amounts_once(spec: PodSpec) -> Amounts:
    """The same for a spec that is read once, from any source and of any size. Nothing is cached."""
    initials = (
        pods.Initial(_needs(container.resources), container.restart_policy == "Always")
        for container in spec.init_containers
    )
    return pods.total(
        initials,
        (_needs(container.resources) for container in spec.containers),
        pods.read({}, spec.overhead),
        limits=pods.read(spec.resources.limits, {}),
        requests=pods.read({}, spec.resources.requests),
    )


def _needs(needs: ResourceNeeds) -> Amounts:
    return pods.read(needs.limits, needs.requests)
