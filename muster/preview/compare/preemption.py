"""Compares who may preempt whom in base and in head.

Responsible for grouping: teams with equal rights before and equal rights after are compared once. Not
responsible for the rules, which each side's scheduler brings along (kueue_rules.py, kai_rules.py).
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import Final

from muster.model.kueue.tree import Tree
from muster.model.stack import Scheduler, Stack
from muster.preview.compare.kai_rules import KaiRules
from muster.preview.compare.kueue_rules import KueueRules
from muster.preview.compare.preemption_rules import PreemptionRules, Right

# Pairs of groups that are compared. A change of one team among 10,000 different ones is 20,000 pairs. Beyond
# this bound the result would be too long to read.
_MAX_PAIRS: Final = 1_000_000

# Rules for the teams of a stack. The only place that depends on the scheduler.
_RULES: Final[Mapping[Scheduler, Callable[[Stack, Tree], PreemptionRules]]] = MappingProxyType(
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


def rules_of(stack: Stack | None, tree: Tree) -> PreemptionRules:
    """The rules of the stack's own scheduler. Without a stack there are no teams."""
    return KueueRules({}) if stack is None else _RULES[stack.scheduler](stack, tree)


def preemption_changes(
    before: PreemptionRules, after: PreemptionRules
) -> tuple[tuple[PreemptionChange, ...], tuple[str, ...]]:
    """The changes, and what could not be compared and why."""
    groups = _groups(before, after)
    changed = [group for group in groups if group.is_changed]
    if len(changed) * len(groups) * 2 > _MAX_PAIRS:
        reason = (
            f"{len(changed)} of {len(groups)} groups of like teams change, too many to compare pair by pair."
        )
        return (), (f"Preemption: {reason}",)
    return (*_within(before, after, groups), *_across(before, after, groups, changed)), ()


def _groups(before: PreemptionRules, after: PreemptionRules) -> list[_Group]:
    found: dict[tuple[Hashable, Hashable], list[str]] = {}
    old, new = frozenset(before.teams), frozenset(after.teams)
    for team in sorted(old | new):
        key = (before.profile(team) if team in old else None, after.profile(team) if team in new else None)
        found.setdefault(key, []).append(team)
    return [_Group(key[0] != key[1], tuple(teams)) for key, teams in found.items()]


def _within(
    before: PreemptionRules, after: PreemptionRules, groups: Iterable[_Group]
) -> Iterator[PreemptionChange]:
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
    before: PreemptionRules, after: PreemptionRules, groups: list[_Group], changed: list[_Group]
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
