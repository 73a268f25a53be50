"""The queue tree: departments as Cohorts, teams as Namespace, ClusterQueue and LocalQueue.

Decides how quota, borrowing, lending, weight and preemption are spelled for Kueue. Leaves access to a
namespace to tenancy. Every department is a Cohort, its parent department the Cohort's parent; top-level
departments share nothing.
"""

from dataclasses import dataclass
from typing import Final

from model import names
from model.queues import Department, Queueing, Reclaim, Team, Within
from model.quotas import Unnamed, unnamed
from model.render.kueue.checks import strategy
from model.render.kueue.groups import resource_groups
from model.render.manifest import Manifest, kueue, manifest
from model.stack import Stack

_WITHIN: Final = {
    Within.NEVER: "Never",
    Within.LOWER_PRIORITY: "LowerPriority",
    Within.LOWER_OR_NEWER: "LowerOrNewerEqualPriority",
}
_RECLAIM: Final = {Reclaim.NEVER: "Never", Reclaim.LOWER_PRIORITY: "LowerPriority", Reclaim.ANY: "Any"}
_QUEUEING: Final = {Queueing.BEST_EFFORT: "BestEffortFIFO", Queueing.STRICT: "StrictFIFO"}


def cohorts(stack: Stack) -> list[Manifest]:
    """A Cohort a department, parents first."""
    tree = _Tree(stack, unnamed(stack), stack.is_weighted)
    return [_cohort(tree, above, department) for above, department in stack.walk()]


def team_objects(stack: Stack, team: Team) -> list[Manifest]:
    """Everything that one team owns, in the order in which it can be created."""
    department = next(chain[-1] for chain, member in stack.teams() if member.name == team.name)
    return _team_objects(_Tree(stack, unnamed(stack), stack.is_weighted), department, team)


def by_department(stack: Stack) -> dict[str, dict[str, list[Manifest]]]:
    """department -> team -> objects, parents first; a department's own Cohort stands under the team ""."""
    tree = _Tree(stack, unnamed(stack), stack.is_weighted)
    found: dict[str, dict[str, list[Manifest]]] = {}
    for above, department in stack.walk():
        objects = {"": [_cohort(tree, above, department)]}
        for team in department.teams:
            objects[team.name] = _team_objects(tree, department, team)
        found[department.name] = objects
    return found


@dataclass(frozen=True, slots=True)
class _Tree:
    """A stack and what every team's queue asks of the whole of it, found once."""

    stack: Stack
    rest: Unnamed
    is_weighted: bool


def _cohort(tree: _Tree, above: tuple[Department, ...], department: Department) -> Manifest:
    spec: Manifest = {}
    if above:
        spec["parentName"] = above[-1].name
    groups = resource_groups(
        tree.stack.pools, tree.rest, department.allowance, weight=None, can_share=bool(above)
    )
    if groups:
        spec["resourceGroups"] = groups
    if department.allowance.weight is not None:
        spec["fairSharing"] = {"weight": str(department.allowance.weight)}
    return kueue("Cohort", department.name, spec=spec)


def _team_objects(tree: _Tree, department: Department, team: Team) -> list[Manifest]:
    labels = {names.TEAM_LABEL: team.name, names.DEPARTMENT_LABEL: department.name}
    return [
        manifest("v1", "Namespace", team.namespace, labels=labels),
        kueue("ClusterQueue", team.name, labels=labels, spec=_queue(tree, department, team)),
        manifest(
            names.KUEUE_API_VERSION,
            "LocalQueue",
            team.local_queue,
            namespace=team.namespace,
            labels=labels,
            spec={"clusterQueue": team.name},
        ),
    ]


def _queue(tree: _Tree, department: Department, team: Team) -> Manifest:
    groups = resource_groups(tree.stack.pools, tree.rest, team.allowance, weight=team.weight, can_share=True)
    spec: Manifest = {
        "cohortName": department.name,
        "queueingStrategy": _QUEUEING[team.queueing],
        # By name, not by our label: whoever may label a namespace must not be able to move it into
        # another's queue.
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": team.namespace}},
        "resourceGroups": groups,
        "preemption": {
            "withinClusterQueue": _WITHIN[team.preemption.within],
            "reclaimWithinCohort": _RECLAIM[team.preemption.reclaim],
        },
    }
    if tree.is_weighted:
        spec["fairSharing"] = {"weight": str(team.weight)}
    checks = strategy(tree.stack, [flavor["name"] for group in groups for flavor in group["flavors"]])
    if checks is not None:
        spec["admissionChecksStrategy"] = checks
    return spec
