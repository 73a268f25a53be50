"""`report`: what differs between two descriptions of a stack, for whom."""

import argparse
import json
from pathlib import Path
from typing import Final

from muster.cli.commands.declare import Commands, command
from muster.cli.commands.outputs import STDOUT, put
from muster.cli.commands.snapshot import progress
from muster.live.cluster.api import Api
from muster.live.cluster.kubeconfig import connect
from muster.live.snapshot import Snapshot, fetch_snapshot, load_snapshot
from muster.preview import markdown
from muster.preview.compare.diff import StackDiff
from muster.preview.html import format_html
from muster.preview.inputs import InputError, SharedInputs, SideOptions, load_inputs, parse_stack_option
from muster.preview.json_report import to_json
from muster.preview.pricing import load_prices
from muster.preview.report import to_report as report_of

_REPORT: Final = """\
Compares two descriptions of a stack and says what changes, for whom: quota, borrowing, preemption, pools.
With plans (`pulumi preview --json --stack STACK > FILE`) it says which resources change, too; what base's
plan changes just the same is told apart. Several stacks at once: repeat the options; files belong together
by the stack's name (stacks/Pulumi.STACK.yaml, the plan's own, or what is written before `=`).
"""

_EXAMPLES: Final = """\
examples:
  git show origin/main:stacks/Pulumi.dev.yaml > /tmp/base.yaml
  muster diff --base /tmp/base.yaml --head stacks/Pulumi.dev.yaml --html preview.html
  muster diff --base-plan base.json --head-plan head.json --markdown comment.md
  muster diff --base none --head stacks/Pulumi.new.yaml
  muster diff --base base.yaml --head stacks/Pulumi.dev.yaml --kubeconfig ~/.kube/config
  muster diff --base a=a0.yaml b=b0.yaml --head a=a1.yaml b=b1.yaml --prices prices.yaml

Exit code 0 when the report was written, whatever it says; 2 when its input cannot be used.
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
    parser.add_argument(
        "--snapshot",
        nargs="+",
        action="extend",
        default=[],
        metavar="[STACK=]FILE",
        help="what `preview snapshot` recorded: who uses more than the new quota now",
    )
    parser.add_argument(
        "--kubeconfig",
        nargs="+",
        action="extend",
        default=[],
        metavar="[STACK=]FILE",
        help="the same, read from the live cluster; nothing is written to it",
    )
    parser.add_argument(
        "--context", default="", metavar="NAME", help="of the kubeconfig; default: its current"
    )
    parser.add_argument(
        "--prices", type=Path, metavar="FILE", help="your prices, YAML; see docs/pull-requests.md"
    )
    parser.add_argument("--markdown", metavar="OUT", help="the comment; - is standard output, the default")
    parser.add_argument("--html", metavar="OUT", help="one page that needs nothing else")
    parser.add_argument("--json", metavar="OUT", nargs="?", const=STDOUT, help="for programs")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    outputs = [options.markdown, options.html, options.json]
    if outputs.count(STDOUT) > 1:
        raise InputError("standard output takes one of --markdown, --html and --json. Fix: name files.")
    stacks = load_inputs(
        SideOptions(side="base", files=options.base, plans=options.base_plan),
        SideOptions(side="head", files=options.head, plans=options.head_plan),
        SharedInputs(prices=load_prices(options.prices), snapshots=_snapshots(options)),
    )
    _write(stacks, options)
    return 0


def _snapshots(options: argparse.Namespace) -> dict[str, Snapshot]:
    found: dict[str, Snapshot] = {}
    for value in options.snapshot:
        name, path = parse_stack_option(value)
        _once(found, name)
        found[name] = load_snapshot(path)
    for value in options.kubeconfig:
        name, path = parse_stack_option(value)
        _once(found, name)
        found[name] = fetch_snapshot(Api(connect(path, context=options.context), progress))
    return found


def _once(found: dict[str, Snapshot], name: str) -> None:
    if name in found:
        what = f"stack {name!r}" if name else "the only stack"
        raise InputError(
            f"{what} has two snapshots. Fix: name --snapshot or --kubeconfig once for each stack."
        )


def _write(stacks: list[StackDiff], options: argparse.Namespace) -> None:
    report = report_of(stacks)
    is_silent = not (options.markdown or options.html or options.json)
    if options.markdown or is_silent:
        put(options.markdown or STDOUT, markdown.format_comment(report))
    if options.html:
        put(options.html, format_html(report))
    if options.json:
        put(options.json, json.dumps(to_json(stacks), indent=2) + "\n")
