"""The values of the stack file, from everything that was read."""

from dataclasses import dataclass
from typing import Any, Final

from muster.adopt.cluster import LiveCluster, title
from muster.adopt.departments import QueueTree
from muster.adopt.findings import Finding, Findings
from muster.adopt.kai.values import to_values
from muster.adopt.kueue import to_kueue
from muster.adopt.pools import to_pools
from muster.adopt.programs import to_programs
from muster.errors import MusterError
from muster.live.fields import texts
from muster.model.stack import Scheduler
from muster.render.manifest import MANAGED_BY_LABEL

_QUEUES: Final = ("Cohort", "ClusterQueue", "LocalQueue")


@dataclass(frozen=True, slots=True)
class StackFile:
    """`values`: the keys under `config:`. `tree`: how Kueue's queues are named, None for a stack with KAI.
    `findings`: what it lacks.
    """

    values: dict[str, Any]
    tree: QueueTree | None
    findings: tuple[Finding, ...]

    @property
    def has_pools(self) -> bool:
        return bool(self.values["muster:pools"])


def to_stack_file(live: LiveCluster, cluster: dict[str, str], *, unfit: str = "") -> StackFile:
    """`cluster`: how the stack reaches the cluster. `unfit`: why the nodes of a cluster with KAI cannot be
    pools, "" where they are. MusterError where a stack of Muster's made the queues.
    """
    findings = Findings()
    _refuse_ours(live, findings)
    programs = to_programs(live, findings)
    if live.scheduler is Scheduler.KAI:
        tree, own = None, to_values(live, findings, with_pools=not unfit)
        if unfit:
            effect = "no pools: the report of a change shows no quotas"
            findings.reworded("Nodes", "", f"cannot be pools of this stack: {unfit}", effect)
    else:
        tree, own = to_kueue(live, to_pools(live, findings), findings)
    priorities, departments = own.pop("priorities"), own.pop("departments")
    values = {
        "cluster": {"provider": "existing", **cluster},
        **own,
        **programs,
        "gangAdmission": "off",
        "tenancy": {"mode": "off", "namespaces": "existing"},
        "priorities": priorities,
        "departments": departments,
    }
    return StackFile(
        {f"muster:{key}": value for key, value in values.items() if value or key == "pools"},
        tree,
        tuple(findings.found),
    )


def _refuse_ours(live: LiveCluster, findings: Findings) -> None:
    """Some queues are Muster's where a first `pulumi up` stopped at a conflict."""
    is_kai = live.scheduler is Scheduler.KAI
    if not is_kai and not live.of("ClusterQueue"):
        raise MusterError(
            "the cluster has Kueue's kinds and no ClusterQueue, so there is nothing to take over.",
            fix="write a stack with `muster new`.",
        )
    queues = live.kai.get("Queue", ()) if is_kai else [each for kind in _QUEUES for each in live.of(kind)]
    ours = [each for each in queues if texts(each, "metadata", "labels").get(MANAGED_BY_LABEL) == "muster"]
    if ours and len(ours) == len(queues):
        raise MusterError(
            f"{title(ours[0])} is a Muster stack's already, and so are all others: a second stack would "
            "fight over them.",
            fix="use the stack that made them; `muster snapshot` records what runs.",
        )
    for each in ours:
        reason = "is a Muster stack's already."
        effect = "use this file with that stack alone: a second one would fight over the object"
        findings.reworded(title(each), "", reason, effect)
