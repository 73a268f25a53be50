"""Compares quotas: per queue and pool, and in total per pool.

Responsible for which differences count as a change: a difference that only comes from rounding does not.
"""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from muster.model.kueue.tree import Holding, Node, Reach, Tree, in_pool_unit, nominal_quota
from muster.model.pools import Pool
from muster.model.quantities import MIB, Quantity
from muster.model.quotas import NOTHING, Resources


@dataclass(frozen=True, slots=True)
class Quota:
    """One side of a row. `sums` is the quota of a node and of everything below it. `most` is what it could
    use if every other queue were idle and lent everything, in the pool's unit; a department's includes what
    a team below it lends to no other.
    """

    holding: Holding | None
    own: Resources
    sums: Resources
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaChange:
    """A team or department, and a pool. A side is None where the queue does not exist. `path`: top to
    queue. `is_written`: a side's stack file names the queue's quota of the pool.
    """

    name: str
    path: tuple[str, ...]
    is_team: bool
    pool: Pool
    before: Quota | None
    after: Quota | None
    is_written: bool

    @property
    def is_indirect(self) -> bool:
        """Whether only the quota that other queues leave to this one changes, and nothing of its own."""
        sides = [None if side is None else (side.holding, side.sums) for side in (self.before, self.after)]
        return sides[0] == sides[1]

    @property
    def difference(self) -> int:
        """The gain (positive) or loss (negative) of guaranteed quota, in the pool's unit."""
        before, after = (NOTHING if side is None else side.own for side in (self.before, self.after))
        return in_pool_unit(self.pool, after) - in_pool_unit(self.pool, before)

    @property
    def is_derived(self) -> bool:
        """Whether only figures change that Muster works out: the share of a CPU pool that no quota names, or
        the CPU and memory that come with as many GPUs as before.
        """
        if self.before is not None and self.after is not None:
            limits = [_limits(self.pool, side.holding) for side in (self.before, self.after)]
            if None not in limits and limits[0] != limits[1]:
                return False
        if not self.pool.is_gpu:
            return not self.is_written
        if self.before is None or self.after is None:
            return False
        return _in_unit(self.pool, self.before) == _in_unit(self.pool, self.after)

    @property
    def loss(self) -> int:
        """How much guaranteed quota the queue loses, in the pool's unit. A derived share is no guarantee."""
        return 0 if self.is_derived else max(-self.difference, 0)

    @property
    def gain(self) -> int:
        """How much guaranteed quota the queue gains, in the pool's unit."""
        return 0 if self.is_derived else max(self.difference, 0)

    @property
    def borrowable(self) -> tuple[int, int]:
        """How much could be borrowed before and after, in the pool's unit."""
        return _borrowable(self.pool, self.before), _borrowable(self.pool, self.after)


@dataclass(frozen=True, slots=True)
class PoolSum:
    """The quotas of all teams and departments in one pool, added up."""

    name: str
    before: Resources
    after: Resources


@dataclass(frozen=True, slots=True)
class FlavorMove:
    """What a team is guaranteed of one resource in a flavor that no pool has, where it changes."""

    team: str
    flavor: str
    resource: str
    before: Quantity
    after: Quantity

    @property
    def is_loss(self) -> bool:
        return self.after.value < self.before.value

    @property
    def amounts(self) -> str:
        return f"{self.before} to {self.after}"


def flavor_moves(before: Tree, after: Tree) -> Iterator[FlavorMove]:
    """Quotas that only `resourceGroups` name, of teams that both sides have: a stack that was adopted without
    its nodes has no pools.
    """
    of_pools = {pool.flavor for tree in (before, after) for pool in tree.pools.values()}
    for name in sorted(before.team_names & after.team_names & before.nodes.keys() & after.nodes.keys()):
        old, new = (_nominal(tree.nodes[name], besides=of_pools) for tree in (before, after))
        for flavor, resource in sorted(old.keys() | new.keys()):
            sides = (each.get((flavor, resource), Quantity(Fraction())) for each in (old, new))
            move = FlavorMove(name, flavor, resource, *sides)
            if move.before.value != move.after.value:
                yield move


def _nominal(node: Node, *, besides: Container[str]) -> dict[tuple[str, str], Quantity]:
    return {
        (flavor.name, quota.name): quota.nominal
        for flavor in node.flavors
        if flavor.name not in besides
        for quota in flavor.resources
    }


def quota_changes(before: Tree, after: Tree) -> tuple[QuotaChange, ...]:
    """Every queue and pool whose quota differs, down the tree."""
    return tuple(_quota_changes(before, after))


def pool_sums(before: Tree, after: Tree) -> tuple[PoolSum, ...]:
    """Every pool whose quotas add up to something else."""
    moved = _moved(before, after)
    sums = [PoolSum(pool, _total(before, pool), _total(after, pool)) for pool in moved]
    return tuple(each for each in sums if not _is_rounding(each.before, each.after, moved=moved[each.name]))


def _quota_changes(before: Tree, after: Tree) -> Iterator[QuotaChange]:
    pools, moved = {**before.pools, **after.pools}, _moved(before, after)
    sides = {pool: (quotas_of(before, pool), quotas_of(after, pool)) for pool in pools}
    for path, node in _paths(before, after):
        for pool, (old, new) in sides.items():
            one, two = _without_rounding(old.get(node.name), new.get(node.name), moved=moved[pool])
            if one == two or not (_has_quota(one) or _has_quota(two)):
                continue
            yield QuotaChange(
                name=node.name,
                path=path,
                is_team=node.is_team,
                pool=pools[pool],
                before=one,
                after=two,
                is_written=any(
                    node.name in tree.nodes and pool in tree.nodes[node.name].written
                    for tree in (before, after)
                ),
            )


def _paths(before: Tree, after: Tree) -> list[tuple[tuple[str, ...], Node]]:
    """Every node of either tree with its path. Below each department, its teams come first."""
    found = {}
    for tree in (before, after):
        for name, node in tree.nodes.items():
            found[name] = (tuple(step.name for step in reversed(tree.chain(name))), node)
    return sorted(found.values(), key=lambda each: each[0])


def _has_quota(quota: Quota | None) -> bool:
    """Whether the side has any quota: a new team without GPUs is no change of GPU quota."""
    return quota is not None and (quota.holding is not None or quota.sums != NOTHING)


def quotas_of(tree: Tree, pool: str) -> dict[str, Quota]:
    """The quota of every node in one pool; empty where the tree does not have the pool."""
    if pool not in tree.pools:
        return {}
    sums, reach = tree.sums(pool), tree.reach(pool)
    return {name: _quota(node, pool, sums, reach[name]) for name, node in tree.nodes.items()}


def _quota(node: Node, pool: str, sums: Mapping[str, Resources], reach: Reach) -> Quota:
    most = reach.most if node.is_team else reach.most + reach.private
    return Quota(node.holdings.get(pool), nominal_quota(node, pool), sums[node.name], most)


def _limits(pool: Pool, holding: Holding | None) -> tuple[int | None, ...] | None:
    if holding is None:
        return None
    limits = (holding.borrow, holding.lend)
    return tuple(None if limit is None else in_pool_unit(pool, limit) for limit in limits)


def _in_unit(pool: Pool, side: Quota) -> tuple[int, int, int]:
    return in_pool_unit(pool, side.own), in_pool_unit(pool, side.sums), side.most


def _moved(before: Tree, after: Tree) -> dict[str, int]:
    """How many queues have a different quota of their own, by pool."""
    names = {**before.nodes, **after.nodes}
    sides = [(before.nodes.get(name), after.nodes.get(name)) for name in names]
    return {
        pool: sum(1 for one, two in sides if _own_quota(one, pool) != _own_quota(two, pool))
        for pool in {**before.pools, **after.pools}
    }


def _own_quota(node: Node | None, pool: str) -> Resources:
    return NOTHING if node is None else nominal_quota(node, pool)


def _is_rounding(one: Resources, two: Resources, *, moved: int) -> bool:
    """Whether two sums differ by rounding alone. Each quota is rounded down to a millicore and a MiB, so each
    of the `moved` queues may add or remove up to one of both.
    """
    return (
        (one.gpus, one.others) == (two.gpus, two.others)
        and abs(one.cpu - two.cpu) < max(moved, 1)
        and abs(one.memory - two.memory) < MIB * max(moved, 1)
    )


def _without_rounding(
    one: Quota | None, two: Quota | None, *, moved: int
) -> tuple[Quota | None, Quota | None]:
    """Both sides with the same sum where their sums differ by rounding alone."""
    if one is None or two is None or one.own != two.own or not _is_rounding(one.sums, two.sums, moved=moved):
        return one, two
    least = min(one.sums, two.sums, key=lambda each: (each.cpu, each.memory))
    return replace(one, sums=least), replace(two, sums=least)


def _total(tree: Tree, pool: str) -> Resources:
    total = NOTHING
    for node in tree.nodes.values():
        total += nominal_quota(node, pool)
    return total


def _borrowable(pool: Pool, side: Quota | None) -> int:
    return 0 if side is None else max(side.most - in_pool_unit(pool, side.own), 0)
