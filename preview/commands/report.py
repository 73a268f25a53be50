"""`report`: what differs between two descriptions of a stack, for whom."""

import argparse
import json
from typing import Final

from preview import markdown
from preview.commands.declare import Commands, command
from preview.commands.outputs import STDOUT, put
from preview.inputs import InputError, Named, gather
from preview.page import page
from preview.parts import Report
from preview.record import record
from preview.report import Told
from preview.report import write as report_of

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


def add(commands: Commands) -> None:
    parser = command(
        commands,
        "report",
        help="what differs between two descriptions of a stack, for whom",
        about=_REPORT,
        examples=_EXAMPLES,
    )
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
    parser.add_argument("--json", metavar="OUT", nargs="?", const=STDOUT, help="for programs")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    outputs = [options.markdown, options.html, options.json]
    if outputs.count(STDOUT) > 1:
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
        put(options.markdown or STDOUT, markdown.comment(report))
    if options.html:
        put(options.html, page(report))
    if options.json:
        put(options.json, json.dumps(record(stacks), indent=2) + "\n")
