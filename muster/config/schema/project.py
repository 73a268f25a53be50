"""The declaration of a stack's keys in Pulumi.yaml, which the engine checks before the program starts.

    project_config() -> the text below `config:`

The engine knows a type of each key, and no more. A key without a default has to be in every stack file.
"""

import json
from collections.abc import Iterator

from muster.config.document import NAMESPACE
from muster.config.schema.document import stack_schema
from muster.config.schema.keys import Key, stack_keys
from muster.config.schema.writer import Schema


def project_config() -> str:
    schema = stack_schema()["properties"]["config"]["properties"]
    keys = stack_keys()
    lines = [
        line
        for key in keys
        if not key.parent
        for line in _entry(key, schema[f"{NAMESPACE}{key.path}"], _below(key, keys))
    ]
    return "\n".join(lines) + "\n"


def _below(key: Key, keys: tuple[Key, ...]) -> list[str]:
    return list(dict.fromkeys(each.name for each in keys if key.below and each.parent == key.below))


def _entry(key: Key, node: Schema, below: list[str]) -> Iterator[str]:
    kind = "string" if node.get("type") == "string" else "array" if "items" in node else "object"
    yield f"  {NAMESPACE}{key.path}:"
    if "anyOf" in node:
        yield "    # Without a type: it may also be one word."
    else:
        yield f"    type: {kind}"
        if kind == "array":
            yield f"    items: {{type: {node['items']['type']}}}"
    yield f"    description: {json.dumps(_description(key, below))}"
    if not key.required:
        empty = '""' if kind == "string" else "{}"
        yield f"    default: {node.get('default', empty)}"


def _description(key: Key, below: list[str]) -> str:
    words = f" One of: {', '.join(key.allowed)}." if key.allowed else ""
    return key.sentence + words + (f" Keys: {', '.join(below)}." if below else "")
