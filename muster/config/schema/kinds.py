"""The kinds of values of a stack file as JSON Schema, one for each way in which `Section` reads a key."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final

from muster.model.quantities import DURATION_PATTERN, QUANTITY_PATTERN, format_duration

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
    said = _shown(default) if default is not None else otherwise
    whole: Schema = {**kind, "description": f"{sentence}{_DEFAULT}{said}." if said else sentence}
    if default is not None:
        whole["default"] = default
    return whole if example is None else {**whole, "examples": [example]}


def split_description(text: str) -> tuple[str, str]:
    """The sentence and the default of a description that `key` wrote; "" where it names no default."""
    sentence, _, said = text.partition(_DEFAULT)
    return sentence, said.removesuffix(".")


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(_shown, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def text(*, longest: int | None = None) -> Schema:
    return {"type": "string", "minLength": 1} | ({} if longest is None else {"maxLength": longest})


def choice(words: type[StrEnum] | Iterable[str]) -> Schema:
    return {"type": "string", "enum": [str(word) for word in words]}


def integer(*, least: int = 0, most: int = MOST_INTEGER) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most}


def number(*, least: float = 0, most: float = 1e9) -> Schema:
    return {"type": "number", "minimum": least, "maximum": most}


def flag() -> Schema:
    return {"type": "boolean"}


def duration() -> Schema:
    """`45s`, `30m`, `1h30m`."""
    return {"type": "string", "pattern": DURATION_PATTERN, "minLength": 2}


def format_seconds(seconds: int) -> str:
    """A default of the model, as the file has it."""
    return format_duration(timedelta(seconds=seconds))


def quantity() -> Schema:
    """`8`, `1.5`, `500m`, `100Gi`."""
    return {"type": ["number", "string"], "minimum": 0, "pattern": QUANTITY_PATTERN}


def word() -> Schema:
    """A text that other programs take: numbers and booleans of YAML are converted."""
    return {"type": ["string", "number", "boolean"]}


def each(item: Schema, *, least: int = 0) -> Schema:
    """A list."""
    return {"type": "array", "items": item} | ({"minItems": least} if least else {})


def words() -> Schema:
    return each({"type": "string"})


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
