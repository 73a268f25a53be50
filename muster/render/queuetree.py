"""The stack's QueueTree: the queues as the webhooks need them, derived from the scheduler's queue tree.

Responsible for the upper bounds of what a queue can hold: its own and what it may borrow, or all of its
tree's where borrowing has no limit. Lending limits are not subtracted: a bound that is too high lets a gang
wait, and one that is too low would refuse a gang that could run.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Final

from muster.model.kai import Unlimited
from muster.model.kai import tree as kai_tree
from muster.model.kueue import Group, Quota
from muster.model.kueue.tree import Node, Tree, to_tree
from muster.model.names import GPU_RESOURCE, UNCOUNTED_DEVICES
from muster.model.quantities import Quantity
from muster.model.queuetree import ANY_POOL, Limits, Queue, QueueTree, Space, to_manifest
from muster.model.stack import Scheduler, Stack, kept_for_stack
from muster.render import kai
from muster.render.kueue.queues import local_queues
from muster.render.manifest import Manifest
from muster.render.tenancy.team import priorities_of

# Every resource begins with it.
_EVERYTHING: Final = ""
_MEGABYTE: Final = 10**6


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Of one queue, as in `Queue`."""

    most: Mapping[str, int] = field(default_factory=dict)
    limits: tuple[Limits, ...] = ()


def tree(stack: Stack) -> Manifest:
    """The QueueTree object."""
    return to_manifest(queue_tree(stack))


def queue_tree(stack: Stack) -> QueueTree:
    found = spaces_by_team(stack)
    return QueueTree(
        kai=stack.scheduler is Scheduler.KAI,
        gated=stack.is_gated,
        guarded=stack.ray.is_guarded,
        uncounted=_uncounted(stack),
        spaces={name: found[team.name] for _, team in stack.teams() for name in team.namespaces},
    )


@kept_for_stack
def spaces_by_team(stack: Stack) -> Mapping[str, Space]:
    """team -> its own namespace, as the webhooks know it."""
    queues = _of_kai(stack) if stack.scheduler is Scheduler.KAI else _of_kueue(stack)
    return {
        team.name: Space(
            team=team.name,
            queues=queues[team.name],
            priorities=priorities_of(stack, team),
            default_priority=team.access.default_priority or _default(stack, priorities_of(stack, team)),
        )
        for _, team in stack.teams()
    }


def _uncounted(stack: Stack) -> tuple[str, ...]:
    """A Kueue that Muster does not install has a configuration of its own."""
    return stack.uncounted_resources if stack.kueue.install else (_EVERYTHING,)


def _default(stack: Stack, allowed: tuple[str, ...]) -> str | None:
    """The stack's default, for the teams that may use it."""
    default = stack.tenancy.default_priority
    return default if default in allowed else None


def _of_kueue(stack: Stack) -> dict[str, tuple[Queue, ...]]:
    """team -> the LocalQueues of its own namespace, with what their ClusterQueue holds."""
    tree = to_tree(stack)
    bounds = _kueue_bounds(tree)
    return {
        team.name: tuple(
            Queue(name=name, most=bounds[owner].most, limits=bounds[owner].limits)
            for namespace, name in local_queues(team, teams[0])
            if namespace == team.namespace
        )
        for owner, teams in tree.members.items()
        for team in teams
    }


# A pool, or a flavor that is no pool's, and a resource.
_Key = tuple[str, str]


def _kueue_bounds(tree: Tree) -> dict[str, _Bounds]:
    """team -> what its ClusterQueue can hold."""
    whole: dict[str, dict[_Key, Fraction]] = {}
    for name, node in tree.nodes.items():
        root = whole.setdefault(tree.root(name), {})
        for group in node.groups:
            for key, quota in _counted(node, group):
                root[key] = root.get(key, Fraction(0)) + quota.nominal.value
    return {team.name: _bounds(team, whole[tree.root(team.name)]) for team in tree.teams()}


def _bounds(team: Node, root: Mapping[_Key, Fraction]) -> _Bounds:
    most: dict[str, int] = {}
    limits: list[dict[str, dict[str, str]]] = []
    for group in team.groups:
        limits.append({})
        for (pool, resource), quota in _counted(team, group):
            own, reach = quota.nominal.value, root[pool, resource]
            if team.is_alone:
                reach = own
            elif quota.borrowing is not None:
                reach = min(reach, own + quota.borrowing.value)
            bound = max(own, reach)
            if resource == GPU_RESOURCE:
                most[pool] = ceil(bound)
            else:
                limits[-1].setdefault(pool, {})[resource] = str(Quantity(bound, resource == "memory"))
    return _Bounds(most, tuple(limits))


def _counted(node: Node, group: Group) -> Iterator[tuple[_Key, Quota]]:
    for flavor in group.flavors:
        pool = node.pools.get(flavor.name)
        for quota in flavor.resources:
            if quota.name != UNCOUNTED_DEVICES:
                yield (flavor.name if pool is None else pool.name, quota.name), quota


def _of_kai(stack: Stack) -> dict[str, tuple[Queue, ...]]:
    """team -> KAI's leaves of it: one, or one of each pool."""
    gpus = {pool.name: pool.slots_per_node for pool in stack.pools}
    queues = {node.name: node for node in kai_tree.nodes(stack)}
    bounds = {name: _kai_bounds(node, queues) for name, node in queues.items() if node.team is not None}
    return {
        team: tuple(
            Queue(
                name=name,
                pool=pool or "",
                gpus=gpus[pool] if pool else 0,
                most=bounds[name].most,
                limits=bounds[name].limits,
            )
            for pool, name in leaves.items()
        )
        for team, leaves in kai.leaf_queues(stack).items()
    }


def _kai_bounds(node: kai_tree.Node, queues: Mapping[str, kai_tree.Node]) -> _Bounds:
    """Over all pools: the least limit from the queue to the top. A resource without a limit has no bound."""
    chain = [node]
    while (parent := chain[-1].parent) is not None:
        chain.append(queues[parent])
    least = {}
    for key in kai_tree.RESOURCES:
        limits = [each.figures[key].limit for each in chain]
        if bounded := [each for each in limits if not isinstance(each, Unlimited)]:
            least[key] = min(bounded)
    gpus = least.pop("gpu", None)
    more = {key: str(Quantity(_in_kai_units(key, limit))) for key, limit in least.items()}
    return _Bounds(
        {} if gpus is None else {ANY_POOL: ceil(Fraction(gpus, 1000))}, ({ANY_POOL: more},) if more else ()
    )


def _in_kai_units(key: str, limit: int) -> Fraction:
    """KAI counts thousandths of a CPU and millions of bytes."""
    return Fraction(limit, 1000) if key == "cpu" else Fraction(limit // _MEGABYTE * _MEGABYTE)
