"""Pools from live nodes: the nodes that a flavor selects, where all of them are alike."""

from typing import Any

from muster.adopt.cluster import LiveCluster
from muster.adopt.findings import Findings


def to_pools(live: LiveCluster, findings: Findings) -> dict[str, Any]:
    return {}
