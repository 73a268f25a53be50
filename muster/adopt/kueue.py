"""Kueue's objects as the keys of a stack file: flavors, checks, priorities and queues, under their names."""

from typing import Any, Final

from muster.adopt.cluster import LiveCluster, title
from muster.adopt.departments import QueueTree, to_checks, to_priorities, to_queue_tree, to_request_configs
from muster.adopt.findings import Findings
from muster.adopt.nodes import to_flavor, to_topologies
from muster.live.fields import text

_LEFT_ALONE: Final = "left out; the object stays as it is"
_ELSEWHERE: Final = ("MultiKueueConfig", "MultiKueueCluster")


def to_kueue(
    live: LiveCluster, pools: dict[str, Any], findings: Findings
) -> tuple[QueueTree, dict[str, Any]]:
    """The keys of the stack file that say what Kueue has. `pools`: those of the stack, by name."""
    checks = to_checks(live, findings)
    tree = to_queue_tree(live, checks, findings)
    of_pools = {each["kueue"].get("flavor", name) for name, each in pools.items()}
    flavors = {
        text(each, "metadata", "name"): to_flavor(each)
        for each in live.of("ResourceFlavor")
        if text(each, "metadata", "name") not in of_pools
    }
    kueue = {
        "install": False,
        "topologies": to_topologies(live),
        "flavors": flavors,
        "admissionChecks": checks,
        "provisioningRequestConfigs": to_request_configs(live),
    }
    for kind in _ELSEWHERE:
        for each in live.of(kind):
            reason = "a stack is one cluster: Muster sends no work to others."
            findings.reworded(title(each), "", reason, _LEFT_ALONE)
    if live.kai.get("Queue"):
        reason = f"the cluster has {len(live.kai['Queue'])} of KAI as well, and a stack has one scheduler."
        findings.reworded("KAI", "Queues", reason, "left alone; they stay as they are")
    return tree, {
        "pools": pools,
        "kueue": {key: value for key, value in kueue.items() if value or key == "install"},
        "priorities": to_priorities(live),
        "departments": tree.departments,
    }
