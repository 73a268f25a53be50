"""The pages of the stack file, from the declaration of its keys (muster/config/schema): one with the keys of
the first level, and one for each of them that has keys below it. And the page of Muster's custom
resources, from the schemas of their definitions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final

from muster.cli.commands.reference import format_value
from muster.config.document import NAMESPACE
from muster.config.schema.keys import Key, stack_keys
from muster.model import gangpolicy, queuetree
from muster.model.clusters import Provider
from muster.model.quantities import DURATION_PATTERN
from release.reference.markdown import WRITTEN, code, item, slug, table

_RUN_BY: Final = "<!-- run by: tests/unit/config/test_reference.py -->"
_HEAD: Final = f"""\
# The stack file

{_RUN_BY}

{WRITTEN}

All keys of a stack. `muster explain pools.machine` prints one with an example, and `muster schema` the JSON
Schema for editors. `muster validate` also checks which values fit together.

- Keys of the first level begin with `{NAMESPACE}`. These pages leave the prefix out of longer paths.
- Words in capitals, such as `POOL` and `NAME`, are names of your own. `[]` is an entry of a list.
- A *duration* is written `45s`, `30m` or `1h30m`; an *amount* `4`, `1.5`, `500m` or `100Gi`.
- A *mapping by name* has names of your own as keys.
- A key without a default is absent unless you write it.
"""
_FOLDER: Final = "stack"
# As many words are the machines of a cloud, which have a page of their own.
_MACHINES: Final = 100
# What the heads of two mappings say of a key.
_Facts = tuple[str, str, str]


def page() -> str:
    """The keys of the first level."""
    keys = stack_keys()
    top = [key for key in keys if not key.parent]
    return "\n".join(
        [
            _HEAD,
            "## All keys of the first level\n",
            *(_line(key, f"[`{NAMESPACE}{key.path}`]({_address(key, keys)})") for key in top),
            "",
            *(part for key in top if not _below(key, keys) for part in _alone(key)),
        ]
    )


def chapter(name: str) -> str:
    """The page of a key of the first level, with all keys below it."""
    keys = stack_keys()
    (key,) = (each for each in keys if each.path == name)
    head = f"# {NAMESPACE}{name}\n\n{_RUN_BY}\n\n{WRITTEN}\n\n{_introduction(key)}"
    return "\n".join([head, *_mappings(_below(key, keys), name)])


def _pages() -> Iterator[tuple[str, Callable[[], str]]]:
    yield "stack.md", page
    keys = stack_keys()
    for key in keys:
        if not key.parent and _below(key, keys):
            yield f"{_FOLDER}/{key.path}.md", partial(chapter, key.path)


def _below(key: Key, keys: Iterable[Key]) -> list[Key]:
    return [each for each in keys if each.parent and each.path.split(".")[0] == key.path]


def _address(key: Key, keys: Iterable[Key]) -> str:
    return f"{_FOLDER}/{key.path}.md" if _below(key, keys) else f"#muster{key.path.lower()}"


def _alone(key: Key) -> Iterator[str]:
    yield f"## {NAMESPACE}{key.path}\n"
    yield _introduction(key)


def _introduction(key: Key) -> str:
    example = f"```yaml\nconfig:\n  {NAMESPACE}{key.path}: {format_value(key.example)}\n```"
    return f'<a id="{key.path}"></a>{key.sentence}\n\n{example}\n'


def _mappings(keys: Iterable[Key], page_of: str) -> Iterator[str]:
    """A section for each mapping. Keys that another mapping has in the same form are listed by name alone."""
    known: dict[tuple[_Facts, ...], str] = {}
    of_providers: dict[str, dict[_Facts, Provider]] = {}
    for (parent, provider), group in groupby(_by_mapping(keys), lambda one: (one.parent, one.provider)):
        listed, heading = list(group), _heading(parent, provider)
        yield f"## {heading}\n"
        form = tuple(_facts(key) for key in listed)
        if form in known:
            yield f"{''.join(map(_anchor, listed))}The keys of [{known[form]}](#{slug(known[form])}).\n"
            continue
        known[form] = heading
        before = of_providers.setdefault(parent, {}) if provider else {}
        own = [key for key in listed if _facts(key) not in before]
        yield "\n".join(_line(key, f"{_anchor(key)}`{key.name}`", page_of) for key in own) + "\n"
        for other in dict.fromkeys(before.values()):
            if same := [key for key in listed if before.get(_facts(key)) is other]:
                names = ", ".join(f"{_anchor(key)}`{key.name}`" for key in same)
                yield f"As for [{other}](#{slug(_heading(parent, other))}): {names}.\n"
        if provider:
            before |= {_facts(key): provider for key in own}


def _by_mapping(keys: Iterable[Key]) -> list[Key]:
    """The keys of one mapping after each other, and mappings in the order of the declaration."""
    groups: dict[tuple[str, object], list[Key]] = {}
    for key in keys:
        groups.setdefault((key.parent, key.provider), []).append(key)
    return [key for group in groups.values() for key in group]


def _heading(path: str, provider: Provider | None) -> str:
    return f"{path} ({provider})" if provider else path


def _facts(key: Key) -> _Facts:
    if key.below and key.provider:  # The mapping below may differ between providers.
        return key.path, str(key.provider), ""
    return key.name, f"{key.kind} {key.allowed}", f"{_default(key)} {key.sentence}"


def _anchor(key: Key) -> str:
    return f'<a id="{key.provider}.{key.path}"></a>' if key.provider else f'<a id="{key.path}"></a>'


def _line(key: Key, name: str, page_of: str = "") -> str:
    return item(name, (_value(key, page_of), _default(key)), key.sentence)


def _value(key: Key, page_of: str) -> str:
    if not page_of:
        return ""
    words = ", ".join(f"`{word}`" for word in key.allowed)
    if len(key.allowed) >= _MACHINES:
        words = "one of the [machines](../machines.md)"
    if not key.below:
        return f"list of {words}" if words and key.kind.startswith("list") else words or key.kind
    top = key.below.split(".")[0]
    page = "" if top == page_of else f"{top}.md"
    return f"{key.kind}: [{key.below}]({page}#{slug(_heading(key.below, key.provider))})"


def _default(key: Key) -> str:
    if key.required:
        return "required"
    return f"default {key.default}" if key.default and key.default != "none" else ""


PAGES: Final[Mapping[str, Callable[[], str]]] = MappingProxyType(dict(_pages()))


Schema = Mapping[str, Any]

_CRDS_HEAD: Final = f"""\
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


def crds_page() -> str:
    """The whole page."""
    return "\n".join(
        [_CRDS_HEAD, *(part for crd in (gangpolicy.crd(), queuetree.crd()) for part in _definition(crd))]
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
        default = "required" if name in schema.get("required", ()) else _default_of_field(field)
        yield code(own), _type(field), default, field.get("description", "")
        yield from _fields(own, field)
        for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
            if key in field:
                yield from _fields(own + mark, field[key])


def _default_of_field(field: Schema) -> str:
    """An empty value is the same as none."""
    default = field.get("default")
    return "" if default in (None, "", [], {}) else code(json.dumps(default).strip('"'))


def _type(field: Schema) -> str:
    if field.get("pattern") == DURATION_PATTERN:
        return "duration"
    words = [_kind_of_field(field)]
    words += [
        text.format(field[key]) for key, text in _BOUNDS.items() if key in field and field[key] != _NO_BOUND
    ]
    return ", ".join(words)


def _kind_of_field(field: Schema) -> str:
    if "enum" in field:
        return "one of " + ", ".join(map(code, field["enum"]))
    if field["type"] == "array":
        return f"list({_kind_of_field(field['items'])})"
    if "additionalProperties" in field:
        return f"mapping({_kind_of_field(field['additionalProperties'])})"
    return "time" if field.get("format") == "date-time" else str(field["type"])
