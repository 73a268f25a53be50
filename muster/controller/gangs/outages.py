"""Nodes of which nothing is heard: Ready is Unknown, because their kubelets have not reported.

Such a node may be gone, or cut off from the API server while its pods run on. One that is gone is deleted by
its cloud. Where most nodes are silent at once, the network between them and the API server has failed.
Kubernetes then evicts no pod (kubernetes.io, "Node eviction": a zone is unhealthy from 55 % of its nodes on,
and from three), and evicting every gang of the fleet would cost what they compute and bring no node back.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from muster.controller.gangs.objects import Node

_SHARE: Final = 0.55
_FEWEST: Final = 3
_ZONE_LABEL: Final = "topology.kubernetes.io/zone"


def is_silent(node: Node) -> bool:
    ready = node.status.condition("Ready")
    return ready is not None and ready.status == "Unknown" and not node.metadata.deletion_timestamp


def nodes_in_outage(nodes: Iterable[Node]) -> frozenset[str]:
    """The names of the silent nodes in zones where most are silent; of all silent nodes where most of the
    cluster is.
    """
    listed = tuple(nodes)
    silent = {node.metadata.name: _zone(node) for node in listed if is_silent(node)}
    of_zone, silent_of_zone = Counter(map(_zone, listed)), Counter(silent.values())
    if _is_outage(len(silent), of=len(listed)):
        return frozenset(silent)
    return frozenset(
        name for name, zone in silent.items() if _is_outage(silent_of_zone[zone], of=of_zone[zone])
    )


def _is_outage(silent: int, *, of: int) -> bool:
    return silent >= _FEWEST and silent >= _SHARE * of


def _zone(node: Node) -> str:
    return node.metadata.labels.get(_ZONE_LABEL, "")
