"""The schema of a section of a stack file whose class declares its keys (model/keys.py)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING
from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, get_args, get_origin

from muster.model.keys import Key, Parameter, SchemaWriter, Seconds, is_named, is_spec, keys
from muster.model.programs import Version
from muster.model.quantities import (
    DURATION_PATTERN,
    QUANTITY_PATTERN,
    Bytes,
    Quantity,
    format_duration,
    format_memory,
)

# The kinds of values of a stack file as JSON Schema, one for each way in which `Section` reads a key.

Schema = dict[str, Any]

_DEFAULT: Final = " Default: "
MOST_INTEGER: Final = 2**31 - 1


def key(
    sentence: str, kind: Schema, *, default: object = None, otherwise: str = "", example: object = None
) -> Schema:
    """A key of a mapping: what it is for, and its default; `otherwise` where only words can express it.

    `example` is a value that a stack may have. Without it the reference shows a word that is not the default,
    or the default, or an example of the keys below (keys.py).
    """
    said = _display(default) if default is not None else otherwise
    whole: Schema = {**kind, "description": f"{sentence}{_DEFAULT}{said}." if said else sentence}
    if default is not None:
        whole["default"] = default
    return whole if example is None else {**whole, "examples": [example]}


def split_description(text: str) -> tuple[str, str]:
    """The sentence and the default of a description that `key` wrote; "" where it names no default."""
    sentence, _, said = text.partition(_DEFAULT)
    return sentence, said.removesuffix(".")


def _display(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(_display, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def text() -> Schema:
    return {"type": "string", "minLength": 1}


def choice(words: type[StrEnum] | Iterable[str]) -> Schema:
    return {"type": "string", "enum": [str(word) for word in words]}


def integer(*, most: int = MOST_INTEGER) -> Schema:
    return {"type": "integer", "minimum": 0, "maximum": most}


def quantity() -> Schema:
    """`8`, `1.5`, `500m`, `100Gi`."""
    return {"type": ["number", "string"], "minimum": 0, "pattern": QUANTITY_PATTERN}


def word() -> Schema:
    """A text that other programs take: numbers and booleans of YAML are converted."""
    return {"type": ["string", "number", "boolean"]}


def array_of(item: Schema, *, least: int = 0) -> Schema:
    """A list."""
    return {"type": "array", "items": item} | ({"minItems": least} if least else {})


def words() -> Schema:
    return array_of({"type": "string"})


def texts() -> Schema:
    return by_name(text())


def by_name(item: Schema) -> Schema:
    """A mapping whose keys are names chosen by the user."""
    return {"type": ["object", "null"], "additionalProperties": item}


def mapping(keys: Mapping[str, Schema], *, required: Sequence[str] = ()) -> Schema:
    """A mapping with these keys and no others. Without a required key it may be left empty."""
    kind: Schema = {"type": "object" if required else ["object", "null"], "properties": dict(keys)}
    if required:
        kind["required"] = list(required)
    return {**kind, "additionalProperties": False}


def either(*kinds: Schema) -> Schema:
    return {"anyOf": list(kinds)}


_BOUNDS: Final = ("enum", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")


def of_definition(schema: Schema) -> Schema:
    """A field of another project's definition (model/definitions.py), with our sentence and example."""
    node: Schema = {word: schema[word] for word in _BOUNDS if word in schema}
    if schema.get("exclusiveMinimum"):
        node["exclusiveMinimum"] = node["minimum"]
    fields = {
        name: of_definition(each)
        for name, each in schema.get("properties", {}).items()
        if "refused" not in each
    }
    others = schema.get("additionalProperties")
    match schema.get("type"):
        case "object" if fields:
            node = mapping(fields, required=schema.get("required", ()))
        case "object":
            is_text = others == {"type": "string"}
            node = by_name(word() if is_text else of_definition(others or {}))
        case "array":
            node |= {"type": "array", "items": of_definition(schema.get("items", {}))}
        case "int-or-string" | "quantity":
            node = quantity()
        case "duration":
            node |= {"type": "string", "pattern": schema["pattern"]}
        case str() as kind:
            node |= {"type": kind, **({"pattern": schema["pattern"]} if "pattern" in schema else {})}
    if "description" not in schema:
        return node
    return key(
        schema["description"], node, otherwise=str(schema.get("default", "")), example=schema.get("example")
    )


def defined(name: str) -> Schema:
    """What `$defs` has by this name."""
    return {"$ref": f"#/$defs/{name}"}


_DURATION: Final[Schema] = {"type": "string", "pattern": DURATION_PATTERN, "minLength": 2}


class _Writer(SchemaWriter):
    scalars: Mapping[Any, Schema] = {
        bool: {"type": "boolean"},
        str: text(),
        int: integer(),
        float: {"type": "number", "minimum": 0, "maximum": 1e9},
        Bytes: quantity(),
        Parameter: {"type": ["string", "integer"], "maxLength": 255},
        Quantity: quantity(),
        Seconds: _DURATION,
        timedelta: _DURATION,
        Version: text(),
    }

    def of_class(self, kind: Any) -> Schema:
        short = getattr(kind, "SHORT", "")
        whole = mapping(
            self.properties(kind), required=[name for key in keys(kind) for name in self._required(key)]
        )
        if not short:
            return whole
        key = next(key for key in keys(kind) if key.name == short)
        return either(self.of_type(key.kind, _numbers(key.bounds)), whole)

    def _required(self, key: Key) -> Sequence[str]:
        if key.metadata["is_inline"]:
            return key.kind.schema().get("required", ()) if is_spec(key.kind) else ()
        return (key.name,) if key.is_required else ()

    def by_name(self, item: Schema) -> Schema:
        return by_name(item)

    def of_type(self, kind: Any, bounds: Mapping[str, Any] = MappingProxyType({})) -> Schema:
        return of_definition(kind.schema()) if is_spec(kind) else super().of_type(kind, bounds)

    def of_item(self, kind: Any) -> Schema:
        # An empty text is one that nobody means: a rule says what is wrong with it.
        return {"type": "string"} if kind is str else self.of_type(kind)

    def properties(
        self, kind: Any, default_texts: Mapping[str, str] = MappingProxyType({})
    ) -> dict[str, Schema]:
        properties: dict[str, Schema] = {}
        children: dict[str, dict[str, Schema]] = {}
        for declaration in keys(kind):
            above, *below = declaration.path
            if declaration.metadata["is_inline"]:
                properties |= (
                    self.of_type(declaration.kind)["properties"]
                    if is_spec(declaration.kind)
                    else self.properties(declaration.kind, declaration.metadata["default_texts"])
                )
            elif below:
                properties.setdefault(above, {})
                children.setdefault(above, {})[declaration.name] = self.of_key(declaration)
            else:
                properties[above] = self.of_key(declaration, default_texts.get(above, ""))
        for above, inner in children.items():
            parent = kind.PARENTS[above]
            section = mapping(inner, required=parent.required)
            properties[above] = key(
                parent.description, section, otherwise=parent.default_text, example=parent.example
            )
        return properties

    def of_key(self, declaration: Key, default_text: str = "") -> Schema:
        """A key: its kind, what it is for, its default, an example."""
        metadata = declaration.metadata
        default_text = default_text or metadata["default_text"]
        described = self._of_value(declaration)
        if not metadata["description"]:
            return described
        return key(
            metadata["description"],
            described,
            default=None if default_text else _shown(declaration),
            otherwise=default_text,
            example=metadata["example"],
        )

    def _of_value(self, key: Key) -> Schema:
        metadata = key.metadata
        if definition := metadata["definition"]:
            reference = defined(definition)
            is_mapping = get_origin(key.kind) is Mapping or is_named(next(iter(get_args(key.kind)), None))
            return by_name(reference) if is_mapping else reference
        if callable(metadata["schema"]):
            written: Schema = metadata["schema"](self)
            return written
        if metadata["schema"] is not None:
            return dict(metadata["schema"])
        return self.of_type(key.kind, _numbers(key.bounds))


def _numbers(bounds: Mapping[str, Any]) -> Mapping[str, Any]:
    """The bounds; a signed number of 32 bits has its own."""
    signed = {"minimum": -(2**31), "maximum": 2**31 - 1}
    return {name: signed[name] if bound is None else bound for name, bound in bounds.items()}


def _shown(key: Key) -> object:
    """The default as a stack file has it; None where there is none to show."""
    default = key.metadata["written_default"] or key.default
    if key.kind in _FORMATS and default not in (None, MISSING):
        return _FORMATS[key.kind](default)
    if isinstance(default, StrEnum):
        return default.value
    if isinstance(default, tuple):
        return [str(item) for item in default] or None
    if default is None or default is MISSING or default == "":
        return None
    return default if isinstance(default, bool | int | float | str) else None


_FORMATS: Final[Mapping[Any, Callable[[Any], str]]] = {
    Bytes: format_memory,
    Seconds: lambda seconds: format_duration(timedelta(seconds=seconds)),
    timedelta: format_duration,
    Version: lambda version: f"{version.major}.{version.minor}",
}
_WRITER: Final = _Writer()


def schema(kind: Any) -> Schema:
    """The section as JSON Schema, its keys in the order of the fields."""
    return _WRITER.of_type(kind)


def properties(kind: Any) -> dict[str, Schema]:
    return _WRITER.properties(kind)
