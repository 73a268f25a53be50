"""The queue tree, parsed from the Kueue objects that muster.render produces.

Responsible for reading a rendered ClusterQueue or Cohort, and for how much quota each can reach. Reading the
rendered objects avoids a second implementation of the quota rules. Not responsible for comparing (compare/).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from muster.model import names
from muster.model.kueue import Group
from muster.model.pools import Pool
from muster.model.quantities import Bytes, Gpus, Millicores, parse_cpu, parse_memory, parse_quantity
from muster.model.queues import Department, Team
from muster.model.quotas import NOTHING, Resources
from muster.model.stack import Stack
from muster.render import kueue
from muster.render.manifest import Manifest

_COLUMNS: Final = ("nominalQuota", "borrowingLimit", "lendingLimit")


@dataclass(frozen=True, slots=True)
class Holding:
    """The quota and the limits of a queue in one pool. None means no limit."""

    nominal: Resources
    borrow: Resources | None
    lend: Resources | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A ClusterQueue (a team) or a Cohort (a department). `within` and `reclaim` are Kueue's values, "" for a
    Cohort. `highest` and `lowest` are the values of the priorities that a queue's teams may use. `written`
    are the pools of which the stack file names its quota. `department` is the team's, also where that
    department has no Cohort (`cohort: none`).
    """

    name: str
    parent: str | None
    is_team: bool
    holdings: Mapping[str, Holding]
    within: str = ""
    reclaim: str = ""
    highest: int = 0
    lowest: int = 0
    written: frozenset[str] = frozenset()
    department: str = ""

    @property
    def is_alone(self) -> bool:
        """Whether the team shares with no other, because its department has no Cohort."""
        return self.is_team and self.parent is None


@dataclass(frozen=True, slots=True)
class Reach:
    """The quota that is available to a node in one pool, in the pool's unit (GPUs, or millicores).

    `subtree`: the quota of the node and of everything below it, less what a child does not lend. `lent`: the
    part of that which other nodes may use. `most`: what the node could use if every other queue were idle and
    lent everything. `private`: quota of queues below the node that only the queue that owns it can use.
    """

    subtree: int
    lent: int
    most: int
    private: int


@dataclass(frozen=True, slots=True)
class Tree:
    """All nodes, parents before children. `is_weighted`: fair sharing is on. `priorities`: value -> name.
    `guests`: a team without a queue of its own -> the team whose queue it uses.
    """

    pools: Mapping[str, Pool]
    nodes: Mapping[str, Node]
    is_weighted: bool
    priorities: Mapping[int, str] = field(default_factory=lambda: MappingProxyType({}))
    guests: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def team_names(self) -> frozenset[str]:
        """Every team, with a queue of its own or without."""
        return frozenset((*(node.name for node in self.teams()), *self.guests))

    def chain(self, name: str) -> tuple[Node, ...]:
        """The node, its parent, and so on to the top."""
        found = [self.nodes[name]]
        while (parent := found[-1].parent) is not None:
            found.append(self.nodes[parent])
        return tuple(found)

    def teams(self) -> Iterator[Node]:
        return (node for node in self.nodes.values() if node.is_team)

    def reach(self, pool: str) -> dict[str, Reach]:
        """The Reach of every node in one pool.

        Computed as in pkg/cache/scheduler/resource_node.go of Kueue 0.19.2 (SubtreeQuota, local quota,
        potentially available quota): a node keeps what it does not lend, and a borrowing limit bounds what it
        uses beyond its own quota.
        """
        subtree = {
            name: in_pool_unit(self.pools[pool], nominal_quota(node, pool))
            for name, node in self.nodes.items()
        }
        lent: dict[str, int] = {}
        private = dict.fromkeys(self.nodes, 0)
        for name, node in reversed(list(self.nodes.items())):
            limit = _limit(self.pools[pool], node, pool, "lend")
            lent[name] = subtree[name] if limit is None else min(subtree[name], limit)
            if node.parent is not None:
                subtree[node.parent] += lent[name]
                private[node.parent] += private[name] + subtree[name] - lent[name]
        most: dict[str, int] = {}
        for name, node in self.nodes.items():
            most[name] = self._most(node, pool, subtree[name], lent[name], most)
        return {name: Reach(subtree[name], lent[name], most[name], private[name]) for name in self.nodes}

    def _most(self, node: Node, pool: str, subtree: int, lent: int, above: Mapping[str, int]) -> int:
        if node.is_team and pool not in node.holdings:
            return 0  # a ClusterQueue without the flavor cannot use it
        if node.parent is None:
            return subtree
        available = subtree - lent + above[node.parent]
        limit = _limit(self.pools[pool], node, pool, "borrow")
        return available if limit is None else min(available, subtree + limit)


Rendered = tuple[Mapping[str, Manifest], Mapping[str, Manifest]]
"""Cohorts by department, and ClusterQueues by team."""


def to_tree(stack: Stack, rendered: Rendered | None = None) -> Tree:
    """The tree of a stack. With `rendered` the objects are those, in place of what the stack renders."""
    values = {priority.name: priority.value for priority in stack.priorities}
    allowed = {
        owner: [values[name] for team in members for name in team.priorities or values]
        for owner, members in stack.queue_members().items()
    }
    (cohorts, queues), nodes = rendered or kueue.queues(stack), dict[str, Node]()
    pools = {pool.flavor: pool.name for pool in stack.pools}
    for above, department in stack.walk():
        cohort = cohorts.get(department.name)
        if cohort is not None:
            parent = above[-1].name if above else None
            nodes[department.name] = _to_department(department, parent, cohort, pools)
        for team in department.owners:
            parent = None if cohort is None else department.name
            found = _to_team(team, parent, queues[team.name], allowed[team.name], pools)
            holdings = found.holdings if parent is not None else _closed(found.holdings)
            nodes[team.name] = replace(found, department=department.name, holdings=holdings)
    ranks = {value: name for name, value in values.items()}
    guests = {team.name: team.queue for _, team in stack.teams() if team.queue is not None}
    return Tree({pool.name: pool for pool in stack.pools}, nodes, stack.is_weighted, ranks, guests)


def nominal_quota(node: Node, pool: str) -> Resources:
    """The quota that is the node's own."""
    holding = node.holdings.get(pool)
    return NOTHING if holding is None else holding.nominal


def in_pool_unit(pool: Pool, amount: Resources) -> int:
    """An amount in the pool's unit: GPUs, or millicores where it has none."""
    return amount.gpus if pool.is_gpu else amount.cpu


def is_closed(pool: Pool, limit: Resources | None) -> bool:
    """Whether a limit is zero."""
    return limit is not None and in_pool_unit(pool, limit) == 0


def _limit(pool: Pool, node: Node, name: str, key: str) -> int | None:
    holding = node.holdings.get(name)
    limit = None if holding is None else holding.borrow if key == "borrow" else holding.lend
    return None if limit is None else in_pool_unit(pool, limit)


def _to_department(
    department: Department, parent: str | None, cohort: Manifest, pools: Mapping[str, str]
) -> Node:
    return Node(
        name=department.name,
        parent=parent,
        is_team=False,
        holdings=_to_holdings(cohort["spec"], pools),
        written=frozenset(department.allowance.quota) | _grouped(department.kueue.resource_groups, pools),
    )


def _to_team(
    team: Team, parent: str | None, queue: Manifest, priorities: list[int], pools: Mapping[str, str]
) -> Node:
    spec = queue["spec"]
    return Node(
        name=team.name,
        parent=parent,
        is_team=True,
        holdings=_to_holdings(spec, pools),
        within=spec["preemption"]["withinClusterQueue"],
        reclaim=spec["preemption"]["reclaimWithinCohort"],
        highest=max(priorities, default=0),
        lowest=min(priorities, default=0),
        written=frozenset(team.allowance.quota) | _grouped(team.kueue.resource_groups, pools),
    )


def _grouped(groups: Iterable[Group], pools: Mapping[str, str]) -> frozenset[str]:
    """The pools of which `resourceGroups` name the quota."""
    return frozenset(
        pools[flavor.name] for group in groups for flavor in group.flavors if flavor.name in pools
    )


def _closed(holdings: Mapping[str, Holding]) -> dict[str, Holding]:
    """Without a Cohort a team has no other team to borrow from or to lend to."""
    return {pool: Holding(each.nominal, NOTHING, NOTHING) for pool, each in holdings.items()}


def _to_holdings(spec: Manifest, pools: Mapping[str, str]) -> dict[str, Holding]:
    """By pool. Flavors that belong to no pool are left out."""
    flavors = [flavor for group in spec.get("resourceGroups", []) for flavor in group["flavors"]]
    return {
        pools[flavor["name"]]: _to_holding(flavor["resources"])
        for flavor in flavors
        if flavor["name"] in pools
    }


def _to_holding(resources: list[Manifest]) -> Holding:
    nominal, borrow, lend = (_to_resources(resources, column) for column in _COLUMNS)
    return Holding(nominal or NOTHING, borrow, lend)


def _to_resources(resources: list[Manifest], column: str) -> Resources | None:
    amounts = {each["name"]: str(each[column]) for each in resources if column in each}
    if not amounts:
        return None
    return Resources(
        Millicores(parse_cpu(amounts.get("cpu", "0"))),
        Bytes(parse_memory(amounts.get("memory", "0"))),
        Gpus(sum(int(parse_quantity(amounts.get(name, "0"))) for name in names.DEVICE_RESOURCES)),
    )
