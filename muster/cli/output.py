"""Where the text of a command goes: results to standard output or a file, progress to standard error."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from muster.cli.command import QUIET
from muster.errors import MusterError

if TYPE_CHECKING:
    from muster.preview.document import Report

# SIGTERM ends a command as Ctrl-C in a terminal does: everything is cleaned up, and no child stays.
# A terminal sends Ctrl-C to the process group. SIGTERM reaches this process alone, so it passes it on to its
# children in the group. Children in a group of their own are ended by the code that started them.

_WAKE_SECONDS: Final = 0.5


@contextlib.contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt in the block at a SIGTERM, unless another handler is in place. That and Ctrl-C
    end whatever the block waits for.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with _waking():
            yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextlib.contextmanager
def _waking() -> Iterator[None]:
    """Interrupt every wait of the main thread now and then, so that it handles the signals that came.

    Python handles a signal in the main thread, between two bytecodes. One that comes after the last
    bytecode before a blocking read or lock interrupts neither, nor does one that another thread receives.
    https://docs.python.org/3/library/signal.html#execution-of-python-signal-handlers
    """
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, _WAKE_SECONDS, _WAKE_SECONDS)
    try:
        yield
    finally:
        # The handler stays: without one, an alarm that is still pending would end the process.
        signal.setitimer(signal.ITIMER_REAL, 0)


def _interrupt(*_: object) -> None:
    for child in _children_in_group():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(child, signal.SIGTERM)
    raise KeyboardInterrupt


def _children_in_group() -> Iterator[int]:
    """https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html: `pid (name) state ppid pgrp ...`."""
    mine = (os.getpid(), os.getpgrp())
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # It has ended since.
            _, parent, group, *_ = file.read_text(errors="replace").rpartition(")")[2].split()
            if (int(parent), int(group)) == mine:
                yield int(file.parent.name)


STDOUT: Final = "-"


def put(where: str, text: str) -> None:
    """Write into a file, or to standard output where it is `-`. MusterError where a file cannot be made."""
    if where == STDOUT:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.flush()
        return
    try:
        Path(where).write_bytes(text.encode())
    except OSError as error:
        fix = "name a file that you may write to, in a folder that exists."
        raise MusterError(f"{where}: cannot be written: {error.strerror}.", fix=fix) from None


def put_json(document: object) -> None:
    """Write one JSON document to standard output."""
    put(STDOUT, json.dumps(document, indent=2) + "\n")


def is_terminal() -> bool:
    """Whether a person reads standard output. CI has terminals too, and keeps what it writes."""
    return sys.stdout.isatty() and not os.environ.get("CI") and os.environ.get("TERM") != "dumb"


def terminal_columns() -> int | None:
    """How wide the terminal of this process is; None where there is none."""
    return shutil.get_terminal_size().columns if is_terminal() else None


def format_report(report: Report, *, has_details: bool = False, is_drawn: bool = False) -> str:
    """A report for the terminal of this process, and as Markdown where there is none."""
    # Most commands have no report.
    from muster.preview.markdown import format_comment
    from muster.preview.terminal import format_terminal

    columns = terminal_columns()
    if columns is None:
        return format_comment(report, is_drawn=is_drawn)
    return format_terminal(report, columns=columns, has_colour=has_colour(), has_details=has_details)


def has_colour() -> bool:
    """Whether a terminal may have colours: https://no-color.org."""
    return not os.environ.get("NO_COLOR")


def is_quiet() -> bool:
    """Whether the running command was given `--quiet`."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(QUIET))


def note(text: str) -> None:
    """Write a line of progress, unless `--quiet` was given."""
    if not is_quiet():
        # In one write, other than `print`: both sides of a comparison may say something at the same time.
        click.echo(text, err=True)


@contextlib.contextmanager
def progress() -> Iterator[None]:
    """Show what the block writes to standard error, unless `--quiet` was given."""
    if not is_quiet():
        yield
        return
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stderr(nowhere):
        yield


def note_list(plural: str, count: int) -> None:
    """Progress of reading a cluster: `count` objects of this kind have been read."""
    note(f"{count} {plural}")
