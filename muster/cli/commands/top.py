"""`muster top`."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import click

from muster.cli.command import command
from muster.cli.follow import fit, pictures
from muster.cli.options import context_option, json_option, kubeconfig_option, kubeconfig_path
from muster.cli.output import STDOUT, is_terminal, put, put_json
from muster.errors import ExitCode, MusterError
from muster.kubernetes.client import connect
from muster.live.fields import to_json
from muster.live.mirror import Mirror
from muster.live.top import Top, format_top, paths, to_top

_EXAMPLES = """
muster top
muster top --once --context prod
muster top --namespace team-a
muster top --json
"""
# Of a text that no terminal shows; COLUMNS sets another.
_WIDTH = 200


@command(examples=_EXAMPLES, codes={ExitCode.OUTSIDE: "The cluster cannot be read, or has no queues."})
@click.option("-n", "--namespace", default="", metavar="NAMESPACE", help="Show the jobs of one namespace.")
@click.option("--once", is_flag=True, help="Show it once. Default without a terminal.")
@kubeconfig_option
@context_option
@json_option
def cli(*, namespace: str, once: bool, kubeconfig: Path | None, context: str, as_json: bool) -> None:
    """Show queues, jobs and nodes of a cluster as they change.

    Queues with quota, use, borrowed quota and waiting jobs; jobs with their step, deadline and reason; GPU
    nodes and the jobs that they run or were bought for. For any cluster with Kueue or KAI. Reads only, by
    list and watch; what you may not list is left out and named. Ctrl-C ends it.
    """
    mirror = Mirror(connect(kubeconfig_path(kubeconfig), context=context, tries=1), paths(namespace))
    mirror.read()
    if all("not served" in mirror.unreadable.get(name, "") for name in ("clusterqueues", "queues")):
        raise MusterError(
            "the cluster has no queues of Kueue or KAI.",
            fix="use the context of a cluster that runs one of them.",
            exit_code=ExitCode.OUTSIDE,
        )
    if as_json:
        put_json({"version": 1, **to_json(_top(mirror, datetime.now(UTC)))})
    elif once or not is_terminal():
        columns = shutil.get_terminal_size((_WIDTH, 24)).columns
        lines = format_top(_top(mirror, datetime.now(UTC))).splitlines()
        put(STDOUT, "".join(f"{fit(line, columns)}\n" for line in lines))
    else:
        mirror.follow()
        with pictures() as show:
            while True:
                show(lambda now: format_top(_top(mirror, now)))
                mirror.wait()


def _top(mirror: Mirror, now: datetime) -> Top:
    try:
        return to_top(mirror, now=now.replace(microsecond=0))
    except ValueError as error:
        raise MusterError(
            f"a quota of the cluster is no quantity: {error}", exit_code=ExitCode.OUTSIDE
        ) from None
