"""What every command has in common: `--help` with examples and exit codes, and `--quiet`."""

import contextlib
import difflib
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import click

from muster.cli.table import Entry, implementation_of
from muster.errors import ExitCode, MusterError

# Which extras of the wheel bring what a command imports and what is not installed.

# Top-level module -> the extra of a command that the table gives no extras.
_EXTRAS: Final[Mapping[str, str]] = {
    "pulumi": "program",
    "pulumi_kubernetes": "program",
    "pulumi_policy": "program",
    "pulumi_aws": "eks",
    "boto3": "eks",
    "cel_expr_python": "check",
    "msgspec": "check",
    "botocore": "eks",
    "pulumi_gcp": "gke",
    "google": "gke",
    "googleapiclient": "gke",
    "google_auth_httplib2": "gke",
    "httplib2": "gke",
    "aiohttp": "local",
    "cryptography": "local",
    "packaging": "program",
    "rich": "local",
    "structlog": "controller",
}


def missing_extra(error: ModuleNotFoundError, extras: Sequence[str]) -> MusterError | None:
    """The error for a user whose installation lacks an extra; None for any other module. `extras`: what the
    command needs, as the table has it.
    """
    module = (error.name or "").partition(".")[0]
    if module not in _EXTRAS:
        return None
    # Reads what pip recorded; most commands need none of it.
    from muster.distribution import install_command

    needed = ",".join(extras) or _EXTRAS[module]
    return MusterError(
        f"this command needs the Python package {module}, which is not installed.",
        fix=f"install what the command needs: {install_command(needed)}",
    )


@contextlib.contextmanager
def naming_extras(extras: Sequence[str]) -> Iterator[None]:
    """Turn a failed import of the block into the error that names the extras."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = missing_extra(error, extras)
        if missing is None:
            raise
        raise missing from None


# How `--help` looks: headings and names in colour on a terminal, examples in lines of their own.


class Formatter(click.HelpFormatter):
    """Click's formatter with colour. Click removes the colour where the output is not a terminal."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        super().write_usage(click.style(prog, fg="cyan"), args, click.style("Usage: ", bold=True))

    def write_heading(self, heading: str) -> None:
        self.write(f"{'':>{self.current_indent}}{click.style(heading + ':', bold=True)}\n")

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl([(click.style(name, fg="cyan"), text) for name, text in rows], col_max, col_spacing)

    def write_lines(self, heading: str, lines: Iterable[str]) -> None:
        """A section whose lines stay as they are."""
        with self.section(heading):
            for line in lines:
                self.write(f"{'':>{self.current_indent}}{line}".rstrip() + "\n")


class Context(click.Context):
    formatter_class = Formatter


SETTINGS: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
COMPLETION: Final = "_MUSTER_COMPLETE"
"""The variable by which the completion script of a shell asks for completions."""
QUIET: Final = "muster.quiet"
"""The key of `click.Context.meta` that holds whether `--quiet` was given."""


class Command(click.Command):
    """A command of the table. `codes` holds the meanings of exit codes that differ from the general ones."""

    context_class = Context
    # `parse_args` refuses them, in the words of the other messages.
    allow_extra_args = True

    def __init__(
        self,
        *arguments: Any,
        examples: str = "",
        codes: Mapping[ExitCode, str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self.extras: tuple[str, ...] = ()
        self.sections: list[tuple[str, tuple[str, ...]]] = []
        if examples:
            self.add_section("Examples", examples.strip().splitlines())
        self.codes = {code: (codes or {}).get(code, code.meaning) for code in ExitCode}
        self.params.append(_quiet())

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Name everything that is missing; click names the first. What is given was read before it."""
        try:
            extra = super().parse_args(ctx, args)
        except click.MissingParameter:
            missing = [each for each in self.params if each.required and each.name not in ctx.params]
            listed = ", ".join(_parameter_text(each, ctx) for each in missing)
            raise click.UsageError(f"Missing: {listed}.", ctx) from None
        if extra and not ctx.resilient_parsing:
            words = [each.make_metavar(ctx) for each in self.params if isinstance(each, click.Argument)]
            takes = f"no more than {' '.join(words)}" if words else "no argument"
            raise click.UsageError(
                f"the command takes {takes}, and was given {' '.join(extra)} as well.", ctx
            )
        return extra

    def invoke(self, ctx: click.Context) -> Any:
        with naming_extras(self.extras):  # What takes long to import, a command imports when it runs.
            return super().invoke(ctx)

    def add_section(self, heading: str, lines: Iterable[str]) -> None:
        """Add a part to the help text whose lines stay as they are."""
        self.sections.append((heading, tuple(lines)))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        assert isinstance(formatter, Formatter)
        for heading, lines in self.sections:
            formatter.write_lines(heading, lines)
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(int(code)), meaning) for code, meaning in self.codes.items()])


def command(
    *, examples: str = "", codes: Mapping[ExitCode, str] | None = None
) -> Callable[[Callable[..., ExitCode | None]], Command]:
    """Make the function a command of the table; its docstring is the help text."""

    def decorate(function: Callable[..., ExitCode | None]) -> Command:
        return click.command(cls=Command, examples=examples, codes=codes, context_settings=SETTINGS)(function)

    return decorate


def _parameter_text(parameter: click.Parameter, ctx: click.Context) -> str:
    """A parameter as a user writes it: `--team TEAM`, or the word of an argument."""
    word = parameter.make_metavar(ctx)
    return word if isinstance(parameter, click.Argument) else f"{max(parameter.opts, key=len)} {word}"


def _quiet() -> click.Option:
    return click.Option(
        ["-q", "--quiet"],
        is_flag=True,
        expose_value=False,
        callback=_remember,
        help="Print results and errors only, no progress.",
    )


def _remember(context: click.Context, _: click.Parameter, value: bool) -> None:
    context.meta[QUIET] = value


# Groups of commands, whose members are imported when they are named.


# What other command lines call it.
_ELSEWHERE: Final[Mapping[str, tuple[str, ...]]] = {
    "help": ("--help",),
    "version": ("--version",),
    "list": ("top",),
    "queues": ("top",),
    "status": ("top", "local status"),
}


class Group(click.Group):
    """The commands of one part of the table."""

    context_class = Context

    def __init__(
        self,
        path: tuple[str, ...],
        entries: Mapping[str, Entry],
        help: str,
        *,
        default: str = "",
        extras: tuple[str, ...] = (),
    ) -> None:
        super().__init__(
            path[-1] if path else "muster",
            help=help,
            context_settings=SETTINGS,
            subcommand_metavar="COMMAND [OPTIONS]...",
        )
        self.path = path
        self.entries = entries
        self.default = default
        self.extras = extras

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.entries.get(cmd_name)
        return None if entry is None else load((*self.path, cmd_name), entry, self.extras)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if self.default and args and args[0].startswith("-") and args[0] not in ctx.help_option_names:
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.entries and not args[0].startswith("-"):
            other = () if self.path else _ELSEWHERE.get(args[0], ())
            near = other or difflib.get_close_matches(args[0], self.entries, n=1)
            hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise click.UsageError(f"there is no command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self.entries.items()])


class _NotInstalled(Command):
    """A command whose packages are missing: `--help` says what it does and what it needs, all else fails."""

    def __init__(self, name: str, summary: str, error: MusterError) -> None:
        fix = error.fix[:1].upper() + error.fix[1:]
        super().__init__(name, short_help=summary, help=f"{summary}\n\n{error.message}\n\n\b\n{fix}")
        self._error = error

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not {*args} & {*ctx.help_option_names}:
            raise self._error
        return super().parse_args(ctx, [ctx.help_option_names[0]])


def load(path: tuple[str, ...], entry: Entry, of_group: tuple[str, ...] = ()) -> Command | Group:
    """The command or group of this name; a command's module is imported. `of_group`: its group's extras."""
    extras = entry.extras or of_group
    if entry.commands:
        return Group(path, entry.commands, entry.summary, default=entry.default, extras=extras)
    module, function = implementation_of(path)
    try:
        with naming_extras(extras):
            found = getattr(importlib.import_module(module), function)
    except MusterError as error:
        return _NotInstalled(path[-1], entry.summary, error)
    assert isinstance(found, Command)
    found.name, found.extras = path[-1], extras
    found.short_help = entry.summary
    return found
