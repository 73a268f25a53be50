"""`why`: where a job stands."""

import argparse
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from muster.cli.commands.declare import Commands, command
from muster.live.cluster.api import Api
from muster.live.cluster.kubeconfig import connect
from muster.live.errors import PreviewError
from muster.live.sanitize import sanitize_line
from muster.live.why.format import format_status, to_json
from muster.live.why.job_status import fetch_status

_ABOUT: Final = """\
Where a job stands: its place in the queue, the quota that it lacks, its requests for capacity, deadlines, and
the last events. NAME is a RayJob, RayCluster, RayService or Job, or the name of a Workload. Reads and never
writes.

Exit code 0 when the job was found, 1 when there is none, 2 when the cluster cannot be read.
"""
_EXAMPLES: Final = """\
examples:
  muster why team-a/train
  muster why team-a/train --kubeconfig ~/.kube/config --context prod --json
"""


def add(commands: Commands) -> None:
    parser = command(commands, "why", help="where a job stands", about=_ABOUT, examples=_EXAMPLES)
    parser.add_argument("job", metavar="NAMESPACE/NAME")
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="default: KUBECONFIG, or ~/.kube/config"
    )
    parser.add_argument("--context", default="", metavar="NAME", help="default: the kubeconfig's current one")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    namespace, slash, name = options.job.partition("/")
    if not (slash and namespace and name) or "/" in name:
        raise PreviewError(
            f"{sanitize_line(options.job)!r} is no NAMESPACE/NAME. Fix: write it like team-a/train."
        )
    standing = fetch_status(
        Api(connect(_kubeconfig(options.kubeconfig), context=options.context)), namespace, name
    )
    if standing is None:
        print(f"{sanitize_line(options.job)}: there is no job and no Workload of this name.", file=sys.stderr)
        return 1
    told = json.dumps(to_json(standing), indent=2) + "\n" if options.json else None
    sys.stdout.write(told or format_status(standing, now=datetime.now(UTC)))
    return 0


def _kubeconfig(named: Path | None) -> Path:
    """Of several files in KUBECONFIG the first, which is what kubectl writes to."""
    first = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    return named or (Path(first) if first else Path.home() / ".kube" / "config")
