"""Other projects' kinds by their pinned definitions, and what of a value the API server would refuse.

    faults(value, schema)   names, types, words and bounds that do not fit, with what to write
    Spec                    a section of a stack that is the spec of such a kind, in that project's words

The data are those of the pinned KubeRay, Kubernetes and KAI (tests/definitions.py writes them), and are read
when the first value is judged. Rules between fields are not in them.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final, TypeVar

from muster.model.section import Section, describe_value
from muster.model.violations import at, suggestion

Schema = dict[str, Any]
Written = TypeVar("Written", bound="Spec")
FILE: Final = Path(__file__).parent / "definitions.json"
# Of each type of OpenAPI: Python's, its words, and what to write. A bool is an int to Python alone.
_QUOTES: Final = "put it in quotes"
_TYPES: Final[Mapping[str, tuple[tuple[type, ...], str, str]]] = {
    "object": ((dict,), "a mapping", "write `key: value` lines below it"),
    "array": ((list,), "a list", "write `- ` lines below it"),
    "string": ((str,), "text", _QUOTES),
    "integer": ((int,), "a whole number", "write one without quotes and without a unit"),
    "number": ((int, float), "a number", "write one without quotes and without a unit"),
    "boolean": ((bool,), "true or false", "write it without quotes"),
    "int-or-string": ((int, str), "a whole number or text", _QUOTES),
    "quantity": ((int, float, str), "an amount", "write it like 500m, 2 or 8Gi"),
    "duration": ((str,), "a duration", "write it like 45s, 30m or 1h30m"),
}
_INTEGERS: Final = {"minimum": -(2**63), "maximum": 2**63 - 1}
DURATION: Final[Schema] = {"type": "duration", "pattern": r"^(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$"}
"""A duration of Go, where a definition says text."""


@dataclass(frozen=True, slots=True)
class Fault:
    """`path` leads from the judged value to the place. `allowed`: the words in place of an unknown `word`.
    `is_malformed`: the value has another type, or is not there.
    """

    path: tuple[str | int, ...]
    message: str
    fix: str = ""
    word: str = ""
    allowed: tuple[str, ...] = ()
    is_field: bool = False
    is_malformed: bool = False


@cache
def load() -> Mapping[str, Mapping[str, Schema]]:
    """kinds: what members create, `ray.io/v1 RayJob`, -> its schema. specs: what stacks pass on,
    `kai.scheduler/v1 SchedulingShard`, -> that of its spec. parts: what the schemas refer to.
    """
    found: Mapping[str, Mapping[str, Schema]] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def resolve(schema: Schema) -> Schema:
    """The schema itself, where it is written as a reference."""
    return load()["parts"][schema["$ref"]] if "$ref" in schema else schema


def faults(
    value: Any, schema: Schema, path: tuple[str | int, ...] = (), around: tuple[Schema, ...] = ()
) -> Iterator[Fault]:
    """What of a value its schema does not allow. A field without a value counts as one that is not there.
    `around`: the schemas that the value is in, one for each part of the path.
    """
    schema = resolve(schema)
    if "refused" in schema:
        yield Fault(path, *schema["refused"])
        return
    types, words, fix = _TYPES.get(schema.get("type", ""), ((object,), "", ""))
    shown = "has no value" if value is None else f"is {describe_value(value)}"
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types and words):
        yield Fault(path, f"{shown}, and has to be {words}", fix, is_malformed=True)
    elif "enum" in schema and value not in schema["enum"]:
        allowed = tuple(map(str, schema["enum"]))
        yield Fault(
            path,
            f"{shown}, which is not allowed",
            f"write one of {', '.join(allowed)}",
            str(value),
            allowed,
        )
    elif isinstance(value, dict):
        yield from _object(value, schema, path, around)
    elif isinstance(value, list):
        yield from _list(value, schema, path, around)
    elif isinstance(value, str):
        yield from _text(value, schema, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number(value, schema, path)


def _list(
    value: list[Any], schema: Schema, path: tuple[str | int, ...], around: tuple[Schema, ...]
) -> Iterator[Fault]:
    least, most = schema.get("minItems", 0), schema.get("maxItems", len(value))
    if len(value) < least:
        yield Fault(path, "is empty" if not value else f"has {len(value)}", f"write {least} or more")
    elif len(value) > most:
        yield Fault(path, f"has {len(value)}, and {most} are allowed", f"write {most} or fewer")
    for index, each in enumerate(value):
        yield from faults(each, schema.get("items", {}), (*path, index), (*around, schema))


def _object(
    value: Schema, schema: Schema, path: tuple[str | int, ...], around: tuple[Schema, ...]
) -> Iterator[Fault]:
    fields, others = schema.get("properties"), schema.get("additionalProperties")
    for name in schema.get("required", ()):
        if value.get(name) is None:
            example = resolve((fields or {}).get(name, {})).get("example")
            fix = "write it" if example is None else f"write `{name}: {example}`"
            yield Fault((*path, name), "is missing", fix, is_malformed=True)
    for name, each in value.items():
        if each is None:
            continue
        if fields and name in fields:
            yield from faults(each, fields[name], (*path, name), (*around, schema))
        elif others is not None:
            yield from faults(each, others, (*path, name), (*around, schema))
        elif fields and not schema.get("open"):
            allowed = tuple(field for field in fields if "refused" not in fields[field])
            fix = _meant_place(name, fields, path, around)
            yield Fault((*path, name), "is no field of it", fix, name, allowed, is_field=True)


def _meant_place(name: str, fields: Schema, path: tuple[str | int, ...], around: tuple[Schema, ...]) -> str:
    """Where a field belongs that is indented too little or too much; empty where that is not known."""
    below = [key for key, each in fields.items() if name in _fields_below(each)]
    places = [at(*path, key) for key in below if len(below) == 1 or key == "containers"]
    places += [at(*path[:depth]) for depth, each in reversed([*enumerate(around)]) if name in _fields(each)]
    return f"write it in {places[0] or 'the object itself'}" if places else ""


def _fields(schema: Schema) -> Schema:
    found: Schema = schema.get("properties", {})
    return found


def _fields_below(schema: Schema) -> Schema:
    found = resolve(schema)
    return _fields(resolve(found.get("items", found)))


def _text(value: str, schema: Schema, path: tuple[str | int, ...]) -> Iterator[Fault]:
    least, most = schema.get("minLength", 0), schema.get("maxLength", len(value))
    if len(value) < least:
        yield Fault(path, "is empty", "write it, or remove it")
    elif len(value) > most:
        yield Fault(path, f"has {len(value)} characters", f"write at most {most}")
    elif "pattern" in schema and not re.search(schema["pattern"], value):
        _, words, fix = _TYPES["quantity" if schema["type"] == "int-or-string" else schema["type"]]
        if schema["type"] == "string":
            example = schema.get("example")
            words = f"text that matches {schema['pattern']}"
            fix = "correct it" if example is None else f"write it like {example}"
        yield Fault(path, f"is {describe_value(value)}, and has to be {words}", fix)


def _number(value: float, schema: Schema, path: tuple[str | int, ...]) -> Iterator[Fault]:
    bounds = schema if schema.get("type") != "integer" else _INTEGERS | schema
    least, most = bounds.get("minimum", value), bounds.get("maximum", value)
    if schema.get("exclusiveMinimum") and value <= least:
        yield Fault(path, f"is {value}", f"write more than {least}")
    elif not value >= least:
        yield Fault(path, f"is {value}", f"write {least} or more")
    elif not value <= most:
        yield Fault(path, f"is {value}", f"write {most} or less")


class Spec(dict[str, Any]):
    """The spec of another project's object as a stack has it: in that project's words, passed on unchanged.

    KIND names the definition. ADDED has, by path, what its author or Muster asks beyond it, in words of the
    schema, and `refused: (message, fix)` for a field that a stack may not have; `*` stands for any name or
    place in a list.
    """

    KIND: ClassVar[str]
    ADDED: ClassVar[Mapping[str, Schema]] = MappingProxyType({})

    @classmethod
    def schema(cls) -> Schema:
        """The schema of the spec, without references."""
        return spec_schema(cls)

    def written(self) -> dict[str, Any]:
        return _without_empty(self)

    @classmethod
    def adopt(cls, spec: Mapping[str, Any]) -> Schema:
        """What a stack may have of an object's spec."""
        fields = cls.schema()["properties"]
        allowed = {name for name, schema in fields.items() if "refused" not in schema}
        return {name: value for name, value in _without_empty(spec).items() if name in allowed}

    @classmethod
    def read(cls: type[Written], above: Section, key: str) -> Written:
        """The section that `key` has."""
        return read_spec(cls, above.section(key))


def read_spec(kind: type[Written], section: Section) -> Written:
    """The keys of a section that it has besides those that were read, and every mistake in them. A key
    with a value of another type is left out.
    """
    own, rest = section.asked, section.rest()
    if own and not rest:  # Of a section with keys of ours nothing else is required.
        return kind()
    values = _plain(rest, kind.schema())
    malformed = set()
    for fault in faults(values, kind.schema()):
        if fault.is_malformed:
            malformed.add(fault.path[0])
        allowed = (*fault.allowed, *own) if fault.is_field and len(fault.path) == 1 else fault.allowed
        message = f"is not a key of {kind.KIND.split()[1]}" if fault.is_field else fault.message
        noun = "key" if fault.is_field else str(fault.path[-1])
        fix = suggestion(fault.word, allowed, noun=noun) if allowed else f"{fault.fix}."
        section.note(at(*fault.path), f"{message}.", fix)
    return kind({name: value for name, value in values.items() if name not in malformed})


def _without_empty(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Without fields that say nothing. Of an empty mapping a server-side apply makes null, and refuses it."""
    return {name: value for name, value in spec.items() if value not in (None, {}, "")}


@cache
def spec_schema(kind: type[Spec]) -> Schema:
    return _expand(load()["specs"][kind.KIND], kind.ADDED, ())


def _expand(schema: Schema, added: Mapping[str, Schema], path: tuple[str, ...]) -> Schema:
    whole = {**resolve(schema), **added.get(".".join(path), {})}
    if "properties" in whole:
        fields = whole["properties"].items()
        whole["properties"] = {name: _expand(each, added, (*path, name)) for name, each in fields}
    for word in {"items", "additionalProperties"} & whole.keys():
        whole[word] = _expand(whole[word], added, (*path, "*"))
    return whole


def _plain(value: Any, schema: Schema) -> Any:
    """A copy with texts as names and without what has no value. Where the entries of a mapping are text,
    such as arguments of a program, YAML's numbers and booleans are written out.
    """
    if isinstance(value, Mapping):
        fields, others = schema.get("properties", {}), schema.get("additionalProperties", {})
        entries = {str(name): each for name, each in value.items() if each is not None}
        if others.get("type") == "string":
            return {name: _to_text(each) for name, each in entries.items()}
        return {name: _plain(each, fields.get(name, others)) for name, each in entries.items()}
    if isinstance(value, list | tuple):
        return [_plain(each, schema.get("items", {})) for each in value]
    return value


def _to_text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value
