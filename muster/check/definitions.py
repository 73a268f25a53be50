"""The fields of what members may create, compared as the API server and kubectl do: names, types, enums.

The data are those of the pinned KubeRay and Kubernetes (tests/definitions.py writes them). Rules between
fields are the policies'.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from muster.model.nearest import meant

Json = dict[str, Any]
FILE: Final = Path(__file__).parent / "definitions.json"
# Python's type of each of OpenAPI's, and the words for it. A bool is an int to Python, and to nobody else.
_TYPES: Final[Mapping[str, tuple[tuple[type, ...], str]]] = {
    "object": ((dict,), "a mapping"),
    "array": ((list,), "a list"),
    "string": ((str,), "text; put it in quotes"),
    "integer": ((int,), "a whole number"),
    "number": ((int, float), "a number"),
    "boolean": ((bool,), "true or false"),
    "int-or-string": ((int, str), "a whole number or text; put it in quotes"),
    "quantity": ((int, float, str), "an amount, such as 500m, 2 or 8Gi"),
}
_METADATA: Final = ("labels", "annotations")
_MOST_LISTED: Final = 12


def kind_fault(body: Json) -> str:
    """What to write where no server knows the kind, but one whose name is like it; else empty."""
    version, kind = body["apiVersion"], body["kind"]
    known = [name.split(" ") for name in _data()["kinds"]]
    if [version, kind] in known:
        return ""
    kinds = {name: served for served, name in reversed(known)}
    if kind in kinds:
        group = version.rpartition("/")[0]
        served = [each for each, name in known if name == kind]
        # Another group may have a kind of this name.
        is_ours = group in {each.rpartition("/")[0] for each in served} or "ray" in group
        return f"no {kind} is served as {version}; write apiVersion: {served[0]}" if is_ours else ""
    nearest, _ = meant(kind.removesuffix("s"), kinds, noun="kind")
    if nearest is None or not _is_slip(kind, nearest):
        return ""
    return f"there is no kind {kind}; write kind: {nearest}"


def corrected(body: Json) -> Json:
    """A copy with what has one right spelling alone: a kind, a field of other case, a number that is text."""
    version, kind = body["apiVersion"], body["kind"]
    known = [name.split(" ") for name in _data()["kinds"]]
    slips = [name for _, name in known if kind != name and _is_slip(kind, name)]
    kind = slips[0] if slips and kind not in {name for _, name in known} else kind
    served = [each for each, name in known if name == kind]
    is_ours = version.rpartition("/")[0] in {each.rpartition("/")[0] for each in served}
    found = {**body, "kind": kind, "apiVersion": served[0] if is_ours and version not in served else version}
    schema = _data()["kinds"].get(f"{found['apiVersion']} {kind}")
    written: Json = copy.deepcopy(found)
    return _spelled(written, schema) if schema else written


def _spelled(value: Any, schema: Json) -> Any:
    schema = _data()["parts"][schema["$ref"]] if "$ref" in schema else schema
    if isinstance(value, float) and schema.get("type") == "int-or-string":
        return repr(value)
    if isinstance(value, list):
        return [_spelled(each, schema.get("items", {})) for each in value]
    if not isinstance(value, dict):
        return value
    fields, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    lower = {name.lower(): name for name in fields}
    found = {}
    for name, each in value.items():
        right = name if name in fields else lower.get(name.lower(), name)
        right = name if right in value else right  # Both are there: which counts is its author's to say.
        found[right] = _spelled(each, fields.get(right, others))
    return found


def field_faults(body: Json) -> Iterator[str]:
    """Fields that the kind does not have, lacks, or has with another type, each with what to write."""
    schema = _data()["kinds"].get(f"{body['apiVersion']} {body['kind']}")
    for field in _METADATA:
        yield from _texts(body["metadata"].get(field), f"metadata.{field}")
    if schema:
        walk = _Walk(nulls=not body["apiVersion"].startswith("ray.io/"))
        metadata = {key: value for key, value in body.items() if key != "metadata"}
        yield from walk.faults(metadata, schema, "")


@cache
def _data() -> Json:
    found: Json = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def _is_slip(kind: str, nearest: str) -> bool:
    """`Rayjob`, `RayJobs`, `Cronjob`: no other program's kind, such as `MPIJob` is."""
    plain = re.sub(r"[^a-z]", "", kind.lower()).removesuffix("s")
    return plain == nearest.lower()


def _texts(value: object, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            if not isinstance(each, str):
                yield f"{path}[{key}] is {_shown(each)}, and has to be text; put it in quotes"
    elif value is not None:
        yield f"{path} is {_shown(value)}, and has to be a mapping"


@dataclass(frozen=True, slots=True)
class _Walk:
    """`nulls`: a field without a value counts as one that is not there, as in Kubernetes' own kinds."""

    nulls: bool

    def faults(self, value: Any, schema: Json, path: str) -> Iterator[str]:
        schema = _data()["parts"][schema["$ref"]] if "$ref" in schema else schema
        types, words = _TYPES.get(schema.get("type", ""), ((object,), ""))
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types and words):
            shown = "has no value" if value is None else f"is {_shown(value)}"
            yield f"{path} {shown}, and has to be {words}"
            return
        if "enum" in schema and value not in schema["enum"]:
            yield f"{path} is {_shown(value)}; write one of {', '.join(map(str, schema['enum']))}"
        elif isinstance(value, dict):
            yield from self._object(value, schema, path)
        elif isinstance(value, list):
            yield from self._list(value, schema, path)
        elif isinstance(value, str):
            if "pattern" in schema and not re.search(schema["pattern"], value):
                yield f"{path} is {_shown(value)}, and has to be {_TYPES['quantity'][1]}"
        elif isinstance(value, int | float) and not isinstance(value, bool):
            least, most = schema.get("minimum", value), schema.get("maximum", value)
            if not least <= value <= most:
                yield (
                    f"{path} is {value}; write {least} or more"
                    if value < least
                    else (f"{path} is {value}; write {most} or less")
                )

    def _list(self, value: list[Any], schema: Json, path: str) -> Iterator[str]:
        if len(value) < schema.get("minItems", 0):
            yield f"{path} is empty; write {schema['minItems']} or more"
        for index, each in enumerate(value):
            yield from self.faults(each, schema.get("items", {}), f"{path}[{index}]")

    def _object(self, value: Json, schema: Json, path: str) -> Iterator[str]:
        fields, others = schema.get("properties"), schema.get("additionalProperties")
        for name in schema.get("required", ()):
            if value.get(name) is None and (self.nulls or name not in value):
                yield f"{_at(path, name)} is missing; write it"
        for name, each in value.items():
            if each is None and self.nulls:
                continue
            if fields and name in fields:
                yield from self.faults(each, fields[name], _at(path, name))
            elif others is not None:
                yield from self.faults(each, others, _at(path, name))
            elif fields and not schema.get("open"):
                yield _unknown(name, list(fields), path)


def _unknown(name: str, fields: list[str], path: str) -> str:
    nearest, _ = meant(name, fields, noun="field")
    shown = sorted(fields)
    known = (
        ", ".join(shown) if len(shown) <= _MOST_LISTED else f"{', '.join(shown[:_MOST_LISTED])} and others"
    )
    fix = f"write {nearest}" if nearest else f"remove it; there are: {known}"
    return f"{_at(path, name)} is no field of it; {fix}"


def _at(path: str, name: str) -> str:
    if "/" in name or "." in name:
        return f"{path}[{name}]"
    return f"{path}.{name}" if path else name


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
