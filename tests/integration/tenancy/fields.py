"""Every field of the kinds that a tenant may write, from the API server's own schemas.

A path names the kind and then the fields: `RayJob.spec.rayClusterSpec.workerGroupSpecs[].replicas`. `[]` are
the items of a list and `{}` the values of a map, of which one can be named: `labels{app}`. Parts that many
kinds share have a name of their own, so that they are judged once: the path above is
`RayClusterSpec.workerGroupSpecs[].replicas` as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

_KEY: Final = re.compile(r"\{[^}]+\}")
_CHOICE: Final = re.compile(r"\(([^()]*)\)")
_STEP: Final = re.compile(r"(?:\[\]|\{[^}]*\}|\.?[^.\[{]+)")


@dataclass(frozen=True, slots=True)
class Shared:
    """Which paths are a part that is judged under a name of its own."""

    at: Mapping[str, Sequence[str]]
    _known: dict[str, str] = field(default_factory=dict)

    def name(self, path: str) -> str:
        """The path in the terms of the shared part that it is in."""
        found = ""
        for step in _STEP.findall(path):
            found = self.at_once(found + step)
        return found

    def at_once(self, path: str) -> str:
        if path not in self._known:
            found = (name for name, at in self.at.items() if any(matches(each, path) for each in at))
            self._known[path] = next(found, path)
        return self._known[path]


def leaves(kind: str, schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[str]:
    """The paths of all fields of a kind that have no fields themselves."""
    yield from _walk(kind, schema, schemas)


def _walk(path: str, schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[str]:
    schema = _resolved(schema, schemas)
    items, values = schema.get("items"), schema.get("additionalProperties")
    if fields := schema.get("properties"):
        for name, field in fields.items():
            yield from _walk(f"{path}.{name}", field, schemas)
    elif schema.get("type") == "array" and items is not None:
        yield from _walk(f"{path}[]", items, schemas)
    elif isinstance(values, dict):
        yield from _walk(f"{path}{{}}", values, schemas)
    else:
        yield path


def _resolved(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    for part in schema.get("allOf", ()):
        schema = {**schema, **part}
    if "$ref" in schema:
        return _resolved(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    return schema


def without_key(path: str) -> str:
    """The field of the schema that a path with a named key is of."""
    return _KEY.sub("{}", path)


def matches(pattern: str, path: str) -> bool:
    """`*` stands for anything, `(a|b)` for one of several."""
    return _compiled(pattern).fullmatch(path) is not None


def alternatives(pattern: str) -> Iterator[str]:
    """The patterns of which one with `(a|b)` consists."""
    found = _CHOICE.search(pattern)
    if found is None:
        yield pattern
        return
    for word in found.group(1).split("|"):
        yield from alternatives(pattern[: found.start()] + word + pattern[found.end() :])


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    words = {"*": ".*", "(": "(?:", ")": ")", "|": "|"}
    return re.compile("".join(words.get(each, re.escape(each)) for each in pattern))
