"""The queue tree: departments and teams as Queues, and a team's tenancy objects.

Every figure is written, because KAI reads a missing one as zero. Not responsible for the figures
(muster/model/kai/tree.py) nor for a team's namespace and rights (render/tenancy).
"""

from typing import Final

from muster.model import names
from muster.model.kai import Figure, Unlimited
from muster.model.kai.tree import RESOURCES, Figures, Node, nodes
from muster.model.queues import Team
from muster.model.stack import Stack
from muster.model.tenancy import Namespaces
from muster.render import tenancy
from muster.render.manifest import Manifest, manifest

# KAI counts memory in these.
_MEGABYTE: Final = 10**6

Tree = dict[str, dict[str, list[Manifest]]]


def queues(stack: Stack) -> list[Manifest]:
    """Every Queue, each behind its parent."""
    return [_queue(node) for node in nodes(stack)]


def team_objects(stack: Stack, team: Team) -> list[Manifest]:
    """Everything that one team owns, in the order in which it can be created."""
    department = next(chain[-1] for chain, member in stack.teams() if member.name == team.name)
    return by_department(stack)[department.name][team.name]


def leaf_queues(stack: Stack) -> dict[str, dict[str | None, str]]:
    """team -> pool of the work -> the Queue that the work names. The pool None: any pool of the stack."""
    found: dict[str, dict[str | None, str]] = {team.name: {} for _, team in stack.teams()}
    for node in nodes(stack):
        if node.team is not None:
            found[node.team.name][node.part.pool] = node.name
    for owner, members in stack.queue_members().items():
        found |= dict.fromkeys((team.name for team in members), found[owner])
    return found


def names_by_team(stack: Stack) -> dict[str, str | dict[str, str]]:
    """team -> its Queue, or pool -> its Queue where each pool has its own."""
    found: dict[str, str | dict[str, str]] = {}
    for team, leaves in leaf_queues(stack).items():
        by_pool = {pool: queue for pool, queue in leaves.items() if pool is not None}
        found[team] = leaves.get(None, by_pool)
    return found


def by_department(stack: Stack) -> Tree:
    """department -> team -> objects, parents first; a department's own Queues are under the team ""."""
    found: Tree = {department.name: {"": []} for _, department in stack.walk()}
    leaves = leaf_queues(stack)
    is_managed = stack.tenancy.namespaces is Namespaces.MANAGED
    for chain, team in stack.teams():
        queues = tuple(leaves[team.name].values())
        found[chain[-1].name][team.name] = (
            tenancy.team_objects(stack, chain[-1], team, queues=queues) if is_managed else []
        )
    for node in nodes(stack):
        found[node.above[-1].name][node.team.name if node.team else ""].append(_queue(node))
    return found


def _queue(node: Node) -> Manifest:
    settings = node.owner.kai
    spec: Manifest = {
        "displayName": node.owner.name,
        **({} if node.parent is None else {"parentQueue": node.parent}),
        "priority": settings.priority,
        **settings.spec,
        "resources": {key: _share(key, node.figures[key]) for key in RESOURCES},
    }
    return manifest(names.KAI_QUEUE_API_VERSION, "Queue", node.name, labels=_labels(node), spec=spec)


def _labels(node: Node) -> dict[str, str]:
    """A shard sees the queues that carry its pool."""
    labels = {names.DEPARTMENT_LABEL: node.above[-1].name}
    if node.team is not None:
        labels[names.TEAM_LABEL] = node.team.name
    if node.part.pool is not None:
        labels[names.POOL_LABEL] = node.part.pool
    return labels


def _share(key: str, figures: Figures) -> Manifest:
    return {
        "quota": number(key, figures.quota),
        "limit": number(key, figures.limit),
        "overQuotaWeight": figures.weight,
    }


def number(key: str, figure: Figure[int]) -> int | float:
    """In KAI's units: GPUs, thousandths of a CPU, millions of bytes; -1 without bound."""
    if isinstance(figure, Unlimited):
        return -1
    if key == "memory":
        return figure // _MEGABYTE
    if key == "gpu":
        return figure / 1000 if figure % 1000 else figure // 1000
    return figure
