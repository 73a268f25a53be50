"""What differs between two stacks, for whom: the pure core of a report.

Decides which differences are changes and how they are grouped. Leaves the meaning of quota to model, its
reach to tree.py, preemption to preemption.py, and words to report.py.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Final, TypeVar

from muster.model.pools import Pool
from muster.model.quantities import MIB
from muster.model.quotas import NOTHING, Resources
from muster.model.stack import Scheduler, Stack
from muster.preview import kai_preemption
from muster.preview.kai_preemption import KaiProfile
from muster.preview.preemption import Profile, Right, can_preempt_within, preemption_rights, to_profiles
from muster.preview.settings import flatten_settings, owner_of, unchanged_teams
from muster.preview.tree import Holding, Node, Reach, Tree, nominal_quota, to_tree

Value = TypeVar("Value")

# Pairs of groups of like teams that are compared. A change of one team among 10,000 of different kinds is
# 20,000 pairs; beyond this bound nobody would read the answer either.
_MAX_PAIRS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Quota:
    """One side of a row. `sums` is the quota of a node and all below it; `most` what it could use, in the
    pool's unit, with everything lent and nobody else at work.
    """

    holding: Holding | None
    own: Resources
    sums: Resources
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaChange:
    """A team or department and a pool. A side that is None has no such queue. `path`: from the top to it."""

    name: str
    path: tuple[str, ...]
    is_team: bool
    pool: Pool
    before: Quota | None
    after: Quota | None

    @property
    def is_indirect(self) -> bool:
        """Whether nothing of its own changes, only what others leave to it."""
        sides = [None if side is None else (side.holding, side.sums) for side in (self.before, self.after)]
        return sides[0] == sides[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionChange:
    """Each of `preemptors` may, or no longer may, preempt each of `victims` that is another team.

    `right` is None for preemption inside one team; the victims are then the preemptors themselves.
    """

    preemptors: tuple[str, ...]
    victims: tuple[str, ...]
    pools: tuple[str, ...]
    right: Right | None
    is_new: bool


@dataclass(frozen=True, slots=True)
class PoolChange:
    """A pool before and after; None where it is not there."""

    name: str
    before: Pool | None
    after: Pool | None


@dataclass(frozen=True, slots=True)
class PoolSum:
    """All quotas of a pool together, of teams and departments."""

    name: str
    before: Resources
    after: Resources


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A setting that is no quota; None where it is not set."""

    place: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """All differences. `quotas` go down the tree. `unsaid` names what could not be derived, and why."""

    quotas: tuple[QuotaChange, ...]
    sums: tuple[PoolSum, ...]
    preemption: tuple[PreemptionChange, ...]
    pools: tuple[PoolChange, ...]
    settings: tuple[SettingChange, ...]
    before: Tree
    after: Tree
    unsaid: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.quotas or self.sums or self.preemption or self.pools or self.settings)

    def borrowing(self) -> Iterator[tuple[QuotaChange, int, int]]:
        """Teams whose borrowing of a pool became possible or impossible, with the most of both sides."""
        for change in self.quotas:
            before, after = _borrowed(change, change.before), _borrowed(change, change.after)
            if change.is_team and bool(before) is not bool(after):
                yield change, before, after


def compare(base: Stack | None, head: Stack | None) -> Changes:
    """The changes from base to head; None is a stack that is not there, with nothing in it."""
    before, after = _tree(base), _tree(head)
    preemption, unsaid = _preemption(base, head, before, after)
    moved = _moved(before, after)
    return Changes(
        quotas=tuple(_quotas(before, after, moved)),
        sums=tuple(_sums(before, after, moved)),
        preemption=preemption,
        pools=tuple(
            PoolChange(*each) for each in _differing(before.pools, after.pools, key=lambda pool: pool)
        ),
        settings=tuple(_setting_changes(base, head)),
        before=before,
        after=after,
        unsaid=unsaid,
    )


def _tree(stack: Stack | None) -> Tree:
    return Tree({}, {}, False) if stack is None else to_tree(stack)


def _setting_changes(base: Stack | None, head: Stack | None) -> Iterator[SettingChange]:
    """Of teams and departments that stand on both sides: what is new or gone is told as such, with its
    quota.
    """
    if base is None or head is None:
        return
    same = unchanged_teams(base, head)
    old, new = flatten_settings(base, unless=same), flatten_settings(head, unless=same)
    kept = {owner_of(place) for place in old} & {owner_of(place) for place in new}
    for place, before, after in _differing(old, new, key=lambda text: text):
        if owner_of(place) is None or owner_of(place) in kept:
            yield SettingChange(place, before, after)


def _differing(
    before: Mapping[str, Value], after: Mapping[str, Value], *, key: Callable[[Value], object]
) -> Iterator[tuple[str, Value | None, Value | None]]:
    for name in [*after, *(name for name in before if name not in after)]:
        old, new = before.get(name), after.get(name)
        if old is None or new is None or key(old) != key(new):
            yield name, old, new


# Quotas


def _quotas(before: Tree, after: Tree, moved: Mapping[str, int]) -> Iterator[QuotaChange]:
    pools = {**before.pools, **after.pools}
    sides = {pool: (_side(before, pool), _side(after, pool)) for pool in pools}
    for path, node in _paths(before, after):
        for pool, (old, new) in sides.items():
            one, two = _evened(old.get(node.name), new.get(node.name), moved=moved[pool])
            if one == two or not (_says(one) or _says(two)):
                continue
            yield QuotaChange(
                name=node.name, path=path, is_team=node.is_team, pool=pools[pool], before=one, after=two
            )


def _paths(before: Tree, after: Tree) -> list[tuple[tuple[str, ...], Node]]:
    """Every node of either tree with its path; below each department its teams come first."""
    found = {}
    for tree in (before, after):
        for name, node in tree.nodes.items():
            found[name] = (tuple(step.name for step in reversed(tree.chain(name))), node)
    return sorted(found.values(), key=lambda each: each[0])


def _says(quota: Quota | None) -> bool:
    """Whether the side holds anything at all: a new team without GPUs is no change of GPU quota."""
    return quota is not None and (quota.holding is not None or quota.sums != NOTHING)


def _side(tree: Tree, pool: str) -> dict[str, Quota]:
    if pool not in tree.pools:
        return {}
    sums, reach = _summed(tree, pool), tree.reach(pool)
    return {name: _quota(node, pool, sums, reach[name]) for name, node in tree.nodes.items()}


def _quota(node: Node, pool: str, sums: Mapping[str, Resources], reach: Reach) -> Quota:
    return Quota(node.holdings.get(pool), nominal_quota(node, pool), sums[node.name], reach.most)


def _summed(tree: Tree, pool: str) -> dict[str, Resources]:
    sums = {name: nominal_quota(node, pool) for name, node in tree.nodes.items()}
    for name, node in reversed(list(tree.nodes.items())):
        if node.parent is not None:
            sums[node.parent] += sums[name]
    return sums


def _sums(before: Tree, after: Tree, moved: Mapping[str, int]) -> Iterator[PoolSum]:
    for pool in {**before.pools, **after.pools}:
        old, new = _total(before, pool), _total(after, pool)
        if not _is_rounding(old, new, moved=moved[pool]):
            yield PoolSum(pool, old, new)


def _moved(before: Tree, after: Tree) -> dict[str, int]:
    """How many queues have another quota of their own, by pool."""
    names = {**before.nodes, **after.nodes}
    sides = [(before.nodes.get(name), after.nodes.get(name)) for name in names]
    return {
        pool: sum(1 for one, two in sides if _own(one, pool) != _own(two, pool))
        for pool in {**before.pools, **after.pools}
    }


def _own(node: Node | None, pool: str) -> Resources:
    return NOTHING if node is None else nominal_quota(node, pool)


def _is_rounding(one: Resources, two: Resources, *, moved: int) -> bool:
    """Whether nothing lies between two sums but that each quota is rounded down, to a millicore and a MiB:
    GPUs that move from one team to another take up to one of each with them or leave it.
    """
    return (
        (one.gpus, one.others) == (two.gpus, two.others)
        and abs(one.cpu - two.cpu) < max(moved, 1)
        and abs(one.memory - two.memory) < MIB * max(moved, 1)
    )


def _evened(one: Quota | None, two: Quota | None, *, moved: int) -> tuple[Quota | None, Quota | None]:
    """Both sides with one sum where rounding alone lies between theirs."""
    if one is None or two is None or one.own != two.own or not _is_rounding(one.sums, two.sums, moved=moved):
        return one, two
    least = min(one.sums, two.sums, key=lambda each: (each.cpu, each.memory))
    return replace(one, sums=least), replace(two, sums=least)


def _total(tree: Tree, pool: str) -> Resources:
    total = NOTHING
    for node in tree.nodes.values():
        total += nominal_quota(node, pool)
    return total


def _borrowed(change: QuotaChange, side: Quota | None) -> int:
    if side is None:
        return 0
    return max(side.most - (side.own.gpus if change.pool.is_gpu else side.own.cpu), 0)


# Preemption


def _preemption(
    base: Stack | None, head: Stack | None, before: Tree, after: Tree
) -> tuple[tuple[PreemptionChange, ...], tuple[str, ...]]:
    groups = _groups(_profiles(base, before), _profiles(head, after))
    changed = [key for key in groups if key[0] != key[1]]
    if len(changed) * len(groups) * 2 > _MAX_PAIRS:
        said = (
            f"{len(changed)} of {len(groups)} groups of like teams change, too many to compare pair by pair."
        )
        return (), (f"Preemption: {said}",)
    return (*_within(groups), *_across(groups, changed)), ()


_Rights = Profile | KaiProfile
# A team's profile before and after; None where the team is not there.
_Key = tuple[_Rights | None, _Rights | None]


def _profiles(stack: Stack | None, tree: Tree) -> Mapping[str, _Rights]:
    """By the rules of the side's own scheduler."""
    if stack is not None and stack.scheduler is Scheduler.KAI:
        return kai_preemption.to_profiles(stack)
    return to_profiles(tree)


def _may(one: _Rights, two: _Rights) -> Mapping[str, Right]:
    """Both are of one side, so of one scheduler."""
    if isinstance(one, KaiProfile) and isinstance(two, KaiProfile):
        return kai_preemption.preemption_rights(one, two)
    if isinstance(one, Profile) and isinstance(two, Profile):
        return preemption_rights(one, two)
    return {}


def _may_within(team: _Rights | None) -> bool:
    if isinstance(team, KaiProfile):
        return kai_preemption.can_preempt_within(team)
    return team is not None and can_preempt_within(team)


def _groups(before: Mapping[str, _Rights], after: Mapping[str, _Rights]) -> dict[_Key, tuple[str, ...]]:
    """Teams that are alike before and alike after: what holds for one holds for all of them."""
    found: dict[_Key, list[str]] = {}
    for name in sorted({**before, **after}):
        found.setdefault((before.get(name), after.get(name)), []).append(name)
    return {key: tuple(members) for key, members in found.items()}


def _within(groups: Mapping[_Key, tuple[str, ...]]) -> Iterator[PreemptionChange]:
    gained: dict[bool, list[str]] = {True: [], False: []}
    for (before, after), members in groups.items():
        old, new = _may_within(before), _may_within(after)
        if old != new:
            gained[new] += members
    for is_new, teams in gained.items():
        if teams:
            everybody = tuple(sorted(teams))
            yield PreemptionChange(
                preemptors=everybody, victims=everybody, pools=(), right=None, is_new=is_new
            )


def _across(groups: Mapping[_Key, tuple[str, ...]], changed: Iterable[_Key]) -> Iterator[PreemptionChange]:
    """Only pairs of which one side changed can differ."""
    is_changed = frozenset(changed)
    pairs = dict.fromkeys(product(is_changed, groups)) | dict.fromkeys(product(groups, is_changed))
    found: dict[tuple[tuple[str, ...], tuple[str, ...], Right, bool], set[str]] = {}
    for one, two in pairs:
        preemptors, victims = groups[one], groups[two]
        if one == two and len(preemptors) == 1:
            continue
        for is_new, right, pools in _edge(one, two):
            found.setdefault((preemptors, pools, right, is_new), set()).update(victims)
    rows = [
        PreemptionChange(
            preemptors=preemptors, victims=tuple(sorted(victims)), pools=pools, right=right, is_new=is_new
        )
        for (preemptors, pools, right, is_new), victims in found.items()
    ]
    yield from sorted(rows, key=_row_order)


def _row_order(row: PreemptionChange) -> tuple[bool, tuple[str, ...], tuple[str, ...], tuple[str, ...], str]:
    return (not row.is_new, row.preemptors, row.victims, row.pools, row.right or "")


def _edge(preemptor: _Key, victim: _Key) -> Iterator[tuple[bool, Right, tuple[str, ...]]]:
    """What one team gains or loses the right to against another: (gained, right, pools)."""
    sides: list[Mapping[str, Right]] = []
    for one, two in zip(preemptor, victim, strict=True):
        sides.append({} if one is None or two is None else _may(one, two))
    before, after = sides
    for is_new, has, had in ((True, after, before), (False, before, after)):
        for right in Right:
            pools = tuple(sorted(pool for pool in has if has[pool] is right and pool not in had))
            if pools:
                yield is_new, right, pools


__all__ = [
    "Changes",
    "PoolChange",
    "PoolSum",
    "PreemptionChange",
    "Quota",
    "QuotaChange",
    "SettingChange",
    "compare",
]
