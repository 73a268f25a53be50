"""Dataclasses that are the only declaration of their fields: schema, reader and writer follow from it.

schema(kind)                      -> its OpenAPI schema, as a custom resource definition has it
Reader(noun).read(kind, value, p) -> the dataclass; what does not fit is noted, and reading goes on
to_json(value)                    -> what a manifest has
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from datetime import timedelta
from enum import StrEnum
from functools import cache
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

from muster.model.durations import DURATION_PATTERN, format_duration, parse_duration
from muster.model.keys import camel_case, is_declared, without_none
from muster.model.quantities import parse_quantity
from muster.model.violations import Violation

Schema = dict[str, Any]
Kind = TypeVar("Kind")
Value = TypeVar("Value")
NAME: Final[Mapping[str, Any]] = {"maxLength": 253}


def declared(
    default: Any = MISSING,
    description: str = "",
    *,
    sparse: bool = False,
    quantities: bool = False,
    **bounds: Any,
) -> Any:
    """Declare a field: its default, its description, and what the schema bounds. `sparse` leaves it out of a
    manifest where it is the default. `quantities`: the values of a mapping are quantities of Kubernetes. A
    mutable default is given as its factory.
    """
    metadata: Mapping[str, Any] = {
        "description": description,
        "sparse": sparse,
        "quantities": quantities,
        "bounds": bounds,
    }
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class _Key:
    """A field by the name that a manifest has. `kind`: its type, without None."""

    name: str
    attribute: str
    kind: Any
    is_optional: bool
    field: Field[Any]

    @property
    def default(self) -> Any:
        """MISSING where it is required."""
        factory = self.field.default_factory
        return self.field.default if factory is MISSING else factory()

    @property
    def metadata(self) -> Mapping[str, Any]:
        return self.field.metadata


@cache
def keys(kind: Any) -> tuple[_Key, ...]:
    """The declared fields of a dataclass, in their order."""
    hints = get_type_hints(kind)
    return tuple(_key(each, hints[each.name]) for each in fields(kind))


def _key(declaration: Field[Any], hint: Any) -> _Key:
    kind, is_optional = without_none(hint)
    return _Key(camel_case(declaration.name), declaration.name, kind, is_optional, declaration)


# Schema


def schema(kind: type) -> Schema:
    """The OpenAPI schema of a dataclass."""
    required = [key.name for key in keys(kind) if key.default is MISSING]
    properties = {key.name: _schema(key) for key in keys(kind)}
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _schema(key: _Key) -> Schema:
    bounds = {**_type(key.kind), **key.metadata["bounds"]}
    described = {"description": key.metadata["description"]}
    described |= {name: bound for name, bound in bounds.items() if bound is not None}
    if key.default is MISSING or key.is_optional:
        return described
    return {**described, "default": {} if is_dataclass(key.kind) else to_json(key.default)}


def _type(kind: Any) -> Schema:
    if is_declared(kind):
        return schema(kind)
    if get_origin(kind) is tuple:
        return {"type": "array", "items": _type(get_args(kind)[0])}
    if get_origin(kind) is Mapping:
        return {"type": "object", "additionalProperties": _type(get_args(kind)[1])}
    if issubclass(kind, StrEnum):
        return {"type": "string", "enum": [each.value for each in kind]}
    return _TYPES[kind]


_TYPES: Final[Mapping[type, Schema]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int32", "minimum": 0, "maximum": 2**31 - 1},
    timedelta: {"type": "string", "pattern": DURATION_PATTERN, "minLength": 2, "maxLength": 20},
}


# Writer


def to_json(value: Any) -> Any:
    """A declared value as a manifest has it: every key written out, but for sparse and optional defaults."""
    if is_dataclass(value):
        kind: Any = type(value)
        attributes = ((key, getattr(value, key.attribute)) for key in keys(kind))
        return {
            key.name: to_json(attribute)
            for key, attribute in attributes
            if not ((key.metadata["sparse"] or key.is_optional) and attribute == key.default)
        }
    if isinstance(value, timedelta):
        return format_duration(value)
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, tuple):
        return [to_json(item) for item in value]
    return dict(sorted(value.items())) if isinstance(value, Mapping) else value


# Reader


class Reader:
    """Reads declared dataclasses from JSON. `mistakes`: what does not fit. `unknown`: keys that are no field
    of `noun`.
    """

    def __init__(self, noun: str) -> None:
        self.noun = noun
        self.mistakes: list[Violation] = []
        self.unknown: list[Violation] = []

    def read(self, kind: Callable[..., Kind], value: object, path: str) -> Kind:
        """The dataclass; a value that does not fit counts as its default."""
        declared_keys = {key.name: key for key in keys(kind)}
        values = self._mapping(value, path)
        fix = f"allowed: {', '.join(declared_keys)}."
        self.unknown += [
            Violation(f"{path}.{name}", f"is not a field of {self.noun}.", fix)
            for name in values
            if name not in declared_keys
        ]
        attributes = {}
        for name, key in declared_keys.items():
            if name in values:
                attributes[key.attribute] = self._value(key, values[name], f"{path}.{name}")
            elif key.default is MISSING:
                attributes[key.attribute] = _EMPTY[key.kind]
        return kind(**attributes)

    def _value(self, key: _Key, value: object, path: str) -> Any:
        if value is None and (key.is_optional or key.kind is timedelta):
            return key.default
        if key.metadata["quantities"]:
            values = self._mapping(value, path)
            return {
                name: str(item) for name, item in values.items() if self._is_quantity(item, f"{path}.{name}")
            }
        return self._of(key.kind, value, path, key.default)

    def _of(self, kind: Any, value: object, path: str, default: Any) -> Any:
        if is_declared(kind):
            return self.read(kind, value, path)
        if get_origin(kind) is tuple:
            return self._items(get_args(kind)[0], value, path)
        if get_origin(kind) is Mapping:
            values = self._mapping(value, path)
            return {name: item for name, item in values.items() if self._is_text(item, f"{path}.{name}")}
        if issubclass(kind, StrEnum):
            return self._tried(
                kind, value, path, f"{value!r} is unknown", f"write {' or '.join(kind)}", default
            )
        if kind is timedelta:
            return self._duration(value, path, default)
        if type(value) is kind:
            return value
        what, fix = _WORDS[kind]
        return self._note(path, f"{value!r} {what}", fix.format(default or 1), default)

    def _items(self, kind: Any, value: object, path: str) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            return self._note(path, f"{value!r} is not a list", "write a list, [] for none", ())
        if is_declared(kind):
            return tuple(self.read(kind, item, f"{path}[{index}]") for index, item in enumerate(value))
        for item in value:
            if not isinstance(item, str):
                self._note(
                    path, f"{item!r} is not a resource's name", "write a name such as nvidia.com/gpu", ""
                )
        return tuple(item for item in value if isinstance(item, str))

    def _is_text(self, value: object, path: str) -> bool:
        if isinstance(value, str) and len(value) <= 255:
            return True
        return self._note(
            path, f"{value!r} is not a text of at most 255 characters", "put it in quotes", False
        )

    def _is_quantity(self, value: object, path: str) -> bool:
        try:
            parse_quantity(str(value))
        except ValueError as error:
            return self._note(path, str(error), "write a quantity", False)
        return True

    def _duration(self, value: object, path: str, default: timedelta) -> timedelta:
        try:
            return parse_duration(value if isinstance(value, str) else repr(value))
        except ValueError as error:
            return self._note(
                path, str(error), "write hours, minutes and seconds in this order: 1h30m, 45s", default
            )

    def _tried(
        self, read: Callable[[str], Any], value: object, path: str, what: str, fix: str, default: Any
    ) -> Any:
        try:
            return read(str(value))
        except ValueError:
            return self._note(path, what, fix, default)

    def _mapping(self, value: object, path: str) -> Mapping[str, Any]:
        if isinstance(value, Mapping):
            return {str(key): item for key, item in value.items()}
        return self._note(path, f"{value!r} is not a mapping", "write key: value pairs", {})

    def _note(self, path: str, message: str, fix: str, instead: Value) -> Value:
        self.mistakes.append(Violation(path, f"{message}.", f"{fix}."))
        return instead


_EMPTY: Final[Mapping[type, Any]] = {str: "", bool: False, int: 0}
_WORDS: Final[Mapping[type, tuple[str, str]]] = {
    str: ("is not a text", "put it in quotes"),
    bool: ("is neither true nor false", "write true or false"),
    int: ("is not a whole number", "write a number such as {}"),
}
