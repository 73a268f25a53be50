"""Commands of a shell as the documentation writes them: what each names exists.

Muster's own commands are parsed by the program. Of other programs the subcommand is looked up, of `make` the
target, of `python -m` the module.
"""

import importlib.util
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Final

import click

from muster.cli.command import Command, load
from muster.cli.run import root
from muster.cli.table import walk
from tests.unit.docs.blocks import ROOT

_PUNCTUATION: Final = frozenset("();<>|&\n")
_REDIRECTIONS: Final = frozenset({">", ">>", "<"})
_SUBSTITUTION: Final = re.compile(r"\$\(([^()]*)\)")
_ASSIGNMENT: Final = re.compile(r"[A-Z][A-Z0-9_]*=")
_SUBCOMMANDS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "aws": frozenset({"eks", "iam", "sts"}),
        "gcloud": frozenset({"auth", "compute", "container", "iam", "projects", "services", "storage"}),
        "git": frozenset({"add", "checkout", "clone", "commit", "config", "fetch", "init", "push", "tag"}),
        "kubectl": frozenset(
            {"annotate", "apply", "config", "create", "delete", "describe", "drain", "exec", "get", "label"}
            | {"logs", "patch", "port-forward", "replace", "rollout", "taint", "wait"}
        ),
        "npm": frozenset({"install"}),
        "pre-commit": frozenset({"install"}),
        "pip": frozenset({"download", "install"}),
        "pulumi": frozenset(
            {
                "cancel",
                "config",
                "destroy",
                "import",
                "login",
                "package",
                "preview",
                "refresh",
                "stack",
                "state",
            }
            | {"up"}
        ),
    }
)
# Without subcommands.
_PLAIN: Final = frozenset(
    {
        "awk",
        "cd",
        "check-jsonschema",
        "echo",
        "eval",
        "export",
        "grep",
        "jq",
        "kustomize",
        "sacct",
        "sed",
        "seq",
        "sha256sum",
        "tar",
    }
)


class UnknownCommandError(ValueError):
    """A command names what does not exist."""


def commands(script: str) -> Iterator[list[str]]:
    """The words of each simple command, without assignments and redirections."""
    text = re.sub(r"(^|\s)#.*", r"\1", script.replace("\\\n", " "), flags=re.MULTILINE)
    for inner in _SUBSTITUTION.findall(text):
        yield from commands(inner)
    text = _SUBSTITUTION.sub("SUBSTITUTED", text)
    lexer = shlex.shlex(text, posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace_split = True
    lexer.whitespace = " \t"
    lexer.commenters = ""
    words: list[str] = []
    tokens = iter(lexer)
    for token in tokens:
        if token in _REDIRECTIONS:
            next(tokens)
        elif set(token) <= _PUNCTUATION:
            yield from [words] if words else []
            words = []
        elif words or not _ASSIGNMENT.match(token):
            words.append(token)
    yield from [words] if words else []


def typed(console: str) -> Iterator[tuple[str, str]]:
    """Each command after a `$` and what is shown below it."""
    for part in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        while command.endswith("\\"):
            more, _, shown = shown.partition("\n")
            command = f"{command[:-1]} {more.removeprefix('> ')}"
        yield command, shown


def check(words: Sequence[str]) -> None:
    """UnknownCommandError where a command names what does not exist."""
    program, *arguments = words
    program = program.rpartition("/")[2]
    judge = _JUDGES.get(program)
    if judge is not None:
        judge(arguments)
    elif program in _SUBCOMMANDS:
        if not set(arguments) & _SUBCOMMANDS[program]:
            raise UnknownCommandError(f"{program}: none of {arguments} is a known subcommand")
    elif program not in _PLAIN:
        raise UnknownCommandError(f"{program} is not a program that the documentation uses")


def parse(arguments: Sequence[str]) -> tuple[str, ...]:
    """The path of the command of Muster that these arguments name. Its options and values are judged."""
    if {"--help", "--version"} & set(arguments):
        return ()
    command: click.Command = root()
    context: click.Context | None = None
    rest, path = list(arguments), []
    try:
        while isinstance(command, click.Group):
            context = command.make_context("muster", rest, parent=context)
            name, found, rest = command.resolve_command(context, [*context._protected_args, *context.args])
            assert found is not None
            path.append(str(name))
            command = found
        command.make_context(path[-1], rest, parent=context)
    except click.UsageError as error:
        raise UnknownCommandError(f"muster {' '.join(arguments)}: {error.format_message()}") from error
    return tuple(path)


@cache
def usages() -> frozenset[str]:
    """How each command is called, as the first line of its help shows it."""
    return frozenset(
        " ".join(("muster", *path, *command.collect_usage_pieces(click.Context(command))))
        for path, command in _every_command()
    )


@cache
def help_lines() -> frozenset[str]:
    """Each line of the help of a command, without its indentation."""
    return frozenset(
        line.strip()
        for _, command in _every_command()
        for text in (command.help or "", *("\n".join(lines) for _, lines in command.sections))
        for line in text.splitlines()
    )


def _every_command() -> Iterator[tuple[tuple[str, ...], Command]]:
    for path, entry in walk():
        command = load(path, entry)
        if isinstance(command, Command):
            yield path, command


def _make(arguments: Sequence[str]) -> None:
    targets = re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for target in arguments:
        if "=" not in target and target not in targets:
            raise UnknownCommandError(f"make has no target {target}")


def _python(arguments: Sequence[str]) -> None:
    flag, module, *rest = arguments
    if flag != "-m" or (importlib.util.find_spec(module) is None and not (ROOT / module).is_dir()):
        raise UnknownCommandError(f"python has no module {module}")
    for name in rest if module == "pytest" else ():
        if "/" in name and not (ROOT / name.partition("::")[0]).exists():
            raise UnknownCommandError(f"{name} does not exist")


def _muster(arguments: Sequence[str]) -> None:
    parse(arguments)


_JUDGES: Final[Mapping[str, Callable[[Sequence[str]], None]]] = MappingProxyType(
    {"make": _make, "muster": _muster, "python": _python, "python3": _python}
)
