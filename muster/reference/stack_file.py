"""The page of the stack file, from the declaration of its keys (muster/config/schema)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from muster.cli.commands.explain import format_value
from muster.config.document import NAMESPACE
from muster.config.schema.keys import Key, stack_keys
from muster.reference.markdown import WRITTEN, slug, table

_HEAD: Final = f"""\
# The stack file

<!-- run by: tests/unit/config/test_reference.py -->

{WRITTEN}

These are all keys of a stack. `muster explain pools.machine` prints the same for one key, and `muster schema`
prints the JSON Schema for editors. `muster validate` also checks which values fit together.

- Keys of the first level begin with `{NAMESPACE}`. This page leaves the prefix out of longer paths.
- Words in capitals, such as `POOL` and `NAME`, are names of your own. `[]` is an entry of a list.
- A *duration* is written `45s`, `30m` or `1h30m`; an *amount* `4`, `1.5`, `500m` or `100Gi`.
- A *mapping by name* has names of your own as keys.
- A key without a default is absent unless you write it.
"""
# A longer list of words is below its table.
_MOST_WORDS: Final = 10
# As many words are the machines of a cloud, which have a page of their own.
_MACHINES: Final = 100


def page() -> str:
    """The whole page."""
    keys = stack_keys()
    top = [key for key in keys if not key.parent]
    parts = [_HEAD, "## All keys of the first level\n", table(("Key", "Default", ""), map(_overview, top))]
    for one in top:
        parts += _chapter(one, [key for key in keys if key.parent and key.path.split(".")[0] == one.path])
    return "\n".join(parts)


def _overview(key: Key) -> tuple[str, str, str]:
    return f"[`{NAMESPACE}{key.path}`](#muster{key.path.lower()})", _default(key), key.sentence


def _chapter(key: Key, below: Iterable[Key]) -> Iterator[str]:
    yield f"## {NAMESPACE}{key.path}\n"
    yield f'<a id="{key.path}"></a>{key.sentence}\n'
    yield table(("Value", "Default"), [(_value(key), _default(key))])
    yield f"```yaml\nconfig:\n  {NAMESPACE}{key.path}: {format_value(key.example)}\n```\n"
    for (parent, provider), keys in groupby(_by_mapping(below), lambda one: (one.parent, one.provider)):
        yield f"### {_heading(parent, provider)}\n"
        yield from _mapping(list(keys))


def _by_mapping(keys: Iterable[Key]) -> list[Key]:
    """The keys of one mapping after each other, and mappings in the order of the declaration."""
    groups: dict[tuple[str, object], list[Key]] = {}
    for key in keys:
        groups.setdefault((key.parent, key.provider), []).append(key)
    return [key for group in groups.values() for key in group]


def _heading(path: str, provider: object) -> str:
    return f"{path} ({provider})" if provider else path


def _mapping(keys: list[Key]) -> Iterator[str]:
    rows = [
        (f'<a id="{_anchor(key)}"></a>`{key.name}`', _value(key), _default(key), key.sentence, _example(key))
        for key in keys
    ]
    yield table(("Key", "Value", "Default", "Meaning", "Example"), rows)
    for key in keys:
        if _MOST_WORDS < len(key.allowed) < _MACHINES:
            yield f"Words of `{key.name}`: {', '.join(f'`{word}`' for word in key.allowed)}.\n"


def _anchor(key: Key) -> str:
    return f"{key.provider}.{key.path}" if key.provider else key.path


def _value(key: Key) -> str:
    words = ", ".join(f"`{word}`" for word in key.allowed)
    if len(key.allowed) > _MOST_WORDS:
        below = "in [machines](machines.md)" if len(key.allowed) >= _MACHINES else "listed below"
        words = f"{len(key.allowed)} words, {below}"
    kind = key.kind if not words else f"{key.kind} ({words})"
    return (
        f"{kind}: [{key.below}](#{slug(_heading(key.below, key.provider))})"
        if key.below and key.parent
        else kind
    )


def _default(key: Key) -> str:
    return "required" if key.required else key.default


def _example(key: Key) -> str:
    return f"`{key.name}: {format_value(key.example)}`"
