"""Compares the Kubernetes objects of a Bundle, field by field.

Manifests are compared key by key (a key is a team, a department or a kind of object) and object by object.
Only the paths of fields are reported, never their values: a manifest may hold a secret.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from muster.live.fields import text as text_at

# At most this many fields of one object are listed.
_MAX_FIELDS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectChange:
    """An object (`ClusterQueue/team-a`) under a key of the Bundle. `places` are the paths of changed
    fields.
    """

    key: str
    name: str
    verb: str
    places: tuple[str, ...] = ()


def compare_manifests(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[ObjectChange]:
    """The changes from one Bundle's manifests to another's, by key and name."""
    for key in sorted({*before, *after}):
        if before.get(key) == after.get(key):
            continue
        old, new = _parse_objects(before.get(key)), _parse_objects(after.get(key))
        if old is None or new is None:  # a secret, or not JSON
            yield ObjectChange(key=key, name="", verb="updated")
            continue
        for name in sorted({*old, *new}):
            verb = "created" if name not in old else "deleted" if name not in new else "updated"
            places = tuple(_changed_fields(old[name], new[name])) if verb == "updated" else ()
            if verb != "updated" or places:
                yield ObjectChange(key=key, name=name, verb=verb, places=places[:_MAX_FIELDS])


def _parse_objects(text: str | None) -> dict[str, object] | None:
    if text is None:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    kind = found.get("kind")
    if isinstance(kind, str):  # one object instead of several by name
        return {f"{kind}/{text_at(found, 'metadata', 'name')}": found}
    return found


def _changed_fields(old: object, new: object, at: str = "") -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from _changed_fields(old.get(key), new.get(key), f"{at}.{key}" if at else key)
    elif isinstance(old, list) and isinstance(new, list) and (names := _by_name(old, new)) is not None:
        one, two = names
        for name in sorted({*one, *two}):
            yield from _changed_fields(one.get(name), two.get(name), f"{at}[{name}]")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one_item, two_item) in enumerate(zip(old, new, strict=True)):
            yield from _changed_fields(one_item, two_item, f"{at}[{index}]")
    elif old != new:
        yield at


def _by_name(
    old: list[object], new: list[object]
) -> tuple[dict[str, dict[str, object]], dict[str, dict[str, object]]] | None:
    """Both lists by name, where every item has one: `flavors[l4].resources[cpu]`. None otherwise."""
    sides = []
    for items in (old, new):
        side = {str(each["name"]): each for each in items if isinstance(each, dict) and "name" in each}
        if len(side) != len(items):
            return None
        sides.append(side)
    return sides[0], sides[1]
