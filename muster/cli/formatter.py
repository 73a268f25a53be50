"""How `--help` looks: headings and names in colour on a terminal, examples in lines of their own."""

from __future__ import annotations

from collections.abc import Iterable

import click


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
