"""The page of Muster's custom resources, from the schemas of their definitions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from muster.model import gangpolicy, queuetree
from muster.model.quantities import DURATION_PATTERN
from muster.reference.markdown import WRITTEN, code, item, table

Schema = Mapping[str, Any]

_HEAD: Final = f"""\
# Custom resources

{WRITTEN}

The program writes both kinds, and the controller reads them. To change one, change the stack:
[GangPolicy: how gangs get their capacity](../gang-policy.md) explains the keys of `muster:gangAdmission`.
`[]` is an entry of a list and `{{}}` a value of a mapping. A duration is written `45s`, `30m` or `1h30m`.
"""
_BOUNDS: Final = {
    "minimum": "at least {:,}",
    "maximum": "at most {:,}",
    "minItems": "entries: at least {:,}",
    "maxItems": "entries: at most {:,}",
    "maxProperties": "entries: at most {:,}",
    "maxLength": "characters: at most {:,}",
}
# What an int32 can hold is no bound of ours.
_NO_BOUND: Final = 2**31 - 1


def page() -> str:
    """The whole page."""
    return "\n".join(
        [_HEAD, *(part for crd in (gangpolicy.crd(), queuetree.crd()) for part in _definition(crd))]
    )


def _definition(crd: Schema) -> Iterator[str]:
    spec = crd["spec"]
    names, group = spec["names"], spec["group"]
    for version in spec["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        yield f"## {names['kind']}\n"
        yield f"{schema['description']}\n"
        short = ", ".join(map(code, names.get("shortNames", ())))
        yield table(
            ("apiVersion", "Resource", "Short name", "Scope"),
            [(code(f"{group}/{version['name']}"), code(names["plural"]), short, spec["scope"])],
        )
        lines = (
            item(name, (kind, f"default {default}" if default.startswith("`") else default), meaning)
            for name, kind, default, meaning in _fields("", schema)
        )
        yield "\n".join(lines) + "\n"
        columns = [
            (each["name"], code(each["jsonPath"])) for each in version.get("additionalPrinterColumns", ())
        ]
        if columns:
            yield f"`kubectl get {names['plural']}` shows:\n"
            yield table(("Column", "Field"), columns)


def fields(crd: Schema) -> Iterator[tuple[str, str, str, str]]:
    """Every field of a definition: path, type, default, meaning."""
    for version in crd["spec"]["versions"]:
        yield from _fields("", version["schema"]["openAPIV3Schema"])


def _fields(path: str, schema: Schema) -> Iterator[tuple[str, str, str, str]]:
    """Every field below, in the order of the schema."""
    for name, field in schema.get("properties", {}).items():
        own = f"{path}.{name}" if path else name
        default = "required" if name in schema.get("required", ()) else _default(field)
        yield code(own), _type(field), default, field.get("description", "")
        yield from _fields(own, field)
        for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
            if key in field:
                yield from _fields(own + mark, field[key])


def _default(field: Schema) -> str:
    """An empty value is the same as none."""
    default = field.get("default")
    return "" if default in (None, "", [], {}) else code(json.dumps(default).strip('"'))


def _type(field: Schema) -> str:
    if field.get("pattern") == DURATION_PATTERN:
        return "duration"
    words = [_kind(field)]
    words += [
        text.format(field[key]) for key, text in _BOUNDS.items() if key in field and field[key] != _NO_BOUND
    ]
    return ", ".join(words)


def _kind(field: Schema) -> str:
    if "enum" in field:
        return "one of " + ", ".join(map(code, field["enum"]))
    if field["type"] == "array":
        return f"list({_kind(field['items'])})"
    if "additionalProperties" in field:
        return f"mapping({_kind(field['additionalProperties'])})"
    return "time" if field.get("format") == "date-time" else str(field["type"])
