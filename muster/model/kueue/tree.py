"""The queue tree of Kueue: every ClusterQueue and Cohort with its figures, before anything is rendered.

Here is what each queue holds and how much quota it can reach. `to_tree` makes the tree of a stack;
muster/live/snapshot/kueue.py reads the same tree from objects.

A ClusterQueue or Cohort has one resource group for all its pools, and explicit ones. Explicit groups that
cover what pools have replace the pools' own. cpu, memory and nvidia.com/gpu of every pool are in one group:
Kueue gives a pod one flavor for each group, and a GPU pod needs its CPU from the node that has its GPU. CPU
pools come first with a GPU quota of 0, so that a pod without a GPU is assigned to a CPU pool first. The
resources of other accelerators (TPUs, AMD, Neuron) join them where a pool has some, and so do other resources
of the nodes (`resources` of a pool).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Final

from muster.model import names
from muster.model.kueue.queue import POOL_RESOURCES, FlavorQuota, Group, Quota, replaces_pools
from muster.model.pools import Pool
from muster.model.quantities import Bytes, Gpus, Millicores, Quantity
from muster.model.queues import Allowance, Amount, Department, Reclaim, Team, Within
from muster.model.quotas import NOTHING, Resources, Unnamed, borrowing, lending, quota, unnamed
from muster.model.stack import Stack, kept_for_stack

_NONE: Final = Quantity(Fraction(0))
_MOST_DEVICES: Final = Quantity(Fraction(10**6))


def queue_groups(
    pools: Iterable[Pool],
    rest: Unnamed,
    allowance: Allowance,
    *,
    weight: int | None,
    can_share: bool,
    others: Iterable[Group] = (),
) -> tuple[Group, ...]:
    """`weight` is a team's, None for a department. Limits are left out where there is no cohort to share in.

    A pool with neither quota nor borrowing is left out: Kueue then names it when it rejects a job that
    requests it.
    """
    pools, others = list(pools), tuple(others)
    devices = [pool.device for pool in pools if pool.is_gpu]
    # All queues count what any pool has: one that did not would borrow none of it.
    of_nodes = sorted({name for pool in pools for name in pool.resources})
    covered = tuple(dict.fromkeys([*POOL_RESOURCES, *devices, *of_nodes, *other_resources(allowance)]))
    flavors = []
    for pool in () if replaces_pools(others) else pools:
        own = quota(rest, allowance, pool, weight=weight)
        taken, given = None, None
        if can_share:
            taken, given = borrowing(pool, allowance, is_team=weight is not None), lending(pool, allowance)
        if own is not None or (can_share and _is_named(pool, allowance, taken, is_team=weight is not None)):
            flavors.append(_flavor(pool.flavor, pool.device, covered, own or NOTHING, taken, given))
    first = [Group(covered_resources=covered, flavors=tuple(flavors))] if flavors else []
    return (*first, *(_in_order(group) for group in others))


def with_uncounted_devices(groups: tuple[Group, ...]) -> tuple[Group, ...]:
    """The groups of a queue of which work may claim devices without quota. Kueue counts each device that is
    claimed, and its excludeResourcePrefixes do not apply to claims (pkg/workload/workload.go of 0.19.2), so
    every flavor of the first group has more of them than nodes have.
    """
    if not groups:
        return groups
    first, device = groups[0], Quota(name=names.UNCOUNTED_DEVICES, nominal=_MOST_DEVICES)
    flavors = tuple(replace(each, resources=(*each.resources, device)) for each in first.flavors)
    covered = (*first.covered_resources, names.UNCOUNTED_DEVICES)
    return (Group(covered_resources=covered, flavors=flavors), *groups[1:])


def other_resources(allowance: Allowance) -> list[str]:
    """Resources beside CPU, memory and GPUs that a team or department names, in their order in the group."""
    shares = [*allowance.quota.values(), *allowance.borrow.pools.values(), *allowance.lend.pools.values()]
    return sorted({name for share in shares if isinstance(share, Amount) for name in share.others})


def _is_named(pool: Pool, allowance: Allowance, taken: Resources | None, *, is_team: bool) -> bool:
    """Without a quota a team needs a flavor to borrow through; a department only to limit what passes."""
    if is_team:
        return taken != NOTHING
    return allowance.borrow.of(pool.name) is not None or allowance.lend.of(pool.name) is not None


@lru_cache(maxsize=4096)
def _flavor(
    name: str,
    device: str,
    covered: tuple[str, ...],
    own: Resources,
    taken: Resources | None,
    given: Resources | None,
) -> FlavorQuota:
    """Cached, because a thousand teams have the same few dozen quotas and a Fraction is slow to make."""
    nominal = _amounts(own, device)
    borrow, lend = (None if each is None else _amounts(each, device) for each in (taken, given))
    resources = (
        Quota(
            name=resource,
            nominal=nominal.get(resource, _NONE),
            borrowing=None if borrow is None else borrow.get(resource, _NONE),
            lending=None if lend is None else lend.get(resource, _NONE),
        )
        for resource in covered
    )
    return FlavorQuota(name=name, resources=tuple(resources))


def _amounts(resources: Resources, device: str) -> dict[str, Quantity]:
    return {
        "cpu": Quantity(Fraction(resources.cpu, 1000)),
        "memory": Quantity(Fraction(resources.memory), resources.memory != 0),
        device: Quantity(Fraction(resources.gpus)),
        **dict(resources.others),
    }


def _in_order(group: Group) -> Group:
    """Kueue wants the resources in the order in which the group covers them."""
    order = group.covered_resources
    flavors = tuple(
        replace(
            flavor,
            resources=tuple(
                sorted(
                    (each for each in flavor.resources if each.name in order),
                    key=lambda quota: order.index(quota.name),
                )
            ),
        )
        for flavor in group.flavors
    )
    return replace(group, flavors=flavors)


WITHIN: Final[Mapping[Within, str]] = MappingProxyType(
    {
        Within.NEVER: "Never",
        Within.LOWER_PRIORITY: "LowerPriority",
        Within.LOWER_OR_NEWER: "LowerOrNewerEqualPriority",
    }
)
"""What Kueue calls them."""

RECLAIM: Final[Mapping[Reclaim, str]] = MappingProxyType(
    {Reclaim.NEVER: "Never", Reclaim.LOWER_PRIORITY: "LowerPriority", Reclaim.ANY: "Any"}
)
"""What Kueue calls them."""


@dataclass(frozen=True, slots=True)
class Holding:
    """The quota and the limits of a queue in one pool. None means no limit."""

    nominal: Resources
    borrow: Resources | None
    lend: Resources | None


@dataclass(frozen=True, kw_only=True)
class Node:
    """A ClusterQueue (a team) or a Cohort (a department). `object_name` is the object's, `name` its name in
    the stack. `within` and `reclaim` are Kueue's values, "" for a Cohort. `weight` is None where fair sharing
    does not count it. `highest` and `lowest` are the values of the priorities that a queue's teams may use.
    `written` are the pools of which the stack file names its quota. `department` is the team's, also where
    that department has no Cohort (`cohort: none`). `pools`: flavor -> pool, where a flavor is one's.
    """

    name: str
    object_name: str
    parent: str | None
    is_team: bool
    groups: tuple[Group, ...]
    weight: int | Fraction | None = None
    within: str = ""
    reclaim: str = ""
    highest: int = 0
    lowest: int = 0
    written: frozenset[str] = frozenset()
    department: str = ""
    pools: Mapping[str, Pool] = field(default_factory=lambda: MappingProxyType({}), repr=False)

    @property
    def is_alone(self) -> bool:
        """Whether the team shares with no other, because its department has no Cohort."""
        return self.is_team and self.parent is None

    @property
    def flavors(self) -> tuple[FlavorQuota, ...]:
        """Those of all groups, in the order in which Kueue tries them."""
        return tuple(flavor for group in self.groups for flavor in group.flavors)

    @cached_property
    def holdings(self) -> Mapping[str, Holding]:
        """By pool. Flavors that belong to no pool are left out. A team that is alone has no other team to
        borrow from or to lend to.
        """
        return {
            self.pools[flavor.name].name: _holding(flavor, is_closed=self.is_alone)
            for flavor in self.flavors
            if flavor.name in self.pools
        }


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


@dataclass(frozen=True, kw_only=True)
class Tree:
    """All nodes, parents before children. `is_weighted`: fair sharing is on. `priorities`: value -> name.
    `members`: the owner of each queue -> the teams whose work is in it, the owner first.
    """

    pools: Mapping[str, Pool] = field(default_factory=lambda: MappingProxyType({}))
    nodes: Mapping[str, Node] = field(default_factory=lambda: MappingProxyType({}))
    is_weighted: bool = False
    priorities: Mapping[int, str] = field(default_factory=lambda: MappingProxyType({}))
    members: Mapping[str, tuple[Team, ...]] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def guests(self) -> Mapping[str, str]:
        """A team without a queue of its own -> the team whose queue it uses."""
        return {team.name: owner for owner, teams in self.members.items() for team in teams[1:]}

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

    def root(self, name: str) -> str:
        return self.chain(name)[-1].name

    def teams(self) -> Iterator[Node]:
        return (node for node in self.nodes.values() if node.is_team)

    def sums(self, pool: str) -> dict[str, Resources]:
        """The quota of every node and of everything below it in one pool."""
        found = {name: nominal_quota(node, pool) for name, node in self.nodes.items()}
        for name, node in reversed(list(self.nodes.items())):
            if node.parent is not None:
                found[node.parent] += found[name]
        return found

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


class TreeBuilder:
    """Makes the nodes of a stack one at a time, from figures that are computed once."""

    def __init__(self, stack: Stack) -> None:
        self.members: Final = stack.queue_members()
        self.is_weighted: Final = stack.is_weighted
        self._stack, self._rest = stack, unnamed(stack)
        self._pools = {pool.flavor: pool for pool in stack.pools}
        self._priorities = {priority.name: priority.value for priority in stack.priorities}

    def owner(self, team: Team) -> Team:
        """The team whose ClusterQueue has the work of `team`; itself where `queue` names no such team."""
        return team if team.queue is None else self.members.get(team.queue, (team,))[0]

    def department(self, above: tuple[Department, ...], department: Department) -> Node | None:
        """The Cohort of a department, None where it has none."""
        if not department.kueue.exists:
            return None
        groups = queue_groups(
            self._stack.pools,
            self._rest,
            department.allowance,
            weight=None,
            can_share=bool(above),
            others=department.kueue.resource_groups,
        )
        return Node(
            name=department.name,
            object_name=cohort_name(department),
            parent=above[-1].name if above and above[-1].kueue.exists else None,
            is_team=False,
            groups=groups,
            weight=department.allowance.weight,
            written=frozenset(department.allowance.quota)
            | self._quota_pools(department.kueue.resource_groups),
            pools=self._pools,
        )

    def team(self, department: Department, team: Team) -> Node:
        """The ClusterQueue of a team with a queue of its own."""
        groups = queue_groups(
            self._stack.pools,
            self._rest,
            team.allowance,
            weight=team.weight,
            can_share=department.kueue.exists,
            others=team.kueue.resource_groups,
        )
        if self._stack.kueue.has_uncounted_devices:
            groups = with_uncounted_devices(groups)
        ranks = [
            self._priorities[name]
            for member in self.members[team.name]
            for name in member.priorities or self._priorities
            if name in self._priorities
        ]
        return Node(
            name=team.name,
            object_name=queue_name(team),
            parent=department.name if department.kueue.exists else None,
            is_team=True,
            groups=groups,
            weight=team.weight if self.is_weighted else None,
            within=WITHIN[team.preemption.within],
            reclaim=RECLAIM[team.preemption.reclaim],
            highest=max(ranks, default=0),
            lowest=min(ranks, default=0),
            written=frozenset(team.allowance.quota) | self._quota_pools(team.kueue.resource_groups),
            department=department.name,
            pools=self._pools,
        )

    def _quota_pools(self, groups: Iterable[Group]) -> frozenset[str]:
        """The pools of which `resourceGroups` name the quota."""
        named = {flavor.name for group in groups for flavor in group.flavors}
        return frozenset(self._pools[name].name for name in named & self._pools.keys())


@kept_for_stack
def to_tree(stack: Stack) -> Tree:
    """The tree of a stack: each department before its teams, and these before the departments below it."""
    builder, nodes = TreeBuilder(stack), dict[str, Node]()
    for above, department in stack.walk():
        cohort = builder.department(above, department)
        if cohort is not None:
            nodes[department.name] = cohort
        nodes |= {team.name: builder.team(department, team) for team in department.owners}
    return Tree(
        pools={pool.name: pool for pool in stack.pools},
        nodes=nodes,
        is_weighted=builder.is_weighted,
        priorities={priority.value: priority.name for priority in stack.priorities},
        members=builder.members,
    )


def queue_name(team: Team) -> str:
    return team.kueue.cluster_queue or team.name


def cohort_name(department: Department) -> str:
    return department.kueue.name or department.name


def nominal_quota(node: Node, pool: str) -> Resources:
    holding = node.holdings.get(pool)
    return NOTHING if holding is None else holding.nominal


def in_pool_unit(pool: Pool, amount: Resources) -> int:
    """An amount in the pool's unit: GPUs, or millicores where it has none."""
    return amount.gpus if pool.is_gpu else amount.cpu


def is_closed(pool: Pool, limit: Resources | None) -> bool:
    return limit is not None and in_pool_unit(pool, limit) == 0


def _limit(pool: Pool, node: Node, name: str, key: str) -> int | None:
    holding = node.holdings.get(name)
    limit = None if holding is None else holding.borrow if key == "borrow" else holding.lend
    return None if limit is None else in_pool_unit(pool, limit)


def _holding(flavor: FlavorQuota, *, is_closed: bool) -> Holding:
    nominal = _resources([(each.name, each.nominal) for each in flavor.resources]) or NOTHING
    if is_closed:
        return Holding(nominal, NOTHING, NOTHING)
    borrow = _resources([(each.name, each.borrowing) for each in flavor.resources])
    lend = _resources([(each.name, each.lending) for each in flavor.resources])
    return Holding(nominal, borrow, lend)


def _resources(figures: Sequence[tuple[str, Quantity | None]]) -> Resources | None:
    """What there is of CPU, memory and GPUs; None where no resource has a figure."""
    cpu, memory, devices, is_empty = 0, 0, 0, True
    for name, figure in figures:
        if figure is None:
            continue
        is_empty, value = False, figure.value
        if name == "cpu":
            cpu = value.numerator * 1000 // value.denominator
        elif name == "memory":
            memory = int(value)
        elif name in names.DEVICE_RESOURCES:
            devices += int(value)
    return None if is_empty else Resources(Millicores(cpu), Bytes(memory), Gpus(devices))
