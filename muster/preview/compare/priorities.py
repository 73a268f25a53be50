"""Compares the priorities of two stacks, and which teams may use them.

A team without a list may use every priority of the stack, so a new priority is open to it at once. Not
responsible for what a priority may preempt (preemption.py).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from muster.model.stack import Stack


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
