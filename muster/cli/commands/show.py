"""`muster show`."""

from __future__ import annotations

from pathlib import Path

import click

from muster.cli.command import command
from muster.cli.options import existing_stack, json_option, stack_argument
from muster.cli.output import STDOUT, put, put_json
from muster.config import ConfigError
from muster.config.document import Document
from muster.config.merged import origin_records, plain_values, to_text
from muster.config.project import load_document
from muster.errors import ExitCode

_EXAMPLES = """
muster show prod
muster show prod --origins
muster show prod --json | jq '.config["muster:pools"]'
"""
_CODES = {ExitCode.UNUSABLE: "A file is not there, or cannot be merged with what it extends."}


@command(examples=_EXAMPLES, codes=_CODES)
@stack_argument
@click.option("--origins", is_flag=True, help="Add the file and the line of each value.")
@json_option
def cli(stack: str, *, origins: bool, as_json: bool) -> None:
    """Print a stack as Muster reads it: its file, what that extends, and what Pulumi.yaml sets.

    The result is a stack file of its own, without `muster:extends`. Its meaning is not checked: use
    `muster validate` for that.
    """
    document = load_document(existing_stack(stack))
    if document.violations:
        raise ConfigError(document.violations, document)
    if as_json:
        put_json(_record(document, origins=origins))
    else:
        put(STDOUT, to_text(document, origins=origins))


def _record(document: Document, *, origins: bool) -> dict[str, object]:
    found: dict[str, object] = {"file": Path(document.source).as_posix(), "config": plain_values(document)}
    return found | ({"origins": origin_records(document)} if origins else {})
