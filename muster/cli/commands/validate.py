"""`validate`: check stack files, offline."""

import argparse
import sys
from pathlib import Path

from muster.cli.commands.declare import Commands, command
from muster.live.errors import PreviewError
from muster.preview.validate import Format, check_file, format_findings

_ABOUT = """\
Checks every stack file, offline: schema, rules, cloud tables. Exit code 0 when each is a stack, 1 when one is
not, 2 when there is nothing to check.
"""


def add(commands: Commands) -> None:
    parser = command(commands, "validate", help="check stack files, offline", about=_ABOUT)
    parser.add_argument("files", nargs="*", metavar="FILE", help="default: stacks/Pulumi.*.yaml")
    formats = [each.value for each in Format]
    parser.add_argument(
        "--format",
        choices=formats,
        default=Format.TEXT.value,
        help="text; json; github (annotations of a workflow); gitlab (a Code Quality report)",
    )
    parser.add_argument("--json", action="store_const", const=Format.JSON.value, dest="format")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    files = [Path(name) for name in options.files] or sorted(Path("stacks").glob("Pulumi.*.yaml"))
    if not files:
        raise PreviewError("there is no stacks/Pulumi.*.yaml here. Fix: name the stack files.")
    checked = [check_file(path) for path in files]
    sys.stdout.write(format_findings(checked, Format(options.format)))
    return 1 if any(each.errors for each in checked) else 0
