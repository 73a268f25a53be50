"""The values of the stack file, from everything that was read."""

from dataclasses import dataclass
from typing import Any, Final

from muster.adopt.checks import to_checks, to_request_configs
from muster.adopt.cluster import LiveCluster, title
from muster.adopt.departments import QueueTree, to_queue_tree
from muster.adopt.findings import Finding, Findings
from muster.adopt.flavors import to_flavor, to_topologies
from muster.adopt.pools import to_pools
from muster.adopt.priorities import to_priorities
from muster.adopt.programs import to_programs
from muster.errors import MusterError
from muster.live.fields import text
from muster.render.manifest import MANAGED_BY_LABEL

_ELSEWHERE: Final = ("MultiKueueConfig", "MultiKueueCluster")


@dataclass(frozen=True, slots=True)
class StackFile:
    """`values`: the keys under `config:`. `tree`: how its queues are named. `findings`: what it lacks."""

    values: dict[str, Any]
    tree: QueueTree
    findings: tuple[Finding, ...]


def to_stack_file(live: LiveCluster, cluster: dict[str, str]) -> StackFile:
    """`cluster`: how the stack reaches the cluster. MusterError where a stack of Muster's made the queues."""
    _refuse_ours(live)
    findings = Findings()
    programs = to_programs(live, findings)
    pools = to_pools(live, findings)
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
            findings.reworded(title(each), "", reason, "left out; the object stays as it is")
    values = {
        "cluster": {"provider": "existing", **cluster},
        "pools": pools,
        "kueue": {key: value for key, value in kueue.items() if value or key == "install"},
        **programs,
        "gangAdmission": "off",
        "tenancy": {"mode": "off", "namespaces": "existing"},
        "priorities": to_priorities(live),
        "departments": tree.departments,
    }
    return StackFile(
        {f"muster:{key}": value for key, value in values.items() if value or key == "pools"},
        tree,
        tuple(findings.found),
    )


def _refuse_ours(live: LiveCluster) -> None:
    for queue in live.of("ClusterQueue"):
        labels = queue["metadata"].get("labels") or {}
        if labels.get(MANAGED_BY_LABEL) == "muster":
            raise MusterError(
                f"{title(queue)} is a Muster stack's already: a second stack would fight over it.",
                fix="use the stack that made it; `muster snapshot` records what runs.",
            )
    if not live.of("ClusterQueue"):
        raise MusterError(
            "the cluster has Kueue's kinds and no ClusterQueue, so there is nothing to take over.",
            fix="write a stack with `muster new`.",
        )
