"""`muster record start`, which `muster record` alone runs, too. It needs packages that the others do not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from muster.cli.command import command
from muster.cli.options import FILE, MemberType, context_option, kubeconfig_option, kubeconfig_path
from muster.cli.output import note
from muster.errors import ExitCode, MusterError
from muster.kubernetes.client import Client, connect
from muster.model.quantities import many, parse_duration
from muster.model.stack import Scheduler

if TYPE_CHECKING:
    from muster.controller.kube.connection import Connection


_BEARER: Final = "Bearer "

_EXAMPLES = """
muster record --out month.jsonl.gz
muster record --context prod --out day.jsonl.gz --for 24h
muster record show day.jsonl.gz
"""
_CODES = {
    ExitCode.DONE: "The time is over, or Ctrl-C ended the recording; the file is complete.",
    ExitCode.OUTSIDE: "The cluster cannot be read, or the file cannot be written.",
}


@command(examples=_EXAMPLES, codes=_CODES)
@kubeconfig_option
@context_option
@click.option(
    "--out",
    required=True,
    type=FILE,
    metavar="FILE",
    help="The recording; gzip where the name ends with .gz. An existing recording is continued.",
)
@click.option(
    "--for", "length", metavar="TIME", help="Stop after this time, such as 24h. Default: record until Ctrl-C."
)
@click.option(
    "--scheduler",
    type=MemberType(Scheduler),
    help="Whose jobs to record. Default: those that the cluster serves, Kueue's before KAI's.",
)
@click.option("--with-names", is_flag=True, help="Write the names of jobs, too.")
@click.option(
    "--rotate",
    type=click.IntRange(min=1),
    default=256,
    show_default=True,
    metavar="MIB",
    help="At this size, rename the file to NAME.0001.jsonl.gz and start a new one.",
)
def record_start(
    *,
    kubeconfig: Path | None,
    context: str,
    out: Path,
    length: str | None,
    scheduler: Scheduler | None,
    with_names: bool,
    rotate: int,
) -> None:
    """Record arrivals, runs and evictions of a cluster's jobs.

    Watches Kueue's Workloads, or KAI's PodGroups with their pods, and writes what each job asked for, when it
    started, when it was evicted and for which job, and when it ended. Needs rights to list and watch, and
    writes nothing to the cluster. The file has a hashed id for each job, and no job's name, image, command,
    environment or annotation. It has namespaces and the names of queues and priorities. The key of the
    hashes is in a file beside it.

    A recording that was interrupted, or whose process was killed, continues with the same command.
    """
    # What watches takes longer to import than `--help` may.
    from muster.replay.recorder import Order, record

    order = Order(
        out=out,
        scheduler=scheduler,
        seconds=None if length is None else _seconds(length),
        with_names=with_names,
        rotate_bytes=rotate * 2**20,
    )
    config = kubeconfig_path(kubeconfig)
    count = record(order, lambda: connection(connect(config, context=context)), note)
    note(f"{out}: {many(count, 'job')} recorded. `muster record show {out}` shows them by team.")


def connection(client: Client) -> Connection:
    """How the watch reaches the server that `client` reaches."""
    from muster.controller.kube.connection import Connection
    from muster.replay.recording import RecordingError

    access, authorization = client.access, client.credentials.headers().get("Authorization", "")
    if access.proxy or (authorization and not authorization.startswith(_BEARER)):
        raise RecordingError(
            f"{access.server}: a proxy or a password in the kubeconfig is not supported here.",
            fix="use a context with a token, a certificate or a credential plugin, and no proxy-url.",
        )
    token = authorization.removeprefix(_BEARER) or None
    return Connection(access.server, context=client.credentials.tls(), token=token)


def _seconds(length: str) -> float:
    try:
        return parse_duration(length).total_seconds()
    except ValueError as error:
        raise MusterError(f"--for: {error}.", fix="write it like 45m, 24h or 168h.") from None
