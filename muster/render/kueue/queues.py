"""ClusterQueue and LocalQueue of a team.

Responsible for translating quota, borrowing, lending, weight, preemption and the fields of a `kueue:`
section to Kueue's API. A field that a section leaves unset is left out, so that Kueue's default applies
(muster/model/kueue/defaults.py lists the defaults). Fields of the short form are always written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from muster.model.kueue import (
    BorrowPreemption,
    BorrowWithinCohort,
    ConcurrentAdmission,
    Fungibility,
    LocalQueue,
    QueueOptions,
    Selector,
    StopPolicy,
)
from muster.model.queues import Department, Queueing, Reclaim, Team, Within
from muster.model.quotas import Unnamed, unnamed
from muster.model.stack import Stack
from muster.render.kueue.checks import strategy
from muster.render.kueue.groups import resource_groups, with_uncounted_devices
from muster.render.manifest import Manifest

# The API server gives it to every namespace.
_NAME: Final = "kubernetes.io/metadata.name"
_WITHIN: Final = {
    Within.NEVER: "Never",
    Within.LOWER_PRIORITY: "LowerPriority",
    Within.LOWER_OR_NEWER: "LowerOrNewerEqualPriority",
}
_RECLAIM: Final = {Reclaim.NEVER: "Never", Reclaim.LOWER_PRIORITY: "LowerPriority", Reclaim.ANY: "Any"}
_QUEUEING: Final = {Queueing.BEST_EFFORT: "BestEffortFIFO", Queueing.STRICT: "StrictFIFO"}


@dataclass(frozen=True, slots=True)
class Tree:
    """A stack and the figures that the queues of all teams need. `members`: the owner of each queue -> the
    teams whose work is in it.
    """

    stack: Stack
    rest: Unnamed
    is_weighted: bool
    members: Mapping[str, tuple[Team, ...]]

    @classmethod
    def of(cls, stack: Stack) -> Self:
        return cls(stack, unnamed(stack), stack.is_weighted, stack.queue_members())

    def owner(self, team: Team) -> Team:
        """The team whose ClusterQueue has the work of `team`; itself where `queue` names no such team."""
        return team if team.queue is None else self.members.get(team.queue, (team,))[0]


def queue_name(team: Team) -> str:
    return team.kueue.cluster_queue or team.name


def cohort_name(department: Department) -> str:
    return department.kueue.name or department.name


def cluster_queue(tree: Tree, department: Department, team: Team) -> Manifest:
    """The spec of the team's ClusterQueue."""
    said, shares = team.kueue, department.kueue.exists
    groups = resource_groups(
        tree.stack.pools,
        tree.rest,
        team.allowance,
        weight=team.weight,
        can_share=shares,
        others=said.resource_groups,
    )
    if tree.stack.kueue.has_uncounted_devices:
        groups = with_uncounted_devices(groups)
    spec: Manifest = {
        "queueingStrategy": _QUEUEING[team.queueing],
        # By name, not by our label: a user who may label a namespace must not be able to move it into
        # another's queue.
        "namespaceSelector": _selector(
            said.namespace_selector, [name for each in tree.members[team.name] for name in each.namespaces]
        ),
        "resourceGroups": groups,
        "preemption": _preemption(team, said.borrow_within_cohort),
        **_policies(said),
    }
    if shares:
        spec["cohortName"] = cohort_name(department)
    if tree.is_weighted:
        spec["fairSharing"] = {"weight": str(team.weight)}
    checks = strategy(
        tree.stack, [flavor["name"] for group in groups for flavor in group["flavors"]], said.admission_checks
    )
    if checks is not None:
        spec["admissionChecksStrategy"] = checks
    if said.concurrent_admission is not None:
        spec["concurrentAdmissionPolicy"] = {"migration": _migration(tree.stack, said.concurrent_admission)}
    return spec


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
        found["flavorFungibility"] = _fungibility(said.fungibility)
    if said.admission_mode is not None:
        found["admissionScope"] = {"admissionMode": said.admission_mode.value}
    return found


def _preemption(team: Team, borrow: BorrowWithinCohort) -> Manifest:
    found: Manifest = {
        "withinClusterQueue": _WITHIN[team.preemption.within],
        "reclaimWithinCohort": _RECLAIM[team.preemption.reclaim],
    }
    if borrow.policy is not BorrowPreemption.NEVER:
        found["borrowWithinCohort"] = {"policy": borrow.policy.value}
        if borrow.max_priority_threshold is not None:
            found["borrowWithinCohort"]["maxPriorityThreshold"] = borrow.max_priority_threshold
    return found


def _fungibility(said: Fungibility) -> Manifest:
    found = {
        "whenCanBorrow": said.when_can_borrow.value,
        "whenCanPreempt": said.when_can_preempt.value,
    }
    return found if said.preference is None else {**found, "preference": said.preference.value}


def _migration(stack: Stack, policy: ConcurrentAdmission) -> Manifest:
    found: Manifest = {"mode": policy.mode.value}
    if policy.last_acceptable_flavor is not None:
        pool = stack.pool(policy.last_acceptable_flavor)
        name = pool.flavor if pool is not None else policy.last_acceptable_flavor
        found["constraints"] = {"lastAcceptableFlavorName": name}
    return found


def _selector(said: Selector | None, namespaces: Sequence[str]) -> Manifest:
    if said is None:
        if len(namespaces) == 1:
            return {"matchLabels": {_NAME: namespaces[0]}}
        several = {"key": _NAME, "operator": "In", "values": list(namespaces)}
        return {"matchExpressions": [several]}
    found: Manifest = {}
    if said.match_labels:
        found["matchLabels"] = dict(sorted(said.match_labels.items()))
    if said.match_expressions:
        found["matchExpressions"] = [
            {
                "key": each.key,
                "operator": each.operator.value,
                **({"values": list(each.values)} if each.values else {}),
            }
            for each in said.match_expressions
        ]
    return found
