"""By what the caches of gated pods, of nodes, and of what is written for Ray clusters, are indexed."""

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
    node_of,
    pool_of,
    request_of,
    taint_of_set,
)
from muster.controller.kai.labels import CLUSTERS, gang_of, is_bound, is_finished, is_released
from muster.controller.kai.objects import GatedPod
from muster.controller.kube.resource import Key
from muster.controller.runtime.store import IndexFunction
from muster.model.names import KAI_QUEUE_LABEL

BY_CLUSTER = "cluster"
RELEASED = "released"
BOUND_IN = "bound-in"
"""Pods of gangs with a node, by KAI's queue."""


def released_cluster_of(pod: GatedPod) -> list[Key]:
    return gang_of(pod) if is_released(pod) else []


def queue_of_bound(pod: GatedPod) -> list[str]:
    queue = pod.metadata.labels.get(KAI_QUEUE_LABEL, "")
    return [queue] if queue and is_bound(pod) and not is_finished(pod) and gang_of(pod) else []


Indexes = dict[str, IndexFunction[Any]]

OF_REQUESTS: Final[Indexes] = {BY_OWNER: CLUSTERS.keys_of, BY_LEASE: lease_given}
OF_TEMPLATES: Final[Indexes] = {BY_OWNER: CLUSTERS.keys_of, BY_HELD: taint_of_set}
OF_PLACEHOLDERS: Final[Indexes] = {BY_OWNER: CLUSTERS.keys_of, BY_NODE: node_of}
OF_NODES: Final[Indexes] = {BY_POOL: pool_of, BY_HELD: held_of, BY_CLOSED: closed_in}
OF_PODS: Final[Indexes] = {
    BY_CLUSTER: gang_of,
    BY_ENDING: ending_of,
    BY_NODE: node_of,
    BY_REQUEST: request_of,
    RELEASED: released_cluster_of,
    BOUND_IN: queue_of_bound,
}
