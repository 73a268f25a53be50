"""Dataclasses as JSON, and back.

Both directions follow the types of the fields, so that a new field needs no change here. Known types are
text, numbers, datetimes, enumerations, and tuples, mappings and dataclasses of these.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import datetime
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

D = TypeVar("D")


class MisfitError(Exception):
    """A value whose type does not fit its field. The message names the place."""


def to_json(value: object, *, omits_defaults: bool = False) -> Any:
    """What `json.dumps` takes. `omits_defaults`: leave out fields that have their default value."""
    if is_dataclass(value):
        return {
            each.name: to_json(found, omits_defaults=omits_defaults)
            for each in fields(value)
            if not ((found := getattr(value, each.name)) == _default(each) and omits_defaults)
        }
    if isinstance(value, Mapping):
        return {str(key): to_json(each, omits_defaults=omits_defaults) for key, each in sorted(value.items())}
    if isinstance(value, tuple):
        return [to_json(each, omits_defaults=omits_defaults) for each in value]
    return value.isoformat() if isinstance(value, datetime) else value


def from_json(kind: type[D], value: object, place: str) -> D:
    """The dataclass of this kind; MisfitError where the value does not fit. `place` is its name in errors."""
    read = _parse_value(kind, value, place)
    assert isinstance(read, kind)
    return read


def _default(field: Field[Any]) -> object:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default


_hints = cache(get_type_hints)


@cache
def _generic(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """What a type such as `tuple[int, ...]` is of, and what is in it."""
    return get_origin(kind), get_args(kind)


def _parse_value(kind: Any, value: object, place: str) -> object:
    if isinstance(kind, type) and is_dataclass(kind):
        return _parse_record(kind, value, place)
    origin, inner = _generic(kind)
    if origin is tuple and isinstance(value, list):
        return tuple(_parse_value(inner[0], each, f"{place}[{index}]") for index, each in enumerate(value))
    if origin is Mapping and isinstance(value, dict):
        return {key: _parse_value(inner[1], each, f"{place}.{key}") for key, each in value.items()}
    if origin is UnionType:
        if value is None and NoneType in inner:
            return None
        return _parse_value(next(each for each in inner if each is not NoneType), value, place)
    return _parse_scalar(kind, value, place)


def _parse_record(kind: Callable[..., object], value: object, place: str) -> object:
    hints = _hints(kind)
    if not isinstance(value, dict) or not value.keys() <= hints.keys():
        raise MisfitError(f"{place}: expected {_type_name(kind)}.")
    try:
        return kind(**{key: _parse_value(hints[key], each, f"{place}.{key}") for key, each in value.items()})
    except TypeError:
        raise MisfitError(f"{place}: a required field of {_type_name(kind)} is missing.") from None


def _parse_scalar(kind: Any, value: object, place: str) -> object:
    try:
        if kind is datetime and isinstance(value, str) and (read := datetime.fromisoformat(value)).tzinfo:
            return read
        if kind is float and type(value) is int:
            return float(value)
        if type(value) in (kind, str) and type(value) in kind.__mro__:
            return kind(value)
    except (ValueError, OverflowError):
        pass
    raise MisfitError(f"{place}: expected {_type_name(kind)}.")


def _type_name(kind: object) -> str:
    return getattr(kind, "__name__", str(kind))
