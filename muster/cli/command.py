"""What every command has in common: `--help` with examples and exit codes, and `--quiet`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import click

from muster.cli.extras import naming_extras
from muster.cli.formatter import Context, Formatter
from muster.errors import ExitCode

SETTINGS: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
QUIET: Final = "muster.quiet"
"""The key of `click.Context.meta` that holds whether `--quiet` was given."""


class Command(click.Command):
    """A command of the table. `codes` holds the meanings of exit codes that differ from the general ones."""

    context_class = Context

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
            return super().parse_args(ctx, args)
        except click.MissingParameter:
            missing = [each for each in self.params if each.required and each.name not in ctx.params]
            listed = ", ".join(_written(each, ctx) for each in missing)
            raise click.UsageError(f"Missing: {listed}.", ctx) from None

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


def _written(parameter: click.Parameter, ctx: click.Context) -> str:
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
