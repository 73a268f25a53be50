"""Nodes of which nothing is heard: Ready is Unknown, because their kubelets have not reported.

Such a node may be gone, or cut off from the API server while its pods run on. One that is gone is deleted by
its cloud. Where most nodes are silent at once, the network between them and the API server has failed.
Kubernetes then evicts no pod (kubernetes.io, "Node eviction": a zone is unhealthy from 55 % of its nodes on,
and from three), and evicting every gang of the fleet would cost what they compute and bring no node back.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from muster.controller.gangs.objects import Node
from muster.model.names import ZONE_LABEL

_SHARE: Final = 0.55
_FEWEST: Final = 3

BY_ZONE: Final = "zone"
BY_SILENT_ZONE: Final = "silent zone"
"""Indexes of the cache of nodes: a fleet is not counted again for each gang that an outage concerns."""


def is_silent(node: Node) -> bool:
    ready = node.status.condition("Ready")
    return ready is not None and ready.status == "Unknown" and not node.metadata.deletion_timestamp


def zone_of(node: Node) -> list[str]:
    return [node.metadata.labels.get(ZONE_LABEL, "")]


def silent_zone_of(node: Node) -> list[str]:
    return zone_of(node) if is_silent(node) else []


def nodes_in_outage(
    nodes: Iterable[Node], *, known: Mapping[str, int], silent: Mapping[str, int]
) -> frozenset[str]:
    """The names of those that are silent in zones where most are, or where most of the cluster is. `known`
    and `silent`: how many nodes each zone has, and of how many nothing is heard.
    """
    is_everywhere = _is_outage(sum(silent.values()), of=sum(known.values()))
    zones = {zone for zone, count in silent.items() if is_everywhere or _is_outage(count, of=known[zone])}
    return frozenset(node.metadata.name for node in nodes if zones & set(silent_zone_of(node)))


def _is_outage(silent: int, *, of: int) -> bool:
    return silent >= _FEWEST and silent / of >= _SHARE
