"""Whether two values of a field of Kueue's API mean the same, however they are written. Pure.

In an amount `9` and "9", 1000m and 1 are one quantity; other text is what it is. An empty map, an empty list
and null are what a missing field is; a toleration without an operator compares its value. In other APIs an
empty map can be the opposite of a missing one: the `namespaceSelector: {}` of a NetworkPolicy's peer.
"""

from collections.abc import Mapping
from typing import Any, Final

from muster.provider.drift import VERBATIM
from muster.provider.quantities import same_amount

# Kueue's fields that are quantities.
_AMOUNTS: Final = frozenset({"nominalQuota", "borrowingLimit", "lendingLimit", "weight"})
_EMPTY: Final[tuple[Any, ...]] = ({}, [], None, "")
# What a field means where it is missing, in every object that has a field of this name.
_DEFAULTS: Final[Mapping[str, Any]] = {"operator": "Equal"}


def same_meaning(one: Any, other: Any, *, field: str = "") -> bool:
    """Whether Kueue would act on both in the same way. `field`: the name under which they are, if any."""
    if _is_empty(one) or _is_empty(other):
        return _is_empty(one) and _is_empty(other)
    if field in VERBATIM:
        return bool(one == other)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return all(same_meaning(_field(one, key), _field(other, key), field=key) for key in {*one, *other})
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_meaning, one, other))
    if field in _AMOUNTS or (_is_number(one) and _is_number(other)):
        return bool(one == other) or same_amount(one, other)
    return bool(one == other and type(one) is type(other))


def is_verbatim(path: str) -> bool:
    """Whether the field at a path is text, in which "1.0" is not "1"."""
    return any(f".{name}" in path for name in VERBATIM)


def _field(body: Mapping[str, Any], key: str) -> Any:
    value = body.get(key)
    return _DEFAULTS.get(key) if value is None else value


def _is_empty(value: Any) -> bool:
    return any(value == each and type(value) is type(each) for each in _EMPTY)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
