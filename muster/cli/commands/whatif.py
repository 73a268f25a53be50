"""`what-if`: what the real Kueue would do with running and waiting work."""

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import Final

from muster import config
from muster.cli.commands.declare import Commands, command
from muster.cli.commands.outputs import STDOUT, put
from muster.cli.commands.snapshot import progress
from muster.live.cluster.api import Api
from muster.live.cluster.kubeconfig import connect
from muster.live.snapshot import Snapshot, fetch_snapshot, load_snapshot
from muster.local import envtest
from muster.local.errors import LocalClusterError
from muster.model.gangpolicy import parse_duration
from muster.model.stack import Scheduler, Stack
from muster.preview import markdown
from muster.preview.document import Report
from muster.preview.html import format_html
from muster.preview.inputs import InputError
from muster.preview.whatif import kai
from muster.preview.whatif import report as told
from muster.preview.whatif.both import simulate_both
from muster.preview.whatif.job_simulator import Clock
from muster.preview.whatif.simulate import SimulationInput
from muster.preview.whatif.synthetic import synthetic_snapshot

_ABOUT: Final = """\
Boots a control plane that is thrown away (etcd, API server, the real Kueue; no node, no root), loads the
queues of base and of head and a snapshot of the Workloads, and lets Kueue decide: who is admitted, preempted
by whom, still waiting and why. Admission checks count as answered. Nothing is written to a cluster of yours.

With --duration jobs end, and the wait until each starts is told. Time is compressed for that: Kueue's own
time, some hundredths of a second a decision, counts --compress times.
"""

_EXAMPLES: Final = """\
examples:
  muster what-if --base old.yaml --head stacks/Pulumi.prod.yaml --kubeconfig ~/.kube/config
  muster what-if --base old.yaml --head new.yaml --snapshot snapshot.json --html what-if.html
  muster what-if --base old.yaml --head new.yaml --synthetic 200+50
  muster what-if ... --duration 2h --duration team-a=30m --compress 600

Exit code 0 when it was told, whatever it says; 1 when Kueue was not done with a side in time; 2 when the
input cannot be used.
"""


def add(commands: Commands) -> None:
    parser = command(
        commands,
        "what-if",
        help="what Kueue would do with the work that is there",
        about=_ABOUT,
        examples=_EXAMPLES,
    )
    parser.add_argument(
        "--base", required=True, type=Path, metavar="FILE", help="the stack before the change"
    )
    parser.add_argument("--head", required=True, type=Path, metavar="FILE", help="the stack with the change")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--snapshot", type=Path, metavar="FILE", help="what `preview snapshot` recorded")
    source.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="the live cluster; only lists are read"
    )
    source.add_argument("--synthetic", metavar="RUNNING+WAITING", help="made-up work of base's teams: 200+50")
    parser.add_argument(
        "--context", default="", metavar="NAME", help="of the kubeconfig; default: its current"
    )
    parser.add_argument(
        "--duration",
        action="append",
        default=[],
        metavar="[NAMESPACE=]TIME",
        help="how long jobs run, such as 2h or team-a=30m; none: they run for ever",
    )
    parser.add_argument("--compress", type=float, default=600.0, metavar="N", help="default: 600")
    parser.add_argument(
        "--seconds", type=float, default=600.0, metavar="N", help="most for a side; default: 600"
    )
    parser.add_argument("--markdown", metavar="OUT", help="- is standard output, the default")
    parser.add_argument("--html", metavar="OUT", help="one page that needs nothing else")
    parser.add_argument("--json", metavar="OUT", nargs="?", const=STDOUT, help="for programs: every decision")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    if not 0 < options.seconds < math.inf:
        raise InputError(f"--seconds {options.seconds:g}: a side takes some. Fix: write 600.")
    base, head = (_stack(path) for path in (options.base, options.head))
    clock = _clock(options)
    snapshot = _snapshot(options, base)
    name = options.head.name.removeprefix("Pulumi.").removesuffix(".yaml")
    if Scheduler.KAI in (base.scheduler, head.scheduler):
        if options.synthetic:
            raise InputError("--synthetic makes up work for Kueue alone. Fix: --snapshot or --kubeconfig.")
        told_of = name, base, head, snapshot
        _write(kai.to_report(*told_of), kai.to_json(*told_of), options)
        return 0
    question = SimulationInput(snapshot=snapshot, clock=clock, most=options.seconds)
    answer = _answer(name, base, head, question)
    _write(told.to_report(answer), told.to_json(answer), options)
    return 0 if answer.base.is_settled and answer.head.is_settled else 1


def _answer(name: str, base: Stack, head: Stack, question: SimulationInput) -> told.Comparison:
    begun = time.monotonic()

    def say(side: str, what: str) -> None:
        print(f"{time.monotonic() - begun:5.0f} s  {side}: {what}", file=sys.stderr, flush=True)

    try:
        before, after = simulate_both(base, head, question, envtest.ensure(), say)
    except LocalClusterError as error:
        raise InputError(str(error)) from None
    say("both", "decided")
    return told.Comparison(
        name=name,
        base=before,
        head=after,
        base_stack=base,
        head_stack=head,
        compression=question.clock.compression if question.clock else None,
    )


def _stack(path: Path) -> Stack:
    try:
        return config.load(path)
    except config.ConfigError as error:
        raise InputError(str(error)) from None


def _snapshot(options: argparse.Namespace, base: Stack) -> Snapshot:
    if options.snapshot:
        return load_snapshot(options.snapshot)
    if options.kubeconfig:
        return fetch_snapshot(Api(connect(options.kubeconfig, context=options.context), progress))
    running, plus, waiting = options.synthetic.partition("+")
    if not (plus and running.isdecimal() and waiting.isdecimal()):
        raise InputError(f"--synthetic {options.synthetic}: is no two counts. Fix: write 200+50.")
    return synthetic_snapshot(base, running=int(running), pending=int(waiting))


def _clock(options: argparse.Namespace) -> Clock | None:
    if not options.duration:
        return None
    if not 1 <= options.compress < math.inf:
        raise InputError(f"--compress {options.compress:g}: time cannot be stretched. Fix: write 1 or more.")
    lengths: dict[str, float] = {}
    for written in options.duration:
        namespace, _, length = written.rpartition("=")
        try:
            lengths[namespace] = parse_duration(length).total_seconds()
        except ValueError as error:
            raise InputError(f"--duration {written}: {error}. Fix: write 2h or team-a=30m.") from None
    return Clock(lengths, options.compress)


def _write(report: Report, record: object, options: argparse.Namespace) -> None:
    outputs = [options.markdown, options.html, options.json]
    if outputs.count(STDOUT) > 1:
        raise InputError("standard output takes one of --markdown, --html and --json. Fix: name files.")
    if options.markdown or not any(outputs):
        put(options.markdown or STDOUT, markdown.format_comment(report))
    if options.html:
        put(options.html, format_html(report))
    if options.json:
        put(options.json, json.dumps(record, indent=2) + "\n")
