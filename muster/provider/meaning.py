"""Whether two values of a field mean the same, however they are written. Pure.

`9` and "9", 1000m and 1 are one quantity; an empty map, an empty list and null are what a missing field is;
a toleration without an operator compares its value.
"""

from collections.abc import Mapping
from typing import Any, Final

from muster.provider.drift import VERBATIM
from muster.provider.quantities import same_amount

_EMPTY: Final[tuple[Any, ...]] = ({}, [], None, "")
# What a field means where it is missing, in every object that has a field of this name.
_DEFAULTS: Final[Mapping[str, Any]] = {"operator": "Equal"}


def same_meaning(one: Any, other: Any) -> bool:
    """Whether the API server would act on both in the same way."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return all(_same_field(key, _field(one, key), _field(other, key)) for key in {*one, *other})
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_meaning, one, other))
    if _is_empty(one) or _is_empty(other):
        return _is_empty(one) and _is_empty(other)
    return bool(one == other and type(one) is type(other)) or same_amount(one, other)


def is_verbatim(path: str) -> bool:
    """Whether the field at a path is text, in which "1.0" is not "1"."""
    return any(f".{name}" in path for name in VERBATIM)


def _same_field(key: str, one: Any, other: Any) -> bool:
    return bool(one == other) if key in VERBATIM else same_meaning(one, other)


def _field(body: Mapping[str, Any], key: str) -> Any:
    value = body.get(key)
    return _DEFAULTS.get(key) if value is None else value


def _is_empty(value: Any) -> bool:
    return any(value == each and type(value) is type(each) for each in _EMPTY)
