"""The keys of the stack file of a cluster that runs KAI."""

from typing import Any

from muster.adopt.cluster import LiveCluster
from muster.adopt.findings import Findings
from muster.adopt.kai.pools import to_pools
from muster.adopt.kai.settings import to_priorities, to_settings
from muster.adopt.kai.tree import to_departments


def to_values(live: LiveCluster, findings: Findings, *, with_pools: bool) -> dict[str, Any]:
    """`with_pools`: whether the nodes are pools of the stack."""
    return {
        "pools": to_pools(live, findings) if with_pools else {},
        "scheduler": "kai",
        "kai": to_settings(live, findings),
        "priorities": to_priorities(live),
        "departments": to_departments(live, findings),
    }
