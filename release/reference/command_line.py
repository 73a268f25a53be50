"""The pages of the command line, from the program's own commands: one with all commands and what they have in
common, and one for each group of commands.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from types import MappingProxyType
from typing import Final

import click

from muster.cli.command import Command, Context, load
from muster.cli.run import PROGRAM
from muster.cli.table import TABLE, walk
from muster.errors import ExitCode
from release.reference.markdown import WRITTEN, item, table

_PARSED: Final = "<!-- parsed: usage, options and examples -->"
_HEAD: Final = f"""\
# The command line

{_PARSED}

{WRITTEN}

`muster COMMAND --help` prints what these pages have. STACK is the name of a stack of the project or a stack
file, and comes first; `check` takes it as `--stack`. Errors go to standard error as `Error: ...` and, where
there is one, `Fix: ...`.
"""
_FOLDER: Final = "cli"
# The commands of a page. A group of commands is a page of its own.
_TOPICS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "project": ("init", "new", "validate", "show", "explain", "schema", "machines", "render", "demo"),
        "changes": ("diff", "plan", "what-if", "record", "usage"),
        "jobs": ("check", "submit", "why", "logs", "top"),
        "clusters": ("adopt", "snapshot", "doctor", "image", "backend"),
        "local": ("local",),
        "ci": ("ci", "bench", "completion"),
    }
)
_TITLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "project": "Commands for a project",
        "changes": "Commands for changes: diff, plan, what-if, record, usage",
        "jobs": "Commands for jobs",
        "clusters": "Commands for clusters: adopt, doctor, images, state",
        "local": "Commands for the local cluster",
        "ci": "Commands for CI, and others",
    }
)
# An option of so many commands is explained once.
_COMMON: Final = 4
_Path = tuple[str, ...]


def page() -> str:
    """All commands, exit codes, and options that many commands have."""
    return "\n".join([_HEAD, *_exit_codes(), *_common_options(), *_overview()])


def topic(name: str) -> str:
    """The page of some commands."""
    head = f"# {_TITLES[name]}\n\n{_PARSED}\n\n{WRITTEN}\n\n[All commands](../cli.md#commands)\n"
    return "\n".join([head, *(part for path, found in _commands(name) for part in _command(path, found))])


PAGES: Final[Mapping[str, Callable[[], str]]] = MappingProxyType(
    {"cli.md": page} | {f"{_FOLDER}/{name}.md": partial(topic, name) for name in _TITLES}
)


def _topics() -> dict[str, Sequence[str]]:
    """Commands by page; one that is in no topic is on the last page."""
    named = {each for names in _TOPICS.values() for each in names}
    (*_, last) = _TOPICS
    rest = tuple(name for name in TABLE if name not in named)
    return {name: (*names, *rest) if name == last else names for name, names in _TOPICS.items()}


def _commands(name: str) -> Iterator[tuple[_Path, Command]]:
    for path, entry in walk():
        if path[0] in _topics()[name] and not entry.commands:
            found = load(path, entry)
            assert isinstance(found, Command)
            yield path, found


@cache
def _common() -> Mapping[str, click.Option]:
    """What many commands say of an option in the same words."""
    counts: Counter[str] = Counter()
    options: dict[str, click.Option] = {}
    for name in _TOPICS:
        for path, found in _commands(name):
            for each in _options(found):
                line = _option(each, _context(path, found))
                counts[line] += 1
                options[line] = each
    return {line: options[line] for line, count in counts.items() if count >= _COMMON}


def _options(found: Command) -> Iterator[click.Option]:
    return (each for each in found.params if isinstance(each, click.Option))


def _context(path: _Path, found: Command) -> Context:
    return Context(found, info_name=" ".join((PROGRAM, *path)))


def _exit_codes() -> Iterator[str]:
    yield "## Exit codes\n"
    yield table(("Code", "Meaning"), ((str(int(code)), code.meaning) for code in ExitCode))


def _common_options() -> Iterator[str]:
    yield "## Options of many commands\n"
    yield "\n".join(_common()) + "\n"


def _overview() -> Iterator[str]:
    yield "## Commands\n"
    for name in _TITLES:
        rows = (
            item(f"[`{' '.join(words)}`]({_FOLDER}/{name}.md#{'-'.join(words)})", (), _summary(words[1:]))
            for words in ((PROGRAM, *path) for path, _ in _commands(name))
        )
        yield f"### {_TITLES[name]}\n"
        yield "\n".join(rows) + "\n"


def _summary(path: _Path) -> str:
    entries, (*above, name) = TABLE, path
    for group in above:
        entries = entries[group].commands
    return entries[name].summary


def _command(path: _Path, found: Command) -> Iterator[str]:
    context = _context(path, found)
    yield f"## {context.info_name}\n"
    yield f"```usage\n{context.info_name} {' '.join(found.collect_usage_pieces(context))}\n```\n"
    yield _prose(found.help or "")
    lines = {_option(each, context): each for each in _options(found)}
    own = [line for line in lines if line not in _common()]
    also = [f"`{each.opts[-1]}`" for line, each in lines.items() if line in _common()]
    yield from _joined(own)
    if also:
        yield f"Also {', '.join(also)} ([options of many commands](../cli.md#options-of-many-commands)).\n"
    for heading, shown in found.sections:
        yield f"{heading}:\n"
        language = "sh" if heading == "Examples" else ""
        yield f"```{language}\n" + "\n".join(shown) + "\n```\n"
    special = [
        f"- exit code {int(code)}: {text}" for code, text in found.codes.items() if text != code.meaning
    ]
    yield from _joined(special)


def _joined(lines: Iterable[str]) -> Iterator[str]:
    if text := "\n".join(lines):
        yield f"{text}\n"


def _prose(text: str) -> str:
    """The help text as Markdown: what click keeps as it is becomes a code block."""
    blocks = []
    for block in inspect.cleandoc(text).split("\n\n"):
        lines = block.splitlines()
        blocks.append("\n".join(["```", *lines[1:], "```"]) if lines[0] == "\b" else " ".join(lines))
    return "\n\n".join(blocks) + "\n"


def _option(option: click.Option, context: click.Context) -> str:
    default = option.get_help_extra(context).get("default", "")
    needed = "required" if option.required else f"default {default}" if default else ""
    flags = ", ".join(f"`{flag}`" for flag in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag else f" `{option.make_metavar(context)}`"
    return item(flags + value, (needed,), option.help or "")
