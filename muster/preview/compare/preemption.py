"""Compares who may preempt whom in base and in head.

Responsible for grouping: teams with equal rights before and equal rights after are compared once.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import Final

from muster.model.kueue.tree import Node, Reach, Tree, is_closed
from muster.model.stack import Scheduler, Stack
from muster.preview.compare.kai import KaiRules
from muster.preview.compare.preemption_rules import PreemptionRules, Right, Rules, below_common_parent

# Who may preempt whom with Kueue.
# The input is what Kueue gets: priorities, `withinClusterQueue`, `reclaimWithinCohort`, the Cohorts and
# their limits. How Kueue 0.19.2 decides (pkg/scheduler/preemption): within a queue by `withinClusterQueue`;
# across queues by `reclaimWithinCohort`, against queues that have borrowed, and, without fair sharing, only
# when the work fits the quota of the preemptor's queue or of a Cohort above it that the victim is outside
# of. Fair sharing also takes from queues that have borrowed more of what both may borrow.

_LOWER = ("LowerPriority", "LowerOrNewerEqualPriority")


@dataclass(frozen=True, slots=True)
class Step:
    """A node of a profile's chain, for one pool. `has`: it or a node below it has quota."""

    has: bool
    lends: bool
    borrows: bool


@dataclass(frozen=True, slots=True)
class Profile:
    """Everything of a team that preemption depends on: teams with equal profiles have equal rights.

    `above` are the departments from the team's own to the top. `steps`, by pool, go from the team to the top.
    """

    above: tuple[str, ...]
    steps: tuple[tuple[str, tuple[Step, ...]], ...]
    borrowing: frozenset[str]
    within: str
    reclaim: str
    highest: int
    lowest: int
    is_weighted: bool


@dataclass(frozen=True, slots=True)
class KueueRules(PreemptionRules[Profile]):
    @classmethod
    def of(cls, tree: Tree) -> "KueueRules":
        """The rules for the teams of a queue tree."""
        reaches = {pool: tree.reach(pool) for pool in tree.pools}
        return cls({team.name: _profile(tree, tree.chain(team.name), reaches) for team in tree.teams()})

    @staticmethod
    def is_preempted_within(team: Profile) -> bool:
        if team.within == "LowerOrNewerEqualPriority":
            return True
        return team.within == "LowerPriority" and team.highest > team.lowest

    @staticmethod
    def rights_between(preemptor: Profile, victim: Profile) -> dict[str, Right]:
        if not (preemptor.above and victim.above) or preemptor.above[-1] != victim.above[-1]:
            return {}
        if not _outranks(preemptor, victim):
            return {}
        theirs, found = dict(victim.steps), {}
        p_depth, v_depth = below_common_parent(preemptor.above, victim.above)
        for pool, steps in preemptor.steps:
            if pool not in victim.borrowing or pool not in theirs:
                continue
            right = _right(steps[:p_depth], theirs[pool][:v_depth])
            if right is Right.FAIR and not (preemptor.is_weighted and pool in preemptor.borrowing):
                right = None
            if right is not None:
                found[pool] = right
        return found


def _right(ours: Sequence[Step], theirs: Sequence[Step]) -> Right | None:
    """The right by which the first team may preempt the second, on one pool.

    `ours` and `theirs` go from each team to the last node below the first common department. A victim below a
    department that cannot borrow has borrowed inside that department. What it gives back is only available
    outside if that department and every one above it lend.
    """
    closed = next((index for index, step in enumerate(theirs) if not step.borrows), None)
    if closed is None and _owns(ours):
        return Right.RECLAIM
    if not all(step.borrows for step in ours):
        return None
    return Right.FAIR if closed is None or all(step.lends for step in theirs[closed:]) else None


def _owns(ours: Sequence[Step]) -> bool:
    """Whether the preemptor owns quota below the common department that another queue may be using.

    The quota is the team's own, or that of a department above it from which the team may borrow.
    """
    for index, step in enumerate(ours):
        if step.has and all(above.lends for above in ours[index:]):
            return True
        if not step.borrows:
            return False
    return False


def _outranks(preemptor: Profile, victim: Profile) -> bool:
    if preemptor.reclaim == "Any":
        return True
    return preemptor.reclaim in _LOWER and preemptor.highest > victim.lowest


def _profile(tree: Tree, chain: tuple[Node, ...], reaches: Mapping[str, Mapping[str, Reach]]) -> Profile:
    team = chain[0]
    pools = [pool for pool in tree.pools if pool in team.holdings]
    borrowing = {pool for pool in pools if reaches[pool][team.name].most > reaches[pool][team.name].subtree}
    return Profile(
        above=tuple(node.name for node in chain[1:]),
        steps=tuple((pool, _steps(tree, chain, pool, reaches[pool])) for pool in pools),
        borrowing=frozenset(borrowing),
        within=team.within,
        reclaim=team.reclaim,
        highest=team.highest,
        lowest=team.lowest,
        is_weighted=tree.is_weighted,
    )


def _steps(tree: Tree, chain: tuple[Node, ...], pool: str, reach: Mapping[str, Reach]) -> tuple[Step, ...]:
    steps = []
    for node in chain:
        holding, here = node.holdings.get(pool), reach[node.name]
        borrow, lend = (None, None) if holding is None else (holding.borrow, holding.lend)
        steps.append(
            Step(
                has=here.subtree > 0,
                lends=not is_closed(tree.pools[pool], lend),
                borrows=not is_closed(tree.pools[pool], borrow),
            )
        )
    return tuple(steps)


# Compares the priorities of two stacks, and which teams may use them.
# A team without a list may use every priority of the stack, so a new priority is open to it at once.


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityChange:
    """A priority with its value on each side; None where the side does not have it.

    `teams` may use it: in head, or in base where head does not have it. `is_reordered`: another priority of
    both sides is now on its other side.
    """

    name: str
    before: int | None
    after: int | None
    teams: tuple[str, ...]
    is_reordered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessChange:
    """A team of both sides, and which priorities of both sides it may use now, or no longer."""

    team: str
    gained: tuple[str, ...]
    lost: tuple[str, ...]


def priority_changes(base: Stack | None, head: Stack | None) -> tuple[PriorityChange, ...]:
    """New and changed priorities from the highest, then the removed. Nothing where a side has no stack."""
    if base is None or head is None:
        return ()
    old, new = _values(base), _values(head)
    names = sorted({*old, *new}, key=lambda name: (name not in new, -new.get(name, old.get(name, 0)), name))
    return tuple(
        PriorityChange(
            name=name,
            before=old.get(name),
            after=new.get(name),
            teams=_users(head if name in new else base, name),
            is_reordered=_is_reordered(name, old, new),
        )
        for name in names
        if old.get(name) != new.get(name)
    )


def access_changes(base: Stack | None, head: Stack | None) -> tuple[AccessChange, ...]:
    """The teams whose list of priorities lets them use others than before."""
    return () if base is None or head is None else tuple(_access_changes(base, head))


def _access_changes(base: Stack, head: Stack) -> Iterator[AccessChange]:
    common = _values(base).keys() & _values(head).keys()
    old, new = _lists(base), _lists(head)
    for team in sorted(old.keys() & new.keys()):
        if old[team] == new[team]:
            continue
        before, after = (set(listed or common) & common for listed in (old[team], new[team]))
        if before != after:
            yield AccessChange(
                team=team, gained=tuple(sorted(after - before)), lost=tuple(sorted(before - after))
            )


def _values(stack: Stack) -> dict[str, int]:
    return {priority.name: priority.value for priority in stack.priorities}


def _lists(stack: Stack) -> dict[str, tuple[str, ...]]:
    return {team.name: team.priorities for _, team in stack.teams()}


def _users(stack: Stack, priority: str) -> tuple[str, ...]:
    return tuple(sorted(name for name, listed in _lists(stack).items() if not listed or priority in listed))


def _is_reordered(name: str, old: Mapping[str, int], new: Mapping[str, int]) -> bool:
    if name not in old or name not in new:
        return False
    others = (old.keys() & new.keys()) - {name}
    return any((old[name] > old[each]) is not (new[name] > new[each]) for each in others)


# Pairs of groups that are compared. A change of one team among 10,000 different ones is 20,000 pairs. Beyond
# this bound the result would be too long to read.
_MAX_PAIRS: Final = 1_000_000

# Rules for the teams of a stack. The only place that depends on the scheduler.
_RULES: Final[Mapping[Scheduler, Callable[[Stack, Tree], Rules]]] = MappingProxyType(
    {
        Scheduler.KUEUE: lambda stack, tree: KueueRules.of(tree),
        Scheduler.KAI: lambda stack, tree: KaiRules.of(stack),
    }
)


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


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Teams with one profile before and one profile after. What holds for one of them holds for all."""

    is_changed: bool
    teams: tuple[str, ...]

    @property
    def example(self) -> str:
        return self.teams[0]


def rules_of(stack: Stack | None, tree: Tree) -> Rules:
    """The rules of the stack's own scheduler. Without a stack there are no teams."""
    return KueueRules({}) if stack is None else _RULES[stack.scheduler](stack, tree)


def preemption_changes(before: Rules, after: Rules) -> tuple[tuple[PreemptionChange, ...], tuple[str, ...]]:
    """The changes, and what could not be compared and why."""
    groups = _groups(before, after)
    changed = [group for group in groups if group.is_changed]
    if len(changed) * len(groups) * 2 > _MAX_PAIRS:
        reason = (
            f"{len(changed)} of {len(groups)} groups of like teams change, too many to compare pair by pair."
        )
        return (), (f"Preemption: {reason}",)
    return (*_within(before, after, groups), *_across(before, after, groups, changed)), ()


def _groups(before: Rules, after: Rules) -> list[_Group]:
    found: dict[tuple[Hashable, Hashable], list[str]] = {}
    old, new = before.profiles.keys(), after.profiles.keys()
    for team in sorted(old | new):
        key = (before.profiles[team] if team in old else None, after.profiles[team] if team in new else None)
        found.setdefault(key, []).append(team)
    return [_Group(key[0] != key[1], tuple(teams)) for key, teams in found.items()]


def _within(before: Rules, after: Rules, groups: Iterable[_Group]) -> Iterator[PreemptionChange]:
    gained: dict[bool, list[str]] = {True: [], False: []}
    for group in groups:
        old, new = (rules.can_preempt_within(group.example) for rules in (before, after))
        if old != new:
            gained[new] += group.teams
    for is_new, teams in gained.items():
        if teams:
            members = tuple(sorted(teams))
            yield PreemptionChange(preemptors=members, victims=members, pools=(), right=None, is_new=is_new)


def _across(
    before: Rules, after: Rules, groups: list[_Group], changed: list[_Group]
) -> list[PreemptionChange]:
    """Only pairs of which one group changed can differ."""
    pairs = dict.fromkeys(product(changed, groups)) | dict.fromkeys(product(groups, changed))
    found: dict[tuple[tuple[str, ...], tuple[str, ...], Right, bool], set[str]] = {}
    for preemptors, victims in pairs:
        if preemptors == victims and len(preemptors.teams) == 1:
            continue
        sides = (rules.rights(preemptors.example, victims.example) for rules in (before, after))
        for is_new, right, pools in _differences(*sides):
            found.setdefault((preemptors.teams, pools, right, is_new), set()).update(victims.teams)
    rows = [
        PreemptionChange(
            preemptors=preemptors, victims=tuple(sorted(victims)), pools=pools, right=right, is_new=is_new
        )
        for (preemptors, pools, right, is_new), victims in found.items()
    ]
    return sorted(rows, key=_row_order)


def _row_order(row: PreemptionChange) -> tuple[bool, tuple[str, ...], tuple[str, ...], tuple[str, ...], str]:
    return (not row.is_new, row.preemptors, row.victims, row.pools, row.right or "")


def _differences(
    before: Mapping[str, Right], after: Mapping[str, Right]
) -> Iterator[tuple[bool, Right, tuple[str, ...]]]:
    """Rights that one team gains or loses against another: (gained, right, pools)."""
    for is_new, has, had in ((True, after, before), (False, before, after)):
        for right in Right:
            pools = tuple(sorted(pool for pool in has if has[pool] is right and pool not in had))
            if pools:
                yield is_new, right, pools
