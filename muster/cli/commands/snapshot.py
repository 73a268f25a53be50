"""`snapshot`: record what stands in a cluster's queues."""

import argparse
import sys
from pathlib import Path
from typing import Final

from muster.cli.commands.declare import Commands, command
from muster.cli.commands.outputs import STDOUT, put
from muster.live.cluster.api import Api
from muster.live.cluster.kubeconfig import connect
from muster.live.snapshot import fetch_snapshot, format_snapshot

_ABOUT: Final = """\
Reads the queues of a cluster and every Workload in them that has not finished, and writes them as JSON, for
`report --snapshot`. Only lists are read; nothing is written to the cluster. Of pods it holds requests, node
selectors and tolerations, and no environment, command, volume, image, annotation or message.
Exit code 0, or 2 when the cluster cannot be read.
"""


def add(commands: Commands) -> None:
    parser = command(commands, "snapshot", help="record what stands in a cluster's queues", about=_ABOUT)
    parser.add_argument("--kubeconfig", required=True, type=Path, metavar="FILE", help="the cluster")
    parser.add_argument("--context", default="", metavar="NAME", help="default: the kubeconfig's current one")
    parser.add_argument("--out", default=STDOUT, metavar="OUT", help="default: standard output")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    put(
        options.out,
        format_snapshot(fetch_snapshot(Api(connect(options.kubeconfig, context=options.context), progress))),
    )
    return 0


def progress(plural: str, count: int) -> None:
    """Told on standard error, so that a long list is seen to come."""
    print(f"{count} {plural}", file=sys.stderr)
