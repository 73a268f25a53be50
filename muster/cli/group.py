"""Groups of commands, whose members are imported when they are named."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping

import click

from muster.cli.command import SETTINGS, Command
from muster.cli.extras import naming_extras
from muster.cli.formatter import Context
from muster.cli.table import Entry, module_of


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
            near = difflib.get_close_matches(args[0], self.entries, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"there is no command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self.entries.items()])


def load(path: tuple[str, ...], entry: Entry, of_group: tuple[str, ...] = ()) -> Command | Group:
    """The command or group of this name; a command's module is imported. `of_group`: its group's extras."""
    extras = entry.extras or of_group
    if entry.commands:
        return Group(path, entry.commands, entry.summary, default=entry.default, extras=extras)
    with naming_extras(extras):
        found = importlib.import_module(module_of(path)).cli
    assert isinstance(found, Command)
    found.name, found.extras = path[-1], extras
    found.short_help = entry.summary
    return found
