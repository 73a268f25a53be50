"""Where the text of a command goes: results to standard output or a file, progress to standard error."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from muster.cli.command import QUIET
from muster.errors import MusterError

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
