"""Compares two mappings, key by key."""

from collections.abc import Iterator, Mapping
from typing import TypeVar

Value = TypeVar("Value")


def differing(
    before: Mapping[str, Value], after: Mapping[str, Value]
) -> Iterator[tuple[str, Value | None, Value | None]]:
    """Key, old and new value of everything that differs: first what `after` has, then what only `before` has.
    None is a missing key.
    """
    for name in [*after, *(name for name in before if name not in after)]:
        old, new = before.get(name), after.get(name)
        if old != new:
            yield name, old, new
