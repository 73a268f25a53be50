"""What a pod demands of its node that a placeholder does not copy.

A ProvisioningRequest sends the whole pod template. Placeholders have its amounts, node selector, tolerations,
required node affinity and RuntimeClass, so that they may stand where the gang's own pods do not fit.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from muster.controller.gangs.objects import PodAffinity, PodSpec

_NODE: Final = "kubernetes.io/hostname"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncopied:
    """`field`: of the pod's spec. `on_one_node`: it only keeps pods off a node that they would share."""

    field: str
    on_one_node: bool = False


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
    hard = {
        each.topology_key
        for each in spec.topology_spread_constraints
        if each.when_unsatisfiable != "ScheduleAnyway"
    }
    if hard:
        field = "topologySpreadConstraints with whenUnsatisfiable: DoNotSchedule"
        yield Uncopied(field=field, on_one_node=hard == {_NODE})
    if any(volume.ephemeral is not None for volume in spec.volumes):
        # A node takes so many disks (CSINode), which no other pod of the gang needs there.
        yield Uncopied(field="ephemeral volumes", on_one_node=True)
    ports = [port for each in (*spec.init_containers, *spec.containers) for port in each.ports]
    if any(port.host_port for port in ports):
        yield Uncopied(field="hostPort of a container", on_one_node=True)
    elif spec.host_network and ports:
        yield Uncopied(field="hostNetwork with ports", on_one_node=True)


def _topologies(rules: PodAffinity | None) -> set[str]:
    terms = rules.required_during_scheduling_ignored_during_execution if rules else ()
    return {term.topology_key for term in terms}
