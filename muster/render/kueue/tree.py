"""The queue tree: departments as Cohorts, teams as Namespace, ClusterQueue and LocalQueues.

Responsible for the objects of each and for their order. Every department is a Cohort, and its parent
department is the Cohort's parent; top-level departments share nothing. Not responsible for a ClusterQueue's
fields (queues.py) nor for access to a namespace (render/tenancy).
"""

from muster.model import names
from muster.model.queues import Department, Team
from muster.model.stack import Stack
from muster.model.tenancy import Namespaces
from muster.render.kueue.groups import resource_groups
from muster.render.kueue.queues import Tree, cluster_queue, cohort_name, local_queues, queue_name
from muster.render.manifest import Manifest, kueue, manifest


def cohorts(stack: Stack) -> list[Manifest]:
    """A Cohort for each department that has one, parents first."""
    tree = Tree.of(stack)
    return [item for above, department in stack.walk() for item in _cohort(tree, above, department)]


def team_objects(stack: Stack, team: Team) -> list[Manifest]:
    """Everything that one team owns, in the order in which it can be created."""
    department = next(chain[-1] for chain, member in stack.teams() if member.name == team.name)
    return _team_objects(Tree.of(stack), department, team)


def names_by_team(stack: Stack) -> dict[str, str | dict[str, str]]:
    """team -> its ClusterQueue."""
    tree = Tree.of(stack)
    return {team.name: queue_name(tree.owner(team)) for _, team in stack.teams()}


def by_department(stack: Stack) -> dict[str, dict[str, list[Manifest]]]:
    """department -> team -> objects, parents first; a department's own Cohort is under the team ""."""
    tree = Tree.of(stack)
    found: dict[str, dict[str, list[Manifest]]] = {}
    for above, department in stack.walk():
        objects = {"": _cohort(tree, above, department)}
        for team in department.teams:
            objects[team.name] = _team_objects(tree, department, team)
        found[department.name] = objects
    return found


def queues(stack: Stack) -> tuple[dict[str, Manifest], dict[str, Manifest]]:
    """The queues alone: department -> Cohort, where it has one, and team -> ClusterQueue."""
    tree = Tree.of(stack)
    made = {department.name: _cohort(tree, above, department) for above, department in stack.walk()}
    teams = {team.name: _cluster_queue(tree, chain[-1], team) for chain, team in stack.owners()}
    return {name: found[0] for name, found in made.items() if found}, teams


def _cohort(tree: Tree, above: tuple[Department, ...], department: Department) -> list[Manifest]:
    if not department.kueue.exists:
        return []
    spec: Manifest = {}
    if above:
        spec["parentName"] = cohort_name(above[-1])
    groups = resource_groups(
        tree.stack.pools,
        tree.rest,
        department.allowance,
        weight=None,
        can_share=bool(above),
        others=department.kueue.resource_groups,
    )
    if groups:
        spec["resourceGroups"] = groups
    if department.allowance.weight is not None:
        spec["fairSharing"] = {"weight": str(department.allowance.weight)}
    return [kueue("Cohort", cohort_name(department), spec=spec)]


def _cluster_queue(tree: Tree, department: Department, team: Team) -> Manifest:
    spec = cluster_queue(tree, department, team)
    return kueue("ClusterQueue", queue_name(team), labels=_labels(department, team), spec=spec)


def _labels(department: Department, team: Team) -> dict[str, str]:
    return {names.TEAM_LABEL: team.name, names.DEPARTMENT_LABEL: department.name}


def _team_objects(tree: Tree, department: Department, team: Team) -> list[Manifest]:
    # Whoever judges queues (muster.validation) needs none of the fifty modules of tenancy.
    from muster.render import tenancy

    labels, found = _labels(department, team), local_queues(team, tree.owner(team))
    own = tuple(name for namespace, name in found if namespace == team.namespace)
    is_managed = tree.stack.tenancy.namespaces is Namespaces.MANAGED
    return [
        *(tenancy.team_objects(tree.stack, department, team, queues=own) if is_managed else ()),
        *([_cluster_queue(tree, department, team)] if team.queue is None else ()),
        *(
            manifest(
                names.KUEUE_API_VERSION,
                "LocalQueue",
                name,
                namespace=namespace,
                labels=labels,
                spec=spec,
            )
            for (namespace, name), spec in found.items()
        ),
    ]
