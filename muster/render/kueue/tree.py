"""The queue tree: departments as Cohorts, teams as Namespace, ClusterQueue and LocalQueues.

Responsible for the objects of each and for their order. Every department is a Cohort, and its parent
department is the Cohort's parent; top-level departments share nothing.
"""

from muster.model import names
from muster.model.kueue.tree import TreeBuilder, cohort_name, queue_name
from muster.model.queues import Department, Team
from muster.model.stack import Stack
from muster.model.tenancy import Namespaces
from muster.render.kueue.queues import cluster_queue, local_queues, resource_groups
from muster.render.manifest import Manifest, kueue, manifest


def cohorts(stack: Stack) -> list[Manifest]:
    """A Cohort for each department that has one, parents first."""
    renderer = _Renderer(stack)
    return [item for above, department in stack.walk() for item in renderer.cohort(above, department)]


def team_objects(stack: Stack, team: Team) -> list[Manifest]:
    """Everything that one team owns, in the order in which it can be created."""
    department = next(chain[-1] for chain, member in stack.teams() if member.name == team.name)
    return _Renderer(stack).team_objects(department, team)


def names_by_team(stack: Stack) -> dict[str, str | dict[str, str]]:
    """team -> its ClusterQueue."""
    owners = {team.name: teams[0] for teams in stack.queue_members().values() for team in teams}
    return {team.name: queue_name(owners[team.name]) for _, team in stack.teams()}


def by_department(stack: Stack) -> dict[str, dict[str, list[Manifest]]]:
    """department -> team -> objects, parents first; a department's own Cohort is under the team ""."""
    renderer = _Renderer(stack)
    return {
        department.name: {
            "": renderer.cohort(above, department),
            **{team.name: renderer.team_objects(department, team) for team in department.teams},
        }
        for above, department in stack.walk()
    }


class _Renderer:
    """Renders the objects of one stack."""

    def __init__(self, stack: Stack) -> None:
        self._stack, self._builder = stack, TreeBuilder(stack)

    def cohort(self, above: tuple[Department, ...], department: Department) -> list[Manifest]:
        node = self._builder.department(above, department)
        if node is None:
            return []
        spec: Manifest = {}
        if above:
            spec["parentName"] = cohort_name(above[-1])
        if node.groups:
            spec["resourceGroups"] = resource_groups(node.groups)
        if node.weight is not None:
            spec["fairSharing"] = {"weight": str(node.weight)}
        return [kueue("Cohort", node.object_name, spec=spec)]

    def team_objects(self, department: Department, team: Team) -> list[Manifest]:
        # Whoever judges queues (muster.validation) needs none of the fifty modules of tenancy.
        from muster.render import tenancy

        stack, owner = self._stack, self._builder.owner(team)
        labels, found = _labels(department, team), local_queues(team, owner)
        own = tuple(name for namespace, name in found if namespace == team.namespace)
        is_managed = stack.tenancy.namespaces is Namespaces.MANAGED
        return [
            *(tenancy.team_objects(stack, department, team, queues=own) if is_managed else ()),
            *([self._cluster_queue(department, team)] if team.queue is None else ()),
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

    def _cluster_queue(self, department: Department, team: Team) -> Manifest:
        node = self._builder.team(department, team)
        spec = cluster_queue(
            self._stack,
            team,
            node,
            members=self._builder.members[team.name],
            cohort=None if node.is_alone else cohort_name(department),
        )
        return kueue("ClusterQueue", node.object_name, labels=_labels(department, team), spec=spec)


def _labels(department: Department, team: Team) -> dict[str, str]:
    return {names.TEAM_LABEL: team.name, names.DEPARTMENT_LABEL: department.name}
