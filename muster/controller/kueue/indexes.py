"""Indexes of the caches of Workloads and of what is written for them.

They select the Workloads and requests that may concern a gang of some pools, so that the rest of the cluster
is not read.
"""

from datetime import datetime
from typing import Any, Final

from muster.controller.gangs.indexes import (
    BY_CLOSED,
    BY_ENDING,
    BY_HELD,
    BY_LEASE,
    BY_NODE,
    BY_OWNER,
    BY_POOL,
    BY_REQUEST,
    closed_in,
    ending_of,
    held_of,
    lease_given,
    lease_of,
    node_of,
    pool_of,
    request_of,
    set_of,
    taint_of_set,
)
from muster.controller.gangs.objects import Pod, PodTemplate, ProvisioningRequest
from muster.controller.gangs.outages import BY_SILENT_ZONE, BY_ZONE, silent_zone_of, zone_of
from muster.controller.gangs.placeholder_sets import is_asked_by_pods
from muster.controller.gangs.templates import POOL
from muster.controller.gangs.vacated_leases import is_taken, lease_taken
from muster.controller.kube.resource import Key
from muster.controller.kueue.compute_domains import BY_DOMAIN, domains_claimed
from muster.controller.kueue.identity import WORKLOADS
from muster.controller.kueue.objects import Workload
from muster.controller.kueue.slices import cluster_of, replaced
from muster.controller.runtime.store import IndexFunction
from muster.model.names import POD_WORKLOAD_ANNOTATION

BY_REPLACED = "replaced"
BY_CLUSTER = "cluster"
BY_MINUTE = "minute"
BY_WORKLOAD = "workload"


def pools_asked(template: PodTemplate) -> list[str]:
    """The pool in which its placeholder set asks for nodes, or it takes a lease."""
    pool = template.metadata.annotations.get(POOL, "")
    return [pool] if pool and (is_asked_by_pods(template) or is_taken(template)) else []


def pools_provisioning(workload: Workload) -> list[str]:
    """The flavors in which it provisions capacity."""
    status = workload.status
    if not status.holds("QuotaReserved") or status.holds("Admitted") or status.admission is None:
        return []
    assignments = status.admission.pod_set_assignments
    return list({name for assigned in assignments for name in assigned.flavors.values()})


def pools_promised(request: ProvisioningRequest) -> list[str]:
    """The pool in which it was promised nodes."""
    pool = request.metadata.annotations.get(POOL, "")
    return [pool] if pool and request.status.holds("Provisioned") else []


def minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M}"


def minute_provisioned(request: ProvisioningRequest) -> list[str]:
    """The minute in which it was Provisioned, to find recent requests."""
    moment = request.status.since("Provisioned")
    return [minute(moment)] if moment else []


def workload_of(pod: Pod) -> list[Key]:
    """Whose pod it is, by Kueue's word."""
    name = pod.metadata.annotations.get(POD_WORKLOAD_ANNOTATION, "")
    return [Key(pod.metadata.namespace, name)] if name else []


Indexes = dict[str, IndexFunction[Any]]

OF_WORKLOADS: Final[Indexes] = {
    BY_POOL: pools_provisioning,
    BY_REPLACED: replaced,
    BY_CLUSTER: cluster_of,
    BY_DOMAIN: domains_claimed,
}
OF_REQUESTS: Final[Indexes] = {
    BY_OWNER: WORKLOADS.keys_of,
    BY_POOL: pools_promised,
    BY_LEASE: lease_given,
    BY_MINUTE: minute_provisioned,
}
OF_BELONGINGS: Final[Indexes] = {BY_OWNER: WORKLOADS.keys_of}
OF_TEMPLATES: Final[Indexes] = {
    **OF_BELONGINGS,
    BY_REQUEST: set_of,
    BY_HELD: taint_of_set,
    BY_POOL: pools_asked,
    BY_LEASE: lease_taken,
}
OF_PLACEHOLDERS: Final[Indexes] = {**OF_BELONGINGS, BY_NODE: node_of}
OF_NODES: Final[Indexes] = {
    BY_POOL: pool_of,
    BY_LEASE: lambda node: [lease_of(node)],
    BY_HELD: held_of,
    BY_CLOSED: closed_in,
    BY_ZONE: zone_of,
    BY_SILENT_ZONE: silent_zone_of,
}
OF_PODS: Final[Indexes] = {
    BY_NODE: node_of,
    BY_REQUEST: request_of,
    BY_ENDING: ending_of,
    BY_WORKLOAD: workload_of,
}
