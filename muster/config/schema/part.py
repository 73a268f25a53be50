"""The JSON Schema of a file that extends another or is extended: any key may be absent or `null`."""

from typing import Any, Final

from muster.config.schema.document import stack_schema
from muster.config.schema.kinds import Schema

# Schemas of keys: each key may be null.
_OF_KEYS: Final = ("properties", "patternProperties")
# Which keys there have to be.
_DROPPED: Final = ("required", "oneOf")
# What an editor shows of a key.
_SHOWN: Final = ("description", "default", "examples")
# No schemas of values.
_KEPT: Final = ("if", "examples", "default", "enum")


def part_schema() -> Schema:
    """The schema of whole stacks without what a file needs to be whole."""
    whole = _part(stack_schema())
    return {**whole, "title": "File of Muster that extends another or is extended", "required": ["config"]}


def _part(node: Any) -> Any:
    if isinstance(node, list):
        return [_part(each) for each in node]
    if not isinstance(node, dict):
        return node
    found = {}
    for name, value in node.items():
        if name in _OF_KEYS:
            found[name] = {key: _nullable(each) for key, each in value.items()}
        elif name == "additionalProperties" and isinstance(value, dict):
            found[name] = _nullable(value)
        elif name in _KEPT:
            found[name] = value
        elif name not in _DROPPED:
            found[name] = _part(value)
    return found


def _nullable(node: Schema) -> Schema:
    part: Schema = _part(node)
    if "type" not in node or "anyOf" in node:
        shown: Schema = {name: part.pop(name) for name in _SHOWN if name in part}
        return {**shown, "anyOf": [part, {"type": "null"}]}
    kinds = [node["type"]] if isinstance(node["type"], str) else node["type"]
    part["type"] = [*kinds, *(() if "null" in kinds else ("null",))]
    return part | ({"enum": [*node["enum"], None]} if "enum" in node else {})
