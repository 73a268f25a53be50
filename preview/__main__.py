"""`python -m preview`: check stack files, or tell what a change of them means.

validate  exit 0 when every file is a stack, 1 when one is not, 2 when there is nothing to check
report    exit 0 when the report was written, whatever it says; 2 when its input cannot be used
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from preview import markdown
from preview.foreign import plain
from preview.inputs import InputError, Named, gather
from preview.page import page
from preview.parts import Report
from preview.plan import PlanError
from preview.record import record
from preview.report import Told
from preview.report import write as report_of
from preview.validate import Format, check
from preview.validate import write as told

_STDOUT: Final = "-"

_REPORT: Final = """\
Compares two descriptions of a stack and says what changes, for whom: quota, borrowing, preemption, pools.
With plans (`pulumi preview --json --stack STACK > FILE`) it says which resources change, too; what base's
plan changes just the same is told apart. Several stacks at once: repeat the options; files belong together
by the stack's name (stacks/Pulumi.STACK.yaml, the plan's own, or what is written before `=`).
"""

_EXAMPLES: Final = """\
examples:
  git show origin/main:stacks/Pulumi.dev.yaml > /tmp/base.yaml
  python -m preview report --base /tmp/base.yaml --head stacks/Pulumi.dev.yaml --html preview.html
  python -m preview report --base-plan base.json --head-plan head.json --markdown comment.md
  python -m preview report --base none --head stacks/Pulumi.new.yaml
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the exit code."""
    options = _options(arguments)
    try:
        return _validate(options) if options.command == "validate" else _report(options)
    except (InputError, PlanError) as error:
        print(plain(str(error), longest=2000), file=sys.stderr)
    except OSError as error:
        print(f"{error.filename}: {error.strerror}.", file=sys.stderr)
    return 2


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m preview", description="What a change means, before it is."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _validate_options(commands.add_parser("validate", help="check stack files, offline"))
    _report_options(
        commands.add_parser(
            "report",
            help="what differs between two descriptions of a stack, for whom",
            description=_REPORT,
            epilog=_EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    )
    return parser.parse_args(arguments)


def _validate_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE", help="default: stacks/Pulumi.*.yaml")
    formats = [each.value for each in Format]
    parser.add_argument(
        "--format",
        choices=formats,
        default=Format.TEXT.value,
        help="text; json; github (annotations of a workflow); gitlab (a Code Quality report)",
    )
    parser.add_argument("--json", action="store_const", const=Format.JSON.value, dest="format")


def _report_options(parser: argparse.ArgumentParser) -> None:
    for side, what in (("base", "before the change"), ("head", "with the change")):
        parser.add_argument(
            f"--{side}",
            nargs="+",
            action="extend",
            default=[],
            metavar="[STACK=]FILE",
            help=f"the stack file {what}, or `none`",
        )
        parser.add_argument(
            f"--{side}-plan",
            nargs="+",
            action="extend",
            default=[],
            metavar="[STACK=]JSON",
            help=f"output of `pulumi preview --json` {what}; without a file, its description counts",
        )
    parser.add_argument("--markdown", metavar="OUT", help="the comment; - is standard output, the default")
    parser.add_argument("--html", metavar="OUT", help="one page that needs nothing else")
    parser.add_argument("--json", metavar="OUT", nargs="?", const=_STDOUT, help="for programs")


def _validate(options: argparse.Namespace) -> int:
    files = [Path(name) for name in options.files] or sorted(Path("stacks").glob("Pulumi.*.yaml"))
    if not files:
        raise InputError("there is no stacks/Pulumi.*.yaml here. Fix: name the stack files.")
    checked = [check(path) for path in files]
    sys.stdout.write(told(checked, Format(options.format)))
    return 1 if any(each.errors for each in checked) else 0


def _report(options: argparse.Namespace) -> int:
    outputs = [options.markdown, options.html, options.json]
    if outputs.count(_STDOUT) > 1:
        raise InputError("standard output takes one of --markdown, --html and --json. Fix: name files.")
    stacks = gather(
        Named(side="base", files=options.base, plans=options.base_plan),
        Named(side="head", files=options.head, plans=options.head_plan),
    )
    _write(stacks, options)
    return 0


def _write(stacks: list[Told], options: argparse.Namespace) -> None:
    report = Report(tuple(report_of(each) for each in stacks))
    is_silent = not (options.markdown or options.html or options.json)
    if options.markdown or is_silent:
        _put(options.markdown or _STDOUT, markdown.comment(report))
    if options.html:
        _put(options.html, page(report))
    if options.json:
        _put(options.json, json.dumps(record(stacks), indent=2) + "\n")


def _put(where: str, text: str) -> None:
    if where == _STDOUT:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.flush()
    else:
        Path(where).write_bytes(text.encode())


if __name__ == "__main__":
    sys.exit(main())
