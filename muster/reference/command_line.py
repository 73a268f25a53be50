"""The page of the command line, from the program's own commands."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import Final

import click

from muster.cli.command import Command, load
from muster.cli.formatter import Context
from muster.cli.run import PROGRAM
from muster.cli.table import TABLE, Entry, walk
from muster.errors import ExitCode
from muster.reference.markdown import WRITTEN, table

_HEAD: Final = f"""\
# The command line

<!-- parsed: usage, options and examples -->

{WRITTEN}

`muster COMMAND --help` prints the same. STACK is the name of a stack of the project or a stack file, and
comes first; `check` takes it as `--stack`. `--json` prints one JSON document to standard output.
`--kubeconfig` and `--context` select a cluster, and `--quiet` leaves out progress. Errors go to standard
error as `Error: ...` and, where there is one, `Fix: ...`.
"""


def page() -> str:
    """The whole page."""
    parts = [_HEAD, *_exit_codes(), *_overview()]
    for path, entry in walk():
        if not entry.commands:
            found = load(path, entry)
            assert isinstance(found, Command)
            parts += _command(path, found)
    return "\n".join(parts)


def _exit_codes() -> Iterator[str]:
    yield "## Exit codes\n"
    yield table(("Code", "Meaning"), ((str(int(code)), code.meaning) for code in ExitCode))


def _overview() -> Iterator[str]:
    yield "## Commands\n"
    yield table(("Command", ""), _rows(TABLE.items(), ()))


def _rows(entries: Iterable[tuple[str, Entry]], above: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for name, entry in entries:
        words = " ".join((PROGRAM, *above, name))
        if entry.commands:
            yield from _rows(entry.commands.items(), (*above, name))
        else:
            yield f"[`{words}`](#{words.replace(' ', '-')})", entry.summary


def _command(path: tuple[str, ...], found: Command) -> Iterator[str]:
    name = " ".join((PROGRAM, *path))
    context = Context(found, info_name=name)
    yield f"## {name}\n"
    usage = " ".join(found.collect_usage_pieces(context))
    yield f"```usage\n{name} {usage}\n```\n"
    yield _prose(found.help or "")
    rows = [_option(each, context) for each in found.params if isinstance(each, click.Option)]
    yield table(("Option", "Default", "Meaning"), rows)
    for heading, lines in found.sections:
        yield f"{heading}:\n"
        language = "sh" if heading == "Examples" else ""
        yield f"```{language}\n" + "\n".join(lines) + "\n```\n"
    special = [(str(int(code)), text) for code, text in found.codes.items() if text != code.meaning]
    if special:
        yield "Exit codes with a meaning of their own here:\n"
        yield table(("Code", "Meaning"), special)


def _prose(text: str) -> str:
    """The help text as Markdown: what click keeps as it is becomes a code block."""
    blocks = []
    for block in inspect.cleandoc(text).split("\n\n"):
        lines = block.splitlines()
        blocks.append("\n".join(["```", *lines[1:], "```"]) if lines[0] == "\b" else " ".join(lines))
    return "\n\n".join(blocks) + "\n"


def _option(option: click.Option, context: click.Context) -> tuple[str, str, str]:
    record = option.get_help_extra(context)
    default = record.get("default", "")
    needed = "required" if option.required else default
    flags = ", ".join(f"`{flag}`" for flag in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag else f" `{option.make_metavar(context)}`"
    return flags + value, needed, option.help or ""
