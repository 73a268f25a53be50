"""The keys of a stack file one by one, as a reference lists them, and as Pulumi.yaml declares them.

    stack_keys()     -> every key once, in the order of the declaration
    find_keys(query) -> the keys that a path means
    project_config() -> the text below `config:`, which the engine checks before the program starts

How a node of the schema reads is decided here: its kind, its allowed words, its default, an example. The
facts are those of the schema; nothing is declared here. The engine knows a type of each key, and no more. A
key without a default has to be in every stack file.
"""

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final

from muster.config.document import NAMESPACE
from muster.config.schema.document import stack_schema
from muster.config.schema.writer import MOST_INTEGER, Schema, split_description
from muster.model.clusters import Provider
from muster.model.definitions import DURATION
from muster.model.quantities import DURATION_PATTERN, QUANTITY_PATTERN

ITEM: Final = "[]"
"""Stands in a path for the entries of a list."""
BY_NAME: Final = "mapping by name"
"""The kind of a mapping whose keys are names that the author of a stack chooses."""
_REF: Final = "#/$defs/"
_INDEX: Final = re.compile(r"\[\d*\]")
# How a path writes a name that the author of a stack chooses, by the key that has the names.
_NAMES: Final = {
    "pools": "POOL",
    "departments": "DEPARTMENT",
    "teams": "TEAM",
    "quota": "POOL",
    "borrow": "POOL",
    "lend": "POOL",
}
_NAME: Final = "NAME"
# A name of the author's is as alike to a key's name as this only where the key is meant.
_MISSPELT: Final = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """`path` has names that the author chooses in capitals, and `[]` for the entries of a list. `provider` is
    the one that has the key; None for a key of every stack. `below` is the path of the mapping with the keys
    of this key; "" where it has none. `default` is for people; `value` is the default itself, None where only
    words can express it.
    """

    path: str
    provider: Provider | None
    kind: str
    allowed: tuple[str, ...]
    required: bool
    default: str
    sentence: str
    example: object
    value: object = None
    below: str = ""

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]

    @property
    def parent(self) -> str:
        return self.path.rpartition(".")[0]


def stack_keys() -> tuple[Key, ...]:
    """Every key once. What several keys have in common is listed below the first of them."""
    return _declared()


@cache
def _declared() -> tuple[Key, ...]:
    schema = stack_schema()
    config = schema["properties"]["config"]
    walk = _Walk(schema["$defs"])
    return tuple(walk.keys(config, "", None))


@dataclass(frozen=True, slots=True)
class _Walk:
    """`listed` are the definitions whose keys were listed, each with the path of its mapping."""

    definitions: Mapping[str, Schema]
    listed: dict[str, str] = field(default_factory=dict)

    def keys(self, mapping: Schema, path: str, provider: Provider | None) -> Iterator[Key]:
        """The keys of a mapping, each followed by those below it."""
        for name, node in mapping["properties"].items():
            own = name.removeprefix(NAMESPACE)
            key = self._key(node, f"{path}.{own}" if path else own, provider)
            key = replace(key, required=name in mapping.get("required", ()))
            nested: list[Key] = []
            for below, inner, one in self._mappings(node, key.path, provider):
                key = replace(key, below=below)
                if inner is not None:
                    nested += self.keys(inner, below, one)
            yield key
            yield from nested

    def _key(self, node: Schema, path: str, provider: Provider | None) -> Key:
        sentence, default = split_description((self._resolved(node) | node)["description"])
        return Key(
            path=path,
            provider=provider,
            kind=self._kind(node),
            allowed=tuple(dict.fromkeys(self._words(node))),
            required=False,
            default=default,
            sentence=sentence,
            example=self._example(node),
            value=node.get("default"),
        )

    def _mappings(
        self, node: Schema, path: str, provider: Provider | None
    ) -> Iterator[tuple[str, Schema | None, Provider | None]]:
        """Path, schema and provider of the mappings that a value consists of; None for one that is listed."""
        if "$ref" in node:
            name = node["$ref"].removeprefix(_REF)
            if name in self.listed:
                yield self.listed[name], None, provider
                return
            for below, inner, one in self._mappings(self.definitions[name], path, provider):
                self.listed.setdefault(name, below)
                yield below, inner, one
        elif "allOf" in node:
            for case in node["allOf"]:
                one = Provider(case["if"]["properties"]["provider"]["const"])
                yield from self._mappings(case["then"], path, one)
        elif "anyOf" in node:
            for each in node["anyOf"]:
                yield from self._mappings(each, path, provider)
        elif "properties" in node:
            yield path, node, provider
        elif "items" in node:
            yield from self._mappings(node["items"], path + ITEM, provider)
        elif isinstance(node.get("additionalProperties"), dict):
            name = _NAMES.get(path.rpartition(".")[2], _NAME)
            yield from self._mappings(node["additionalProperties"], f"{path}.{name}", provider)

    def _resolved(self, node: Schema) -> Schema:
        return self.definitions[node["$ref"].removeprefix(_REF)] if "$ref" in node else node

    def _words(self, node: Schema) -> Iterator[str]:
        """The words that a value may be, or that the entries of a list may be."""
        node = self._resolved(node)
        yield from (str(word) for word in node.get("enum", ()))
        if "const" in node:
            yield str(node["const"])
        if "items" in node:
            yield from self._words(node["items"])
        for each in node.get("anyOf", ()):
            yield from self._words(each)

    def _kind(self, node: Schema) -> str:
        node = self._resolved(node)
        if "anyOf" in node:
            return " or ".join(dict.fromkeys(self._kind(each) for each in node["anyOf"]))
        if "enum" in node or "const" in node:
            return "word"
        if "items" in node:
            return f"list: {self._kind(node['items'])}"
        if "properties" in node:
            return "mapping"
        if isinstance(node.get("additionalProperties"), dict):
            return f"{BY_NAME}: {self._kind(node['additionalProperties'])}"
        return _scalar(node)

    def _example(self, node: Schema) -> object:
        """What the declaration has; otherwise a word that is not the default, or the default."""
        if "examples" in node:
            return node["examples"][0]
        default = node.get("default")
        if node.get("type") == "boolean":
            return default is not True
        if "enum" in node:
            return next(word for word in node["enum"] if word != default)
        return self._composed(self._resolved(node)) if default is None else default

    def _composed(self, node: Schema) -> object:
        """An example from those of the parts."""
        if "anyOf" in node:
            return self._example(node["anyOf"][0])
        if "const" in node:
            return node["const"]
        if "properties" in node:
            names = node.get("required") or list(node["properties"])[:1]
            return {name: self._example(node["properties"][name]) for name in names}
        return [self._example(node["items"])] if "items" in node else None


def _scalar(node: Schema) -> str:
    if node.get("pattern") in (DURATION_PATTERN, DURATION["pattern"]):
        return "duration"
    if node.get("pattern") == QUANTITY_PATTERN:
        return "amount"
    if node["type"] in ("integer", "number"):
        noun = "whole number" if node["type"] == "integer" else "number"
        least, most = node.get("minimum", -1), node.get("maximum", MOST_INTEGER)
        if most < MOST_INTEGER // 4:
            return f"{noun} from {least:,} to {most:,}"
        return noun if least < 0 else f"{noun} from {least:,}"
    names = {"string": "text", "integer": "whole number", "boolean": "true or false"}
    kinds = [node["type"]] if isinstance(node["type"], str) else node["type"]
    return " or ".join(names.get(kind, kind) for kind in kinds)


def find_keys(query: str) -> tuple[Key, ...]:
    """The keys that a path means: `pools.l4.machine`, `pools.machine` or `machine`, after `muster:` or not.

    Names that the author chooses may be left out. A path that begins at no key of the first level is the end
    of a longer one.
    """
    asked = _INDEX.sub("", query.removeprefix(NAMESPACE)).split(".")
    keys = stack_keys()
    return _below(keys, "", asked) or tuple(key for key in keys if _ends(key.path, asked))


def _below(keys: tuple[Key, ...], mapping: str, asked: list[str]) -> tuple[Key, ...]:
    found: dict[str, Key] = {}
    for key in keys:
        if key.parent == mapping and key.name == asked[0]:
            for each in _continued(keys, key, asked[1:]):
                if key.provider is None or each.provider in (key.provider, None):
                    found[f"{each.provider}.{each.path}"] = each
    return tuple(found.values())


def _continued(keys: tuple[Key, ...], key: Key, asked: list[str]) -> tuple[Key, ...]:
    """The keys below a key. The next word may be a name that the author chose."""
    if not asked:
        return (key,)
    found = _below(keys, key.below, asked) if key.below else ()
    if found or BY_NAME not in key.kind:
        return found
    if len(asked) > 1:
        return _below(keys, key.below, asked[1:])
    below = [each.name for each in keys if each.parent == key.below] if key.below else []
    return () if difflib.get_close_matches(asked[0], below, n=1, cutoff=_MISSPELT) else (key,)


def _ends(path: str, asked: list[str]) -> bool:
    words = [word for word in path.replace(ITEM, "").split(".") if not word.isupper()]
    return words[-len(asked) :] == asked


def project_config() -> str:
    schema = stack_schema()["properties"]["config"]["properties"]
    keys = stack_keys()
    lines = [
        line
        for key in keys
        if not key.parent
        for line in _entry(key, schema[f"{NAMESPACE}{key.path}"], _project_keys(key, keys))
    ]
    return "\n".join(lines) + "\n"


def _project_keys(key: Key, keys: tuple[Key, ...]) -> list[str]:
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
