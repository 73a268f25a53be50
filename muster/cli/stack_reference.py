"""Writes the reference page of the stack file: `python -m muster.cli.stack_reference FILE`.

A test holds that the page agrees with the declaration (muster/config/schema).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

import yaml

from muster.cli.markdown import table
from muster.config.document import NAMESPACE
from muster.config.schema.keys import Key, stack_keys

_HEAD: Final = f"""\
# The stack file

Written by `python -m muster.cli.stack_reference docs/reference/stack.md`; do not edit it.

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


def page() -> str:
    """The whole page."""
    keys = stack_keys()
    top = [key for key in keys if not key.parent]
    parts = [_HEAD, "## All keys of the first level\n", table(("Key", "Default", ""), map(_overview, top))]
    for one in top:
        parts += _chapter(one, [key for key in keys if key.parent and key.path.split(".")[0] == one.path])
    return "\n".join(parts)


def format_value(value: object) -> str:
    """A value in one line of YAML."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10**6, sort_keys=False)
    return text.removesuffix("...\n").strip()


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
        if len(key.allowed) > _MOST_WORDS:
            yield f"Words of `{key.name}`: {', '.join(f'`{word}`' for word in key.allowed)}.\n"


def _anchor(key: Key) -> str:
    return f"{key.provider}.{key.path}" if key.provider else key.path


def _value(key: Key) -> str:
    words = ", ".join(f"`{word}`" for word in key.allowed)
    if len(key.allowed) > _MOST_WORDS:
        words = f"{len(key.allowed)} words, listed below"
    kind = key.kind if not words else f"{key.kind} ({words})"
    return f"{kind}: [{key.below}](#{_slug(key)})" if key.below and key.parent else kind


def _slug(key: Key) -> str:
    """GitHub's anchor of the heading of the mapping that has the keys."""
    kept = _heading(key.below, key.provider).lower().replace(" ", "-")
    return "".join(letter for letter in kept if letter.isalnum() or letter in "-_")


def _default(key: Key) -> str:
    return "required" if key.required else key.default


def _example(key: Key) -> str:
    return f"`{key.name}: {format_value(key.example)}`"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
