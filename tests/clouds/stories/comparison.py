"""Two objects compared field by field, and a published story as its file describes it.

A file of `published/` lists what a guide tells its reader to apply. Each entry has

    ours         KIND/NAME or KIND/NAMESPACE/NAME of our object in its place
    published    the object, with the guide's values
    differences  path -> why ours differs there on purpose; a path covers everything below it
    given        true for a command line: fields that it leaves out are nobody's and are not compared

and `added` names the objects that only we have, with the reason. A difference that is not listed fails a
test, and so does a listed one that is none.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

_FOLDER: Final = Path(__file__).parent / "published"
# Entries of a list are compared by what names them, not by their place.
_NAMES: Final = ("name", "groupName", "key")

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    ours: str
    published: Json
    differences: Mapping[str, str]
    is_given: bool


@dataclass(frozen=True, slots=True)
class Story:
    name: str
    entries: tuple[Entry, ...]
    added: Mapping[str, str] = field(default_factory=dict)


def story(name: str) -> Story:
    """A published story, with the differences that hold in all of them."""
    common = yaml.safe_load((_FOLDER / "common.yaml").read_text())
    content = yaml.safe_load((_FOLDER / f"{name}.yaml").read_text())
    return Story(name, tuple(_entry(each, common) for each in content["objects"]), content.get("added") or {})


def fields(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf with its path. An empty mapping or list is a leaf."""
    if isinstance(value, Mapping) and value:
        for key, each in value.items():
            yield from fields(each, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value:
        for place, each in enumerate(value):
            yield from fields(each, f"{path}[{_name(each, place)}]")
    else:
        yield path, value


def differing(entry: Entry, ours: Json) -> set[str]:
    """The paths at which ours is not what is published."""
    before, after = dict(fields(entry.published)), dict(fields(ours))
    compared = before.keys() if entry.is_given else before.keys() | after.keys()
    # 10 and "10" are one quantity to Kubernetes.
    return {path for path in compared if _text(before, path) != _text(after, path)}


def unexplained(entry: Entry, ours: Json) -> set[str]:
    return {
        path for path in differing(entry, ours) if not any(_covers(each, path) for each in entry.differences)
    }


def stale(entry: Entry, ours: Json) -> set[str]:
    """Differences that are listed and are none."""
    found = differing(entry, ours)
    return {each for each in entry.differences if not any(_covers(each, path) for path in found)}


def _entry(each: Json, common: Mapping[str, Mapping[str, str]]) -> Entry:
    kind = each["ours"].partition("/")[0]
    is_given = bool(each.get("given"))
    return Entry(
        ours=each["ours"],
        published=each["published"],
        differences={**({} if is_given else common.get(kind, {})), **(each.get("differences") or {})},
        is_given=is_given,
    )


def _covers(listed: str, path: str) -> bool:
    return path == listed or path.startswith((f"{listed}.", f"{listed}["))


def _name(each: Any, place: int) -> str:
    if isinstance(each, Mapping):
        return str(next((each[key] for key in _NAMES if key in each), place))
    return str(place)


def _text(values: Mapping[str, Any], path: str) -> str | None:
    return str(values[path]) if path in values else None
