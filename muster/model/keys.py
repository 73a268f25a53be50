"""Dataclasses that are the only declaration of their keys: reader, writer and schemas follow from the fields.

    topology: str | None = declared("How the chips are connected.", None, default_text="that of one node")

    read(kind, section) -> the object of a section of a stack file, or of a custom resource
    to_json(value)      -> what a manifest has
    SchemaWriter        -> its schema: of a custom resource in crds.py, of a stack in muster/config/schema

A class may also say, as class attributes or static methods:

    PARENTS   the keys above dotted ones: key -> Parent
    REFUSED   keys that are refused: key -> message and fix
    SHORT     the key whose value may stand in place of the whole section
    complete  (section, values) -> the values with what follows from them, None where they make no object
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from datetime import timedelta
from enum import StrEnum
from functools import cache, cached_property
from types import MappingProxyType
from typing import (
    Annotated,
    Any,
    Final,
    NewType,
    TypeAlias,
    TypeGuard,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from muster.model import definitions
from muster.model.definitions import Spec
from muster.model.quantities import Bytes, Quantity, format_duration
from muster.model.section import Section, describe_value

Schema = dict[str, Any]
Kind = TypeVar("Kind")
Seconds = NewType("Seconds", int)
"""Written as a duration: 45s, 30m, 1h30m."""
ParameterText: TypeAlias = Annotated[str, "text of a parameter"]
"""A text of at most 255 characters, which may be empty."""
Parameter: TypeAlias = Annotated[str, "parameter"]
"""The same in a stack file: whole numbers of YAML are converted."""
QuantityText: TypeAlias = Annotated[str, "quantity"]
"""A quantity of Kubernetes, as it is written."""
ANY_INTEGER: Final[Mapping[str, Any]] = MappingProxyType({"minimum": None, "maximum": None})
"""Bounds of a signed number of 32 bits that nothing bounds further."""
_NUMERIC: Final = ("minimum", "maximum")
_LEAST_INTEGER: Final = -(2**31)
_MOST_INTEGER: Final = 2**31 - 1


def declared(
    description: str,
    default: Any = MISSING,
    *,
    factory: Callable[[], Any] = lambda: MappingProxyType({}),
    key: str = "",
    default_text: str = "",
    example: object = None,
    definition: str = "",
    noun: str = "",
    fix: str = "",
    is_inline: bool = False,
    default_texts: Mapping[str, str] = MappingProxyType({}),
    is_derived: bool = False,
    is_sparse: bool = False,
    written_default: StrEnum | None = None,
    read: Callable[[Section, str], Any] | None = None,
    schema: Schema | Callable[["SchemaWriter"], Schema] | None = None,
    **bounds: Any,
) -> Any:
    """Declare a field. Without a `default` it is required; `{}` is the default that `factory` makes,
    an empty mapping.

    `key`: where it is not the field's name in camel case, with a dot for a key below another.
    `default_text`: where only words can express the default. `definition`: the name of its schema, where
    other keys refer to the same. `noun`: what a word of a list is, by which a mistake names it. `fix`: what
    to write in place of a list that is missing, none, or no list. `is_inline`: its keys are in the section
    itself, and `default_texts` are theirs here. `is_derived`: where it is absent, `complete` gives it.
    `is_sparse`: a manifest has it only where it is not the default. `bounds`: keywords of JSON Schema, such
    as `minimum`.

    `written_default`: the word of a stack file for a default that is None.

    A value that has a form of its own has its reader, which takes the section and the key, in `read`, and the
    schema in `schema`, which may be a function of the schema's writer.
    """
    metadata: Mapping[str, Any] = {
        "description": description,
        "default_text": default_text,
        "example": example,
        "definition": definition,
        "noun": noun,
        "fix": fix,
        "is_inline": is_inline,
        "default_texts": default_texts,
        "is_derived": is_derived,
        "is_sparse": is_sparse,
        "written_default": written_default,
        "read": read,
        "schema": schema,
        "bounds": bounds,
        # Without one it is the field's name in camel case (validation/paths.py).
        **({"key": "" if is_inline else key} if key or is_inline else {}),
    }
    if default == {}:
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class Parent:
    """A key above dotted ones. `required`: those of them that it needs."""

    description: str
    default_text: str = ""
    example: object = None
    required: tuple[str, ...] = ()


@dataclass(frozen=True)
class Key:
    """A declared key. `path`: its name, after that of the key above it where it has a dotted name. `kind`:
    its type, without None. `default`: MISSING where it is required.
    """

    attribute: str
    path: tuple[str, ...]
    kind: Any
    is_optional: bool
    default: Any
    metadata: Mapping[str, Any]

    @cached_property
    def name(self) -> str:
        return self.path[-1]

    @cached_property
    def is_required(self) -> bool:
        return self.default is MISSING and not self.metadata["is_derived"]

    @cached_property
    def absent(self) -> Any:
        """The value of an absent key: the default, or what `complete` replaces."""
        if self.default is not MISSING:
            return self.default
        return () if _origin(self.kind) is tuple else None

    @cached_property
    def is_plain(self) -> bool:
        """Whether nothing but its value says what it is: absent, it is `absent`."""
        is_mapping = is_spec(self.kind) or (_origin(self.kind) is Mapping and not self.is_optional)
        has_parts = is_declared(self.kind) or is_mapping
        return not (has_parts or self.metadata["is_inline"] or self.metadata["read"] is not None)

    @cached_property
    def bounds(self) -> Mapping[str, Any]:
        bounds: Mapping[str, Any] = self.metadata["bounds"]
        return bounds


@cache
def keys(kind: Any) -> tuple[Key, ...]:
    """The declared keys of a class, in the order of its fields."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(_key(each, hints[each.name]) for each in fields(kind) if "description" in each.metadata)


def _key(declaration: Field[Any], hint: Any) -> Key:
    name = declaration.metadata.get("key") or camel_case(declaration.name)
    kinds = [kind for kind in get_args(hint) if kind is not type(None)]
    is_optional = type(None) in get_args(hint)
    kind = kinds[0] if is_optional else hint
    return Key(
        attribute=declaration.name,
        path=tuple(name.split(".")),
        kind=_origin(kind) if is_declared(_origin(kind)) else kind,
        is_optional=is_optional,
        default=declaration.default if declaration.default_factory is MISSING else {},
        metadata=declaration.metadata,
    )


def camel_case(name: str) -> str:
    """The key of a field that has no other: `max_nodes` is `maxNodes`."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


@cache
def _origin(kind: Any) -> Any:
    return get_origin(kind)


@cache
def is_declared(kind: object) -> TypeGuard[type[Any]]:
    """Whether a type is a dataclass whose fields are declared."""
    return is_dataclass(kind) and any("description" in each.metadata for each in fields(kind))


@cache
def is_spec(kind: object) -> TypeGuard[type[Spec]]:
    """Whether a type is a section in another project's words."""
    return isinstance(kind, type) and issubclass(kind, Spec)


@cache
def is_named(kind: Any) -> bool:
    """Whether the entries of a mapping become objects with the names of their keys."""
    return is_declared(kind) and any(
        each.name == "name" and "description" not in each.metadata for each in fields(kind)
    )


# Schemas


class SchemaWriter(ABC):
    """Writes the schema of declared classes. A subclass is one dialect of JSON Schema."""

    scalars: Mapping[Any, Schema]

    @abstractmethod
    def of_class(self, kind: Any) -> Schema:
        """The schema of the mapping that a class is read from."""

    @abstractmethod
    def by_name(self, item: Schema) -> Schema:
        """The schema of a mapping whose keys are names."""

    def of_type(self, kind: Any, bounds: Mapping[str, Any] = MappingProxyType({})) -> Schema:
        """The schema of a type. Bounds of numbers are those of the numbers in a list or mapping."""
        numeric = {name: bound for name, bound in bounds.items() if name in _NUMERIC}
        other = {name: bound for name, bound in bounds.items() if name not in _NUMERIC}
        if is_declared(kind):
            return self.of_class(kind)
        if _origin(kind) is Mapping:
            return self.by_name(self.of_type(get_args(kind)[1], numeric)) | other
        if _origin(kind) is tuple:
            item = self.of_item(get_args(kind)[0])
            whole = self.by_name(item) if is_named(get_args(kind)[0]) else {"type": "array", "items": item}
            return whole | other
        if isinstance(kind, type) and issubclass(kind, StrEnum):
            return {"type": "string", "enum": [each.value for each in kind]}
        return {**self.scalars[kind], **bounds}

    def of_item(self, kind: Any) -> Schema:
        """The schema of an item of a list."""
        return self.of_type(kind)


# Writer


def to_json(value: Any) -> Any:
    """A declared value as a manifest has it: every key written out, but for sparse and optional defaults."""
    if is_dataclass(value):
        kind: Any = type(value)
        attributes = ((key, getattr(value, key.attribute)) for key in keys(kind))
        return {
            key.name: to_json(attribute)
            for key, attribute in attributes
            if not ((key.metadata["is_sparse"] or key.is_optional) and attribute == key.default)
        }
    if isinstance(value, timedelta):
        return format_duration(value)
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, tuple):
        return [to_json(item) for item in value]
    if isinstance(value, Mapping):
        return {name: to_json(item) for name, item in sorted(value.items())}
    return value


# Reader


def read(kind: Callable[..., Kind], section: Section, /, **given: Any) -> Kind | None:
    """The section's object; None where a required key is missing, which is noted. `given`: fields that are no
    keys, such as its name, and those that were read already.
    """
    values, holders = _values(kind, section, given)
    for name, (message, fix) in getattr(kind, "REFUSED", {}).items():
        if section.has(name):
            section.note(name, message, fix)
    complete = getattr(kind, "complete", None)
    completed = values if complete is None else complete(section, values)
    for holder in holders:
        holder.close()
    is_whole = completed is not None and all(
        completed[key.attribute] is not None for key in keys(kind) if key.is_required
    )
    return kind(**completed) if is_whole else None


def read_part(kind: Callable[..., Kind], section: Section, /, **given: Any) -> Kind:
    """The object of keys that are in a section with others, none of which is required."""
    values, _ = _values(kind, section, given)
    return kind(**values)


def _values(
    kind: Any, section: Section, given: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[Section, ...]]:
    """The values of the fields, and the sections that they are in."""
    values = dict(given)
    parents: dict[str, Section] = {}
    for key in keys(kind):
        if key.attribute in given:
            continue
        above, *below = key.path
        holder, is_required = section, key.is_required
        if below:
            holder = parents[above] if above in parents else section.section(above)
            parents[above] = holder
            is_required = section.has(above) and key.name in kind.PARENTS[above].required
        if key.is_plain and not is_required and holder.get(key.name) is None:
            values[key.attribute] = key.absent
        else:
            values[key.attribute] = _read_key(key, holder, is_required=is_required)
    return values, (*parents.values(), section)


def _read_key(key: Key, section: Section, *, is_required: bool) -> Any:
    kind, bounds = key.kind, key.bounds
    if key.metadata["read"] is not None:
        return key.metadata["read"](section, key.name)
    if key.metadata["is_inline"]:
        return definitions.read_spec(kind, section) if is_spec(kind) else read_part(kind, section)
    is_absent = section.get(key.name) is None
    if is_declared(kind):
        if key.default is None and is_absent:
            return None
        entry = read_entry(kind, section, key.name)
        return entry if entry is not None or is_required else key.default
    if _origin(kind) is tuple:
        return _items(get_args(kind)[0], section, key)
    if _origin(kind) is Mapping:
        return key.default if is_absent and key.is_optional else _by_name(kind, section, key)
    instead = MISSING if is_required else key.metadata["written_default"] or key.absent
    value = _scalar(kind, section, key.name, instead, bounds)
    return key.absent if value is None and not is_required else value


def read_entry(kind: Any, section: Section, name: str, /, **given: Any) -> Any:
    """The object that a key has: from a mapping, or from a value in place of it."""
    value = section.get(name)
    short = getattr(kind, "SHORT", "")
    if short and not isinstance(value, Mapping):
        key = next(key for key in keys(kind) if key.name == short)
        is_word = isinstance(key.kind, type) and issubclass(key.kind, StrEnum)
        if isinstance(value, str | bool) or (not is_word and (value is not None or key.is_required)):
            value = _scalar(key.kind, section, name, key.default, key.bounds)
            return None if value is None else kind(**given, **{key.attribute: value})
    return read(kind, section.section(name), **given)


def _items(kind: Any, section: Section, key: Key) -> tuple[Any, ...]:
    if is_named(kind):
        entries = section.section(key.name)
        named = [read_entry(kind, entries, name, name=name) for name in entries.names()]
        return tuple(item for item in named if item is not None)
    if is_declared(kind):
        return section.list(
            key.name, lambda item: read(kind, item), fix=key.metadata["fix"], is_required=key.is_required
        )
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return section.choices(key.name, kind, noun=key.metadata["noun"])
    return section.words(key.name)


def _by_name(kind: Any, section: Section, key: Key) -> Mapping[str, Any]:
    entry = get_args(kind)[1]
    if entry is str:
        return section.texts(key.name)
    entries = section.section(key.name)
    is_word = isinstance(entry, type) and issubclass(entry, StrEnum)
    values = {
        name: read_entry(entry, entries, name)
        if is_declared(entry)
        else _scalar(entry, entries, name, MISSING if is_word else None, key.bounds)
        for name in entries.names()
    }
    return MappingProxyType({name: value for name, value in values.items() if value is not None})


def _scalar(kind: Any, section: Section, name: str, default: Any, bounds: Mapping[str, Any]) -> Any:
    if kind is str:
        if section.get(name) == "" and "maxLength" in bounds and "minLength" not in bounds:
            return ""
        return section.text(name, required=default is MISSING)
    if kind is bool:
        return section.flag(name, default is not False)
    if kind is float:
        return section.number(name, least=bounds.get("minimum", 0), most=bounds.get("maximum", 1e9))
    if kind is int:
        least, most = bounds.get("minimum", 0), bounds.get("maximum", _MOST_INTEGER)
        least, most = (_LEAST_INTEGER if least is None else least), (_MOST_INTEGER if most is None else most)
        instead = None if default is MISSING else max(least, 0) if default is None else default
        return section.integer(name, instead, least=least, most=most)
    if is_spec(kind):
        return kind.read(section, name)
    if kind is Seconds:
        return section.duration(name, 0 if default in (None, MISSING) else default)
    if kind is timedelta:
        return timedelta(seconds=section.duration(name, int(default / timedelta(seconds=1))))
    if kind in _READERS:
        return _READERS[kind](section, name)
    return section.choice(name, kind, None if default is MISSING else default or next(iter(kind)))


def _parameter(section: Section, name: str) -> str | None:
    value = section.get(name)
    return _parameter_text(section, name, str(value) if type(value) is int else value)


def _parameter_text(section: Section, name: str, written: object = None) -> str | None:
    value = section.get(name)
    text = value if written is None else written
    if isinstance(text, str) and len(text) <= 255:
        return text
    message = f"must be a text of at most 255 characters, is {describe_value(value)}."
    section.note(name, message, "put it in quotes; the API takes at most 255 characters.")
    return None


def _quantity_text(section: Section, name: str) -> str | None:
    return None if section.quantity(name) is None else str(section.get(name))


_READERS: Final[Mapping[Any, Callable[[Section, str], Any]]] = {
    Bytes: Section.memory,
    Parameter: _parameter,
    ParameterText: _parameter_text,
    Quantity: Section.quantity,
    QuantityText: _quantity_text,
}
