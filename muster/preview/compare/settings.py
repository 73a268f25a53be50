"""Compares every setting of a stack that is no quota, limit or pool, as flat `path -> text`.

The settings are read from the model's dataclasses,
so a field that the model gains is compared without a change here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import timedelta
from typing import Final, TypeVar

from muster.model.definitions import Spec
from muster.model.quantities import Quantity
from muster.model.queues import Department, Team
from muster.model.stack import Stack
from muster.model.tenancy import Namespaces

# Compares two mappings, key by key.

Key = TypeVar("Key")
Value = TypeVar("Value")


def differing(
    before: Mapping[Key, Value], after: Mapping[Key, Value]
) -> Iterator[tuple[Key, Value | None, Value | None]]:
    """Key, old and new value of everything that differs: first what `after` has, then what only `before` has.
    None is a missing key.
    """
    for name in [*after, *(name for name in before if name not in after)]:
        old, new = before.get(name), after.get(name)
        if old != new:
            yield name, old, new


# These have tables of their own.
_ELSEWHERE: Final = ("pools", "departments")
_ALLOWANCE: Final = ("allowance", "name", "departments", "teams")


@dataclass(frozen=True, slots=True)
class Owner:
    """The team or department that a setting belongs to."""

    kind: str
    name: str


Path = tuple[Owner | None, *tuple[str, ...]]
"""None for the stack's own settings, and the words for the fields down to the value."""


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A setting that is no quota. None where it is not set. `path`: words for the fields below the owner."""

    owner: Owner | None
    path: tuple[str, ...]
    before: str | None
    after: str | None

    @property
    def place(self) -> str:
        """`team vision: kueue stop policy`."""
        if self.owner is not None:
            return f"{self.owner.kind} {self.owner.name}: {' '.join(self.path)}"
        first, *below = self.path
        return f"{first}: {' '.join(below)}" if below else first


def setting_changes(base: Stack | None, head: Stack | None) -> tuple[SettingChange, ...]:
    """Of teams and departments only those that both sides have, and teams without a queue of their own: any
    other new or removed one is listed with its quota.
    """
    if base is None or head is None:
        return ()
    same = unchanged_teams(base, head)
    old, new = _flatten(base, unless=same), _flatten(head, unless=same)
    kept = {owner for owner, *_ in old} & {owner for owner, *_ in new}
    kept |= {Owner("team", team.name) for side in (base, head) for _, team in side.teams() if team.queue}
    return tuple(
        SettingChange(path[0], path[1:], before, after)
        for path, before, after in differing(old, new)
        if path[0] is None or path[0] in kept
    )


def _flatten(stack: Stack, *, unless: frozenset[str]) -> dict[Path, str]:
    """Without the teams named in `unless`."""
    found = dict(_fields((None,), stack, without=_ELSEWHERE))
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


def _department(above: tuple[Department, ...], department: Department) -> dict[Path, str]:
    owner = Owner("department", department.name)
    found = dict(_fields((owner,), department, without=_ALLOWANCE))
    found.pop((owner, "kueue", "exists"), None)
    cohort = found.pop((owner, "kueue", "name"), None) if department.kueue.exists else "none"
    if cohort is not None:
        found[owner, "kueue", "cohort"] = cohort
    return found | _place(owner, department, within=above[-1].name if above else "the top")


def _team(department: Department, team: Team) -> dict[Path, str]:
    owner = Owner("team", team.name)
    return dict(_fields((owner,), team, without=_ALLOWANCE)) | _place(owner, team, within=department.name)


def _place(owner: Owner, holder: Department | Team, *, within: str) -> dict[Path, str]:
    weight = holder.allowance.weight
    found: dict[Path, str] = {(owner, "within"): within}
    return found if weight is None else found | {(owner, "weight"): str(weight)}


def _fields(path: Path, value: object, *, without: tuple[str, ...] = ()) -> Iterator[tuple[Path, str]]:
    if is_dataclass(value) and not isinstance(value, Quantity):
        for field in fields(value):
            if field.name not in without:
                item = getattr(value, field.name)
                is_inline = isinstance(item, Spec) and field.metadata["is_inline"]
                yield from _fields(path if is_inline else (*path, field.name.replace("_", " ")), item)
    elif isinstance(value, Mapping):
        for key, item in sorted(value.items()):
            yield from _fields((*path, str(key).replace("_", " ")), item)
    elif value not in (None, (), [], "", frozenset()):
        yield path, _format_value(value)


def _format_value(value: object) -> str:
    if isinstance(value, tuple | list):
        return ", ".join(_format_value(item) for item in value)
    if isinstance(value, frozenset):
        # In a stable order: two runs write the same report.
        return ", ".join(sorted(_format_value(item) for item in value))
    if not isinstance(value, Quantity) and (is_dataclass(value) or isinstance(value, Mapping)):
        return " ".join(text for _, text in _fields((None,), value))
    return str(value) if not isinstance(value, timedelta) else f"{int(value.total_seconds())} s"


# Compares where teams that stay have their data: namespaces and volumes that a change deletes.


@dataclass(frozen=True, slots=True)
class LostNamespace:
    """A namespace that Muster made for a team, and deletes."""

    team: str
    name: str


@dataclass(frozen=True, slots=True)
class LostVolume:
    """A volume that is deleted in the namespace `before`. `after` is where an empty one of its name is made,
    None where none is.
    """

    team: str
    name: str
    before: str
    after: str | None


def lost_namespaces(base: Stack | None, head: Stack | None) -> tuple[LostNamespace, ...]:
    """Those that their team no longer has. One that another team gets is deleted all the same."""
    return tuple(
        LostNamespace(old.name, name)
        for old, new in _staying(base, head)
        for name in old.namespaces
        if name not in new.namespaces
    )


def lost_volumes(base: Stack | None, head: Stack | None) -> tuple[LostVolume, ...]:
    """Those that are in another namespace, or in none. In a namespace that Muster hands over they stay."""
    is_handed_over = head is not None and head.tenancy.namespaces is Namespaces.EXISTING
    found: list[LostVolume] = []
    for old, new in _staying(base, head):
        places = _places(new)
        found += [
            LostVolume(old.name, name, before, places.get(name))
            for name, before in _places(old).items()
            if places.get(name) != before and not (is_handed_over and before in new.namespaces)
        ]
    return tuple(found)


def _places(team: Team) -> dict[str, str]:
    """Volume -> its namespace."""
    return {each.name: each.namespace or team.namespace for each in team.access.volumes}


def _staying(base: Stack | None, head: Stack | None) -> Iterator[tuple[Team, Team]]:
    """Teams that both sides have, in namespaces that Muster makes."""
    if base is None or head is None or base.tenancy.namespaces is not Namespaces.MANAGED:
        return
    after = {team.name: team for _, team in head.teams()}
    for _, team in base.teams():
        if team.name in after:
            yield team, after[team.name]
