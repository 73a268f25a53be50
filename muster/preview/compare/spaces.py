"""Compares where teams that stay have their data: namespaces and volumes that a change deletes."""

from collections.abc import Iterator
from dataclasses import dataclass

from muster.model.queues import Team
from muster.model.stack import Stack
from muster.model.tenancy import Namespaces


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
