"""Karpenter's chart: its values. What it launches is rendered by render/karpenter.py."""

from collections.abc import Mapping
from typing import Any, Final

from muster.model import names
from muster.model.clusters import EksCluster

# https://karpenter.sh/docs/getting-started/getting-started-with-karpenter/ asks for a CPU; it uses one while
# it decides, and its memory holds every pod and node.
_RESOURCES: Final = {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}}


def chart_values(
    cluster: EksCluster, *, queue: str, image: str, node_selector: Mapping[str, str]
) -> dict[str, Any]:
    """`queue`: the name of its queue. `image`: its reference, by tag or digest."""
    place, _, digest = image.partition("@")
    repository, _, tag = place.rpartition(":") if ":" in place.rpartition("/")[2] else (place, "", "")
    return {
        # Its pods keep off each other's nodes, and nothing adds nodes to the system pool.
        "replicas": min(2, cluster.system_pool.min_nodes),
        "serviceAccount": {"name": names.KARPENTER},
        "nodeSelector": {"kubernetes.io/os": "linux", **node_selector},
        # The chart's own refuses a node of the zone that has a pod already, also where there is no other.
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": names.ZONE_LABEL, "whenUnsatisfiable": "ScheduleAnyway"}
        ],
        # The digest of the chart is that of the chart's own image.
        "controller": {
            "image": {"repository": repository, "tag": tag, "digest": digest},
            "resources": _RESOURCES,
        },
        "settings": {"clusterName": cluster.name, "interruptionQueue": queue},
    }
