"""The schema of a section whose class declares its keys (model/keys.py)."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from enum import StrEnum
from functools import cache
from typing import Any, Final, get_args, get_origin, get_type_hints

from muster.config.schema import kinds
from muster.config.schema.kinds import Schema
from muster.model.keys import PARENTS, Seconds, Word, camel_case, is_declared, without_none
from muster.model.quantities import Bytes


@dataclass(frozen=True, slots=True)
class Key:
    """A declared key. `path`: its name, after that of the key above it where it has a dotted name. `kind`:
    its type, without None. `default`: MISSING where it is required.
    """

    attribute: str
    path: tuple[str, ...]
    kind: Any
    default: Any
    metadata: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.path[-1]

    @property
    def is_required(self) -> bool:
        return self.default is MISSING


@cache
def keys(kind: Any) -> tuple[Key, ...]:
    """The declared keys of a class, in the order of its fields."""
    hints = get_type_hints(kind)
    return tuple(_key(each, hints[each.name]) for each in fields(kind) if "description" in each.metadata)


def _key(declaration: Field[Any], hint: Any) -> Key:
    name = declaration.metadata.get("key") or camel_case(declaration.name)
    kind, _ = without_none(hint)
    return Key(
        attribute=declaration.name,
        path=tuple(name.split(".")),
        kind=kind,
        default=declaration.default if declaration.default_factory is MISSING else {},
        metadata=declaration.metadata,
    )


def is_named(kind: type[Any]) -> bool:
    """Whether the entries of a mapping become objects with the names of their keys."""
    return any(each.name == "name" for each in fields(kind))


def schema(kind: Any) -> Schema:
    """The section as JSON Schema, its keys in the order of the fields."""
    properties: dict[str, Schema] = {}
    children: dict[str, dict[str, Schema]] = {}
    for key in keys(kind):
        parent, *below = key.path
        if below:
            properties.setdefault(parent, {})
            children.setdefault(parent, {})[key.name] = _property(key)
        else:
            properties[parent] = _property(key)
    for parent, inner in children.items():
        properties[parent] = kinds.key(getattr(kind, PARENTS)[parent], kinds.mapping(inner))
    return kinds.mapping(properties, required=[key.name for key in keys(kind) if key.is_required])


def _property(key: Key) -> Schema:
    metadata, default = key.metadata, key.default
    is_shown = isinstance(default, bool | int | float | str) and not metadata["default_text"]
    return kinds.key(
        metadata["description"],
        _schema(key.kind, metadata["bounds"], metadata["definition"]),
        default=(default.value if isinstance(default, StrEnum) else default) if is_shown else None,
        otherwise=metadata["default_text"],
        example=metadata["example"],
    )


def _schema(kind: Any, bounds: Mapping[str, Any], definition: str = "") -> Schema:
    if definition:
        reference = kinds.defined(definition)
        return kinds.by_name(reference) if get_origin(kind) is Mapping else reference
    if is_declared(kind):
        return schema(kind)
    if get_origin(kind) is Mapping:
        return kinds.by_name(_schema(get_args(kind)[1], bounds))
    if get_origin(kind) is tuple:
        (item, *_) = get_args(kind)
        inner = _schema(item, bounds)
        return kinds.by_name(inner) if is_named(item) else kinds.each(inner, least=1)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return kinds.choice(kind)
    return _SCHEMAS[kind](**bounds)


_SCHEMAS: Final[Mapping[Any, Callable[..., Schema]]] = {
    bool: kinds.flag,
    str: kinds.text,
    int: kinds.integer,
    float: kinds.number,
    Bytes: kinds.quantity,
    Seconds: kinds.duration,
    Word: kinds.word,
}
