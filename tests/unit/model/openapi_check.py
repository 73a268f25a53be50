"""Checks an object against the OpenAPI schema of its CRD, as the API server would, but for CEL rules.

Unknown fields are mistakes: the API server would drop them silently.
"""

import re
from collections.abc import Iterator
from typing import Any

_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
}
_METADATA = {"apiVersion", "kind", "metadata"}


def mistakes(value: Any, schema: dict[str, Any], path: str = "") -> list[str]:
    """Everything that the schema refuses in `value`."""
    return list(_check(value, schema, path))


def _check(value: Any, schema: dict[str, Any], path: str) -> Iterator[str]:
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, int | str):
            yield f"{path}: {value!r} is neither a number nor a text"
        elif isinstance(value, str):
            yield from _text(value, schema, path)
        return
    expected = schema.get("type")
    if expected and (
        not isinstance(value, _TYPES[expected]) or (expected == "integer" and isinstance(value, bool))
    ):
        yield f"{path}: {value!r} is no {expected}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is none of {schema['enum']}"
    if isinstance(value, dict):
        yield from _object(value, schema, path)
    elif isinstance(value, list):
        yield from _array(value, schema, path)
    elif isinstance(value, str):
        yield from _text(value, schema, path)
    elif not isinstance(value, bool) and not schema.get("minimum", value) <= value <= schema.get(
        "maximum", value
    ):
        yield f"{path}: {value} is out of range"


def _object(value: dict[str, Any], schema: dict[str, Any], path: str) -> Iterator[str]:
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties")
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{path}.{name}: is required"
    if len(value) > schema.get("maxProperties", len(value)):
        yield f"{path}: has more than {schema['maxProperties']} keys"
    for name, item in value.items():
        if path == "" and name in _METADATA:
            continue
        if name in properties:
            yield from _check(item, properties[name], f"{path}.{name}")
        elif isinstance(others, dict):
            yield from _check(item, others, f"{path}.{name}")
        elif not schema.get("x-kubernetes-preserve-unknown-fields") and others is not True:
            yield f"{path}.{name}: is unknown"


def _array(value: list[Any], schema: dict[str, Any], path: str) -> Iterator[str]:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        yield f"{path}: has {len(value)} items"
    keys = schema.get("x-kubernetes-list-map-keys")
    if keys and len({tuple(item.get(key) for key in keys) for item in value}) < len(value):
        yield f"{path}: has two items of one {keys}"
    for index, item in enumerate(value):
        yield from _check(item, schema.get("items", {}), f"{path}[{index}]")


def _text(value: str, schema: dict[str, Any], path: str) -> Iterator[str]:
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        yield f"{path}: {value!r} has a wrong length"
    # Go takes flags anywhere in a pattern, Python at its beginning alone.
    pattern = re.sub(r"^\^\(\?i\)", "(?i)^", schema.get("pattern", ""))
    if not re.search(pattern, value):
        yield f"{path}: {value!r} does not match {schema['pattern']}"
