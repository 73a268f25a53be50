"""Inputs as plain values: every leaf with its path, and what a preview does not know yet."""

from collections.abc import Iterator, Mapping
from typing import Any

from muster.provider.provider import UNKNOWN

Inputs = Mapping[str, Any]


def is_known(value: object) -> bool:
    """Whether nothing within the value has still to come from another resource."""
    if isinstance(value, Mapping):
        return all(is_known(each) for each in value.values())
    if isinstance(value, list):
        return all(is_known(each) for each in value)
    return value != UNKNOWN


def get(inputs: Inputs, path: str) -> Any:
    """The value at a dotted path without lists; None where a step is missing or not known yet."""
    here: Any = inputs
    for step in path.split("."):
        if not isinstance(here, Mapping):
            return None
        here = here.get(step)
    return here if is_known(here) else None


def each(inputs: Inputs, path: str) -> list[Any]:
    """The list at a dotted path; empty where there is none."""
    found = get(inputs, path)
    return list(found) if isinstance(found, list) else []


def settled(inputs: Inputs, *paths: str) -> bool:
    """Whether all of these can be judged now: a rule over them says nothing before that."""
    return all(is_known(_raw(inputs, path)) for path in paths)


def _raw(inputs: Inputs, path: str) -> Any:
    here: Any = inputs
    for step in path.split("."):
        if not isinstance(here, Mapping):
            return here if here == UNKNOWN else None
        here = here.get(step)
    return here


def plain(value: Any) -> Any:
    """Whole numbers as integers (the wire knows only floats), and nothing for null."""
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items() if each is not None}
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(path in the engine's notation, value) of everything that is no mapping and no list."""
    if isinstance(value, Mapping) and value:
        for name, below in value.items():
            yield from leaves(below, joined(path, name))
    elif isinstance(value, list) and value:
        for index, below in enumerate(value):
            yield from leaves(below, f"{path}[{index}]")
    else:
        yield path, value


def joined(path: str, name: str) -> str:
    """A path one step down; a name with dots is quoted, as the engine does it."""
    if "." in name or "/" in name:
        return f'{path}["{name}"]'
    return f"{path}.{name}" if path else name
