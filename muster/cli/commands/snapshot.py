"""`muster snapshot`."""

from pathlib import Path

import click

from muster.cli.command import command
from muster.cli.options import context_option, kubeconfig_option, kubeconfig_path
from muster.cli.output import STDOUT, note, note_list, put
from muster.errors import ExitCode
from muster.kubernetes.client import connect
from muster.live.snapshot import fetch_snapshot, format_snapshot
from muster.model.stack import Scheduler

_EXAMPLES = """
muster snapshot > snapshot.json
muster snapshot --context prod --out snapshot.json
"""


@command(examples=_EXAMPLES, codes={ExitCode.OUTSIDE: "The cluster cannot be read."})
@kubeconfig_option
@context_option
@click.option(
    "--out", default=STDOUT, metavar="OUT", help="Where to write; - is standard output, the default."
)
def cli(*, kubeconfig: Path | None, context: str, out: str) -> None:
    """Record the queues of a cluster and their Workloads as JSON.

    For `muster diff --snapshot` and `muster what-if --snapshot`. Holds every Workload that has not finished,
    or with KAI every PodGroup, its pods and the nodes; of pods it holds requests, node selectors,
    tolerations, and with KAI their node and share of a GPU, and no environment, command, volume, image, other
    annotation or message. Only lists are read; nothing is written to the cluster.
    """
    api = connect(kubeconfig_path(kubeconfig), context=context, progress=note_list)
    found = fetch_snapshot(api)
    if found.scheduler is Scheduler.KAI and found.pod_groups is None:
        note("`list` is missing on pods, nodes, podgroups or bindrequests: `muster what-if` needs them.")
    put(out, format_snapshot(found))
