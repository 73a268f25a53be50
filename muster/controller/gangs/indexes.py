"""Indexes of the caches of nodes and pods that both schedulers use."""

from muster.controller.gangs.identity import promised_by, request_of_template
from muster.controller.gangs.objects import Node, Pod, PodTemplate, ProvisioningRequest
from muster.controller.gangs.placeholder_sets import held_as, held_for, is_asked_by_pods
from muster.controller.gangs.taints import closed_for
from muster.controller.kube.resource import Key
from muster.model.names import GKE_LEASE_DETAIL, GKE_LEASE_LABEL, POOL_LABEL

BY_OWNER = "owner"
"""Whom a request, template or placeholder was made for."""
BY_POOL = "pool"
BY_LEASE = "lease"
BY_NODE = "node"
BY_REQUEST = "request"
BY_ENDING = "ending"
BY_HELD = "held"
BY_CLOSED = "closed"
"""Broken nodes that we closed, by pool."""


def pool_of(node: Node) -> list[str]:
    return [node.metadata.labels.get(POOL_LABEL, "")]


def lease_of(node: Node) -> str:
    return node.metadata.labels.get(GKE_LEASE_LABEL, "")


def lease_given(request: ProvisioningRequest) -> list[str]:
    lease = request.status.provisioning_class_details.get(GKE_LEASE_DETAIL, "")
    return [lease] if lease else []


def held_of(node: Node) -> list[str]:
    """The value of our taint on it."""
    name = held_for(node)
    return [name] if name else []


def closed_in(node: Node) -> list[str]:
    return pool_of(node) if closed_for(node) else []


def set_of(template: PodTemplate) -> list[str]:
    """The placeholder set that it asks for."""
    return [request_of_template(template.metadata.name)] if is_asked_by_pods(template) else []


def taint_of_set(template: PodTemplate) -> list[str]:
    """The value of the taint on the nodes of its placeholder set."""
    return [held_as(template)] if is_asked_by_pods(template) else []


def node_of(pod: Pod) -> list[str]:
    return [pod.spec.node_name] if pod.spec.node_name else []


def request_of(pod: Pod) -> list[Key]:
    """The request that it consumes, which lies in its own namespace: anyone may write any name."""
    name = promised_by(pod.metadata.annotations)
    return [Key(pod.metadata.namespace, name)] if name else []


def ending_of(pod: Pod) -> list[str]:
    """All pods that are being deleted, under one key: they are few at any time."""
    return [BY_ENDING] if pod.metadata.deletion_timestamp else []
