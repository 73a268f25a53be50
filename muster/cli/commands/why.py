"""`muster why`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from muster.cli.command import command
from muster.cli.options import context_option, json_option, kubeconfig_option, kubeconfig_path
from muster.cli.output import STDOUT, put, put_json
from muster.errors import ExitCode, MusterError
from muster.live.cluster.api import Api
from muster.live.cluster.kubeconfig import connect
from muster.live.errors import PreviewError
from muster.live.why.format import format_status, to_json
from muster.live.why.job_status import fetch_status

_EXAMPLES = """
muster why team-a/train
muster why team-a/train --kubeconfig ~/.kube/config --context prod --json
"""
_CODES = {
    ExitCode.DONE: "The job was found.",
    ExitCode.FOUND: "There is no job and no Workload of this name.",
}


@command(examples=_EXAMPLES, codes=_CODES)
@click.argument("job", metavar="NAMESPACE/NAME")
@kubeconfig_option
@context_option
@json_option
def cli(job: str, *, kubeconfig: Path | None, context: str, as_json: bool) -> None:
    """Explain what a job is waiting for.

    Shows its place in the queue, the quota that it lacks, its requests for capacity, deadlines, and the last
    events. NAME is a RayJob, RayCluster, RayService or Job, or the name of a Workload. Reads only.
    """
    namespace, slash, name = job.partition("/")
    if not (slash and namespace and name) or "/" in name:
        raise PreviewError(f"{job!r} is no NAMESPACE/NAME. Fix: write it like team-a/train.")
    status = fetch_status(Api(connect(kubeconfig_path(kubeconfig), context=context)), namespace, name)
    if status is None:
        message = f"{job}: there is no job and no Workload of this name."
        raise MusterError(message, fix="kubectl get workloads -A lists them.", exit_code=ExitCode.FOUND)
    if as_json:
        put_json(to_json(status))
    else:
        put(STDOUT, format_status(status, now=datetime.now(UTC)))
