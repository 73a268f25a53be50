"""`muster why`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from muster.cli.command import command
from muster.cli.options import FILE, STACK, context_option, json_option, kubeconfig_option, kubeconfig_path
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
muster why team-a/5f1c0a6e7d20b911 --stack gke-prod --replay last-month.jsonl.gz
muster why -f job.yaml --team vision --stack gke-prod --replay last-month.jsonl.gz
"""
_CODES = {
    ExitCode.DONE: "The job was found.",
    ExitCode.FOUND: "There is no job and no Workload of this name.",
}


@command(examples=_EXAMPLES, codes=_CODES)
@click.argument("job", metavar="[NAMESPACE/NAME]", default="")
@kubeconfig_option
@context_option
@click.option(
    "--replay",
    type=FILE,
    metavar="RECORDING",
    help="Forecast when the job starts: play what may follow on this recording, many times.",
)
@click.option("--stack", type=STACK, metavar="STACK", help="With --replay: the stack whose quotas count.")
@click.option(
    "-f",
    "--file",
    type=FILE,
    metavar="FILE",
    help="With --replay: a job that is not submitted yet, in place of NAMESPACE/NAME.",
)
@click.option("--team", default="", metavar="TEAM", help="With -f: the team that would submit it.")
@click.option(
    "--at",
    metavar="TIME",
    help="With --replay: the moment to forecast from, such as 2026-11-23T10:00:00Z. Default: the "
    "recording's end.",
)
@click.option(
    "--runs",
    type=click.IntRange(10, 1000),
    default=40,
    show_default=True,
    metavar="N",
    help="With --replay: how many futures are played.",
)
@click.option(
    "--days",
    type=click.IntRange(1, 60),
    default=7,
    show_default=True,
    metavar="N",
    help="With --replay: how far a future reaches.",
)
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    metavar="N",
    help="With --replay: equal seeds give equal answers.",
)
@json_option
def cli(
    job: str,
    *,
    kubeconfig: Path | None,
    context: str,
    replay: Path | None,
    stack: str | None,
    file: Path | None,
    team: str,
    at: str | None,
    runs: int,
    days: int,
    seed: int,
    as_json: bool,
) -> None:
    """Explain what a job is waiting for, and with a recording, when it may start.

    Shows its place in the queue, the quota that it lacks, its requests for capacity, deadlines, and the last
    events. NAME is a RayJob, RayCluster, RayService or Job, or the name of a Workload. Reads only.

    With --replay nothing is read from a cluster. The job is one that waits in the recording, by its id or
    recorded name, or the one of -f. Kueue's own scheduler plays what may follow, with durations and arrivals
    drawn from the recording: an 80 % interval of the start, who is ahead, what must end, whom it preempts.
    """
    if replay is not None:
        if kubeconfig or context:
            raise PreviewError("--replay reads no cluster. Fix: leave --kubeconfig and --context out.")
        if not stack:
            raise PreviewError("--replay needs the quotas. Fix: name the stack: --stack STACK.")
        if (not job) == (file is None):
            raise PreviewError("--replay forecasts one job. Fix: name NAMESPACE/NAME, or -f FILE.")
        if (file is None) != (not team):
            raise PreviewError("-f and --team go together. Fix: give both or neither.")
        # What plays takes longer to import than `--help` may.
        from muster.cli.forecast import Asked, predict
        from muster.preview.replay import forecast_text
        from muster.preview.replay.forecast import Settings

        settings = Settings(runs=runs, seconds=days * 86_400, seed=seed)
        asked = Asked(
            stack=stack,
            recording=replay,
            at=_time(at),
            settings=settings,
            job=job,
            file=file,
            team=team,
        )
        found = predict(asked)
        if as_json:
            put_json(forecast_text.to_json(found))
        else:
            put(STDOUT, forecast_text.format_forecast(found))
        return
    if file or team or at or stack:
        raise PreviewError("-f, --team, --at and --stack need a recording. Fix: --replay RECORDING.")
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


def _time(written: str | None) -> datetime | None:
    if written is None:
        return None
    try:
        found = datetime.fromisoformat(written)
    except ValueError:
        raise PreviewError(f"--at {written}: is no time. Fix: write 2026-11-23T10:00:00Z.") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
