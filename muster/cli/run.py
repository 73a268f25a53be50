"""Runs the command that the arguments name and turns every error into a message and an exit code."""

import os
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from muster.cli.command import COMPLETION, Formatter, Group
from muster.cli.output import sigterm_interrupts
from muster.cli.table import TABLE
from muster.errors import ExitCode, MusterError
from muster.printable import sanitize_indented

PROGRAM: Final = "muster"
_ABOUT: Final = "GPU clusters whose nodes appear only when a whole gang can start."


class Root(Group):
    """`muster` itself: its help lists the commands and the exit codes that all of them share."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        assert isinstance(formatter, Formatter)
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(int(code)), code.meaning) for code in ExitCode])
        formatter.write_lines("Shell completion", ['eval "$(muster completion bash)"'])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Click would answer Ctrl-C and a closed pipe with exit codes of its own."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise MusterError("interrupted.", exit_code=ExitCode.INTERRUPTED) from None
        except BrokenPipeError:
            # The reader of the output has gone, such as `head`. Python flushes once more at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return ExitCode.OUTSIDE


def root() -> Root:
    """The root command."""
    group = Root((), TABLE, _ABOUT)
    group.params.append(
        click.Option(
            ["-V", "--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_print_version,
            help="Print the version and exit.",
        )
    )
    return group


def run(arguments: Sequence[str] | None) -> int:
    """Run one command; its exit code."""
    if sys.stdout is None:  # Closed by the caller, as `>&-` does: every write would fail.
        _report("standard output is closed.", "name a file or /dev/null in its place.")
        return int(ExitCode.UNUSABLE)
    try:
        with sigterm_interrupts():
            code = root().main(
                args=None if arguments is None else list(arguments),
                prog_name=PROGRAM,
                standalone_mode=False,
                color=False if os.environ.get("NO_COLOR") else None,
            )
    except MusterError as error:
        if COMPLETION in os.environ:  # The message would stand in the line that the user is typing.
            return int(error.exit_code)
        _report(error.message, error.fix)
        return int(error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return int(ExitCode.UNUSABLE)
    except click.UsageError as error:
        named = error.ctx.command_path if error.ctx else PROGRAM
        _report(" ".join(error.format_message().split()), f"see `{named} --help`.")
        return int(ExitCode.UNUSABLE)
    except click.ClickException as error:
        _report(error.format_message(), "")
        return int(ExitCode.UNUSABLE)
    except (click.Abort, KeyboardInterrupt):
        _report("interrupted.", "")
        return int(ExitCode.INTERRUPTED)
    except OSError as error:
        return int(_report_os_error(error))
    return int(code or ExitCode.DONE)


def _report_os_error(error: OSError) -> ExitCode:
    is_missing = isinstance(error, FileNotFoundError)
    if error.filename:
        fix = f"name a path that {'exists' if is_missing else 'you may use'}."
        _report(f"{error.filename}: {error.strerror}.", fix)
    elif is_missing:  # Only the working directory is looked up without a name.
        _report("the working directory is gone.", "change into one that exists.")
    else:
        _report(f"{error}.", "")
        return ExitCode.OUTSIDE
    return ExitCode.UNUSABLE


def _report(message: str, fix: str) -> None:
    """To standard error. A message may quote a server or a file: what a terminal would obey is taken out."""
    is_plain = not sys.stderr.isatty() or bool(os.environ.get("NO_COLOR"))
    for label, text, colour in (("Error: ", message, "red"), ("Fix: ", fix, "green")):
        if text:
            lines = "\n".join(sanitize_indented(line, longest=2000) for line in text.splitlines())
            click.echo(f"{label if is_plain else click.style(label, fg=colour, bold=True)}{lines}", err=True)


def _print_version(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        from muster.distribution import version

        click.echo(f"{PROGRAM} {version()}")
        context.exit()
