"""`muster explain` and `muster schema`: the keys of a stack file, for a reader and for an editor."""

import textwrap
from collections.abc import Iterator, Mapping
from typing import Final

import click
import yaml

from muster.cli.command import command
from muster.cli.options import json_option
from muster.cli.output import STDOUT, put, put_json
from muster.config.schema import part_schema, stack_schema
from muster.config.schema.keys import Key, find_keys, stack_keys
from muster.errors import ExitCode, MusterError
from muster.model.violations import suggestion

_EXPLAIN_EXAMPLES = """
muster explain
muster explain pools.machine
muster explain bootDiskGiB
muster explain departments.research.teams.vision.quota --json
"""
_WORDS: Final = "  One of:   "
_INDENT: Final = " " * len(_WORDS)
_CODES = {ExitCode.UNUSABLE: "No key has this path."}


def _complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    return [each.path for each in stack_keys() if each.path.startswith(incomplete)]


@command(examples=_EXPLAIN_EXAMPLES, codes=_CODES)
@click.argument("key", required=False, shell_complete=_complete)
@json_option
def explain(key: str | None, *, as_json: bool) -> None:
    """Explain a key of the stack file: what it is for, its values, its default, an example.

    KEY is a path, such as pools.machine, or the end of one; it may contain names of your own. Without KEY,
    the keys of the first level are listed.
    """
    found = find_keys(key) if key else tuple(each for each in stack_keys() if not each.parent)
    if not found:
        raise _unknown(key or "")
    if as_json:
        put_json({"keys": [_record(each) for each in found]})
    elif key:
        put(STDOUT, "\n".join("\n".join(_lines(each)) + "\n" for each in found))
    else:
        put(STDOUT, "\n".join(_list(found)) + "\n")


def format_value(value: object) -> str:
    """A value in one line of YAML."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10**6, sort_keys=False)
    return text.removesuffix("...\n").strip()


def _unknown(key: str) -> MusterError:
    known = {each.name for each in stack_keys()}
    word = key.rpartition(".")[2]
    fix = suggestion(word, known, noun="key").partition(" Allowed:")[0]
    if word in known:
        fix = f"ask for the word alone: muster explain {word}."
    elif fix.startswith("use one of"):
        fix = "list the keys of the first level: muster explain."
    return MusterError(f"{key!r} is not a key of a stack.", fix=fix, exit_code=ExitCode.UNUSABLE)


def _record(key: Key) -> Mapping[str, object]:
    return {
        "path": key.path,
        "provider": key.provider.value if key.provider else None,
        "sentence": key.sentence,
        "kind": key.kind,
        "allowed": list(key.allowed),
        "required": key.required,
        "default": key.default or None,
        "example": {key.name: key.example},
        "keys": [each.name for each in _keys_below(key)],
    }


def _lines(key: Key) -> Iterator[str]:
    yield f"{key.path} ({key.provider})" if key.provider else key.path
    yield f"  {key.sentence}"
    yield f"  Value:    {key.kind}"
    if key.name == "machine":
        yield f"{_WORDS}the {len(key.allowed)} that `muster machines --cpu` lists with their GPUs and prices"
    elif key.allowed:
        yield textwrap.fill(", ".join(key.allowed), 100, initial_indent=_WORDS, subsequent_indent=_INDENT)
    if key.required:
        yield "  Required"
    elif key.default:
        yield f"  Default:  {key.default}"
    yield f"  Example:  {key.name}: {format_value(key.example)}"
    if below := _keys_below(key):
        yield "  Keys:"
        yield from (f"    {line}" for line in _list(below))


def _keys_below(key: Key) -> tuple[Key, ...]:
    if not key.below:
        return ()
    return tuple(
        each for each in stack_keys() if each.parent == key.below and key.provider in (each.provider, None)
    )


def _list(keys: tuple[Key, ...]) -> Iterator[str]:
    width = max(len(key.name) for key in keys)
    for key in keys:
        yield f"{key.name:{width}}  {key.sentence}"


_SCHEMA_EXAMPLES = """
muster schema > stacks/schema.json
muster schema --part > stacks/part.schema.json
check-jsonschema --schemafile stacks/schema.json stacks/Pulumi.*.yaml
"""


@command(examples=_SCHEMA_EXAMPLES)
@click.option("--part", is_flag=True, help="Print the schema of files that extend another or are extended.")
def schema(*, part: bool) -> None:
    """Print the JSON Schema of a stack file, with which an editor completes and checks it.

    An editor with the YAML language server finds it through the first line of a stack file, which `muster
    init` writes: `# yaml-language-server: $schema=schema.json`. Only `muster validate` checks rules between
    keys.
    """
    put_json(part_schema() if part else stack_schema())
