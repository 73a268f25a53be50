"""ClusterQueue and LocalQueue of a team.

Responsible for translating quota, borrowing, lending, weight, preemption and the fields of a `kueue:`
section to Kueue's API. A field that a section leaves unset is left out, so that Kueue's default applies
(tests/unit/model/kueue_files.py lists the defaults). Fields of the short form are always written.
"""

from collections.abc import Sequence
from typing import Final

from muster.model.keys import to_json
from muster.model.kueue import (
    BorrowPreemption,
    BorrowWithinCohort,
    ConcurrentAdmission,
    Group,
    LocalQueue,
    QueueOptions,
    Quota,
    StopPolicy,
)
from muster.model.kueue.tree import Node, queue_name
from muster.model.queues import Queueing, Team
from muster.model.stack import Stack
from muster.render.kueue.checks import strategy
from muster.render.manifest import Manifest, kueue

# WorkloadPriorityClass of every priority. Its value and description are top-level fields: the kind has no
# spec.


def priority_classes(stack: Stack) -> list[Manifest]:
    return [
        kueue(
            "WorkloadPriorityClass",
            priority.name,
            value=priority.value,
            description=priority.description
            or f"Priority {priority.name} ({priority.value}): goes before every lower value.",
        )
        for priority in stack.priorities
    ]


# The API server gives it to every namespace.
_NAME: Final = "kubernetes.io/metadata.name"
_QUEUEING: Final = {Queueing.BEST_EFFORT: "BestEffortFIFO", Queueing.STRICT: "StrictFIFO"}


def cluster_queue(
    stack: Stack, team: Team, node: Node, *, members: Sequence[Team], cohort: str | None
) -> Manifest:
    """The spec of the team's ClusterQueue. `members`: the teams whose work is in it."""
    said = team.kueue
    spec: Manifest = {
        "queueingStrategy": _QUEUEING[team.queueing],
        # By name, not by our label: a user who may label a namespace must not be able to move it into
        # another's queue.
        "namespaceSelector": _own_namespaces([name for member in members for name in member.namespaces])
        if said.namespace_selector is None
        else to_json(said.namespace_selector),
        "resourceGroups": resource_groups(node.groups),
        "preemption": _preemption(node, said.borrow_within_cohort),
        **_policies(said),
    }
    if cohort is not None:
        spec["cohortName"] = cohort
    if node.weight is not None:
        spec["fairSharing"] = {"weight": str(node.weight)}
    checks = strategy(stack, [flavor.name for flavor in node.flavors], said.admission_checks)
    if checks:
        rules = [
            {"name": use.name, **({"onFlavors": list(use.pools)} if use.pools else {})} for use in checks
        ]
        spec["admissionChecksStrategy"] = {"admissionChecks": rules}
    if said.concurrent_admission is not None:
        spec["concurrentAdmissionPolicy"] = {"migration": _migration(stack, said.concurrent_admission)}
    return spec


def resource_groups(groups: Sequence[Group]) -> list[Manifest]:
    """The groups of a ClusterQueue or Cohort."""
    return [
        {
            "coveredResources": list(group.covered_resources),
            "flavors": [
                {"name": flavor.name, "resources": [_quota(each) for each in flavor.resources]}
                for flavor in group.flavors
            ],
        }
        for group in groups
    ]


def _quota(quota: Quota) -> Manifest:
    columns = {
        "nominalQuota": quota.nominal,
        "borrowingLimit": quota.borrowing,
        "lendingLimit": quota.lending,
    }
    return {"name": quota.name} | {key: str(value) for key, value in columns.items() if value is not None}


def local_queues(team: Team, owner: Team) -> dict[tuple[str, str], Manifest]:
    """LocalQueue specs by namespace and name, the team's own first. `owner`: the team whose queue it uses."""
    own = LocalQueue(name=team.local_queue)
    said = {queue.name: queue for queue in (own, *team.kueue.local_queues)}
    return {
        (namespace, name): _local(queue_name(owner), queue)
        for name, queue in said.items()
        for namespace in (queue.namespaces if queue.namespaces is not None else team.namespaces)
    }


def _local(cluster: str, queue: LocalQueue) -> Manifest:
    spec: Manifest = {"clusterQueue": cluster}
    if queue.stop_policy is not StopPolicy.NONE:
        spec["stopPolicy"] = queue.stop_policy.value
    if queue.weight is not None:
        spec["fairSharing"] = {"weight": str(queue.weight)}
    return spec


def _policies(said: QueueOptions) -> Manifest:
    found: Manifest = {}
    if said.stop_policy is not StopPolicy.NONE:
        found["stopPolicy"] = said.stop_policy.value
    if said.fungibility is not None:
        found["flavorFungibility"] = to_json(said.fungibility)
    if said.admission_mode is not None:
        found["admissionScope"] = {"admissionMode": said.admission_mode.value}
    return found


def _preemption(node: Node, borrow: BorrowWithinCohort) -> Manifest:
    found: Manifest = {"withinClusterQueue": node.within, "reclaimWithinCohort": node.reclaim}
    if borrow.policy is not BorrowPreemption.NEVER:
        found["borrowWithinCohort"] = to_json(borrow)
    return found


def _migration(stack: Stack, policy: ConcurrentAdmission) -> Manifest:
    found: Manifest = {"mode": policy.mode.value}
    if policy.last_acceptable_flavor is not None:
        pool = stack.pool(policy.last_acceptable_flavor)
        name = pool.flavor if pool is not None else policy.last_acceptable_flavor
        found["constraints"] = {"lastAcceptableFlavorName": name}
    return found


def _own_namespaces(namespaces: Sequence[str]) -> Manifest:
    if len(namespaces) == 1:
        return {"matchLabels": {_NAME: namespaces[0]}}
    return {"matchExpressions": [{"key": _NAME, "operator": "In", "values": list(namespaces)}]}
