"""Compares every setting of a stack that is no quota, limit or pool, as flat `place -> text`.

Responsible for the place under which a setting is listed. The settings are read from the model's dataclasses,
so a field that the model gains is compared without a change here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import timedelta
from typing import Final

from muster.model.definitions import Spec
from muster.model.queues import Department, Team
from muster.model.stack import Stack
from muster.preview.compare.differing import differing

# These have tables of their own.
_ELSEWHERE: Final = ("pools", "departments")
_ALLOWANCE: Final = ("allowance", "name", "departments", "teams")


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A setting that is no quota. None where it is not set."""

    place: str
    before: str | None
    after: str | None


def setting_changes(base: Stack | None, head: Stack | None) -> tuple[SettingChange, ...]:
    """Of teams and departments only those that both sides have, and teams without a queue of their own: any
    other new or removed one is listed with its quota.
    """
    if base is None or head is None:
        return ()
    same = unchanged_teams(base, head)
    old, new = flatten_settings(base, unless=same), flatten_settings(head, unless=same)
    kept = {owner_of(place) for place in old} & {owner_of(place) for place in new}
    kept |= {f"team {team.name}" for side in (base, head) for _, team in side.teams() if team.queue}
    return tuple(
        SettingChange(place, before, after)
        for place, before, after in differing(old, new)
        if owner_of(place) is None or owner_of(place) in kept
    )


def flatten_settings(stack: Stack, *, unless: frozenset[str] = frozenset()) -> dict[str, str]:
    """Place -> value. A team's place begins with `team NAME`, a department's with `department NAME`.

    The teams named in `unless` are left out.
    """
    found = dict(_fields("", stack, without=_ELSEWHERE))
    for above, department in stack.walk():
        found |= _department(above, department)
    for chain, team in stack.teams():
        if team.name not in unless:
            found |= _team(chain[-1], team)
    return found


def unchanged_teams(base: Stack, head: Stack) -> frozenset[str]:
    """Teams with equal settings on both sides. Of 10,000 teams these are nearly all, so they are skipped
    early.
    """
    old, new = ({team.name: (chain[-1].name, team) for chain, team in side.teams()} for side in (base, head))
    return frozenset(name for name in old if name in new and _is_unchanged(old[name], new[name]))


def _is_unchanged(old: tuple[str, Team], new: tuple[str, Team]) -> bool:
    if old[0] != new[0] or old[1].allowance.weight != new[1].allowance.weight:
        return False
    names = (each.name for each in fields(Team) if each.name not in _ALLOWANCE)
    return all(getattr(old[1], name) == getattr(new[1], name) for name in names)


def owner_of(place: str) -> str | None:
    """The team or department that a place belongs to; None for the stack's own settings."""
    head = place.partition(": ")[0]
    return head if head.startswith(("team ", "department ")) else None


def _department(above: tuple[Department, ...], department: Department) -> dict[str, str]:
    place = f"department {department.name}"
    found = dict(_fields(place, department, without=_ALLOWANCE))
    found.pop(f"{place}: kueue exists", None)
    if not department.kueue.exists:
        found[f"{place}: kueue cohort"] = "none"
    elif (name := found.pop(f"{place}: kueue name", None)) is not None:
        found[f"{place}: kueue cohort"] = name
    return found | {f"{place}: within": above[-1].name if above else "the top"} | _weight(place, department)


def _team(department: Department, team: Team) -> dict[str, str]:
    place = f"team {team.name}"
    found = dict(_fields(place, team, without=_ALLOWANCE))
    return found | {f"{place}: within": department.name} | _weight(place, team)


def _weight(place: str, holder: Department | Team) -> dict[str, str]:
    weight = holder.allowance.weight
    return {} if weight is None else {f"{place}: weight": str(weight)}


def _fields(place: str, value: object, *, without: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    if is_dataclass(value):
        for field in fields(value):
            if field.name not in without:
                item = getattr(value, field.name)
                is_inline = isinstance(item, Spec) and field.metadata["is_inline"]
                yield from _fields(place if is_inline else _join_place(place, field.name), item)
    elif isinstance(value, Mapping):
        for key, item in sorted(value.items()):
            yield from _fields(_join_place(place, str(key)), item)
    elif value not in (None, (), [], "", frozenset()):
        yield place, _format_value(value)


def _join_place(place: str, key: str) -> str:
    key = key.replace("_", " ")
    return key if not place else f"{place} {key}" if ": " in place else f"{place}: {key}"


def _format_value(value: object) -> str:
    if isinstance(value, tuple | list):
        return ", ".join(_format_value(item) for item in value)
    if isinstance(value, frozenset):
        # In a stable order: two runs write the same report.
        return ", ".join(sorted(_format_value(item) for item in value))
    if is_dataclass(value) or isinstance(value, Mapping):
        return " ".join(text for _, text in _fields("", value))
    return str(value) if not isinstance(value, timedelta) else f"{int(value.total_seconds())} s"
