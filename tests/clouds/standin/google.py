"""Google's discovery documents, as google-api-python-client ships them.

Format: https://developers.google.com/discovery/v1/reference/apis
"""

import functools
import json
from importlib import resources
from typing import Any, Final

from tests.clouds.standin.definition import ApiField, Kind, NoSuchField

# A google-duration in JSON: https://protobuf.dev/programming-guides/json/#field-representation
_FORMATS: Final = {
    "google-duration": r"^-?\d+(\.\d{1,9})?s$",
    "google-datetime": r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?Z$",
    "int64": r"^-?\d+$",
}
_KINDS: Final[dict[str, Kind]] = {
    "string": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "any": "any",
}


@functools.cache
def document(api: str) -> dict[str, Any]:
    """`container.v1` -> the document."""
    folder = resources.files("googleapiclient") / "discovery_cache" / "documents"
    found: dict[str, Any] = json.loads((folder / f"{api}.json").read_text())
    return found


def field(api: str, schema: str, path: str) -> ApiField:
    """The field at a dotted path of a schema; lists and maps are stepped through."""
    schemas = document(api)["schemas"]
    if schema not in schemas:
        raise NoSuchField(f"{api} has no schema {schema}")
    here: dict[str, Any] = schemas[schema]
    deprecated = False
    for step in path.split("."):
        here = _resolved(schemas, here)
        if "additionalProperties" in here:
            here = _resolved(schemas, here["additionalProperties"])
        if step not in here.get("properties", {}):
            raise NoSuchField(f"{api} {here.get('id', schema)} has no field {step} ({path})")
        here = here["properties"][step]
        deprecated |= here.get("deprecated", False)
    return _field(f"{api} {schema}.{path}", _resolved(schemas, here), deprecated)


def _resolved(schemas: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in node or node.get("type") == "array":
        node = schemas[node["$ref"]] if "$ref" in node else node["items"]
    return node


def _field(source: str, node: dict[str, Any], deprecated: bool) -> ApiField:
    if node.get("type") == "object":
        kind: Kind = "map" if "additionalProperties" in node else "object"
        return ApiField(source=source, kind=kind, deprecated=deprecated)
    kind, words = _KINDS[node["type"]], node.get("enum", ())
    if node.get("format") in ("int64", "uint64"):
        kind = "integer"
    pattern = node.get("pattern") or _FORMATS.get(node.get("format", ""))
    return ApiField(
        source=source,
        kind=kind,
        choices=frozenset(words),
        pattern=pattern if kind == "string" else None,
        deprecated=deprecated,
        deprecated_choices=frozenset(
            word for word, is_old in zip(words, node.get("enumDeprecated", ()), strict=False) if is_old
        ),
    )
