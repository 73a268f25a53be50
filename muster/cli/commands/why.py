"""`muster why`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from muster.cli.command import command
from muster.cli.commands.live import changes_of_work, follow_job, pictures
from muster.cli.options import (
    FILE,
    STACK,
    TEAM,
    context_option,
    existing_stack,
    job_place,
    json_option,
    kubeconfig_option,
    kubeconfig_path,
    namespace_option,
)
from muster.cli.output import STDOUT, put, put_json
from muster.errors import ExitCode, MusterError
from muster.kubernetes.client import Client, connect
from muster.live.snapshot import State
from muster.live.why.format import format_status, format_waiting, to_json
from muster.live.why.job_status import JobStatus, fetch_status, fetch_waiting
from muster.model.stack import Stack

if TYPE_CHECKING:
    from muster.preview.replay.forecast_text import Prediction
    from muster.replay.forecast import Outlook

_EXAMPLES = """
muster why team-a/train
muster why train --watch
muster why --all-namespaces
muster why team-a/train --kubeconfig ~/.kube/config --context prod --json
muster why team-a/train --stack gke-prod --recording last-month.jsonl.gz
muster why -f job.yaml --team vision --stack gke-prod --recording last-month.jsonl.gz
muster why --all --stack gke-prod --recording last-month.jsonl.gz
muster why team-a/5f1c0a6e7d20b911 --stack gke-prod --replay last-month.jsonl.gz
"""
_CODES = {
    ExitCode.DONE: "The job was found; with --watch it has finished.",
    ExitCode.FOUND: "There is no job and no Workload of this name; with --watch it failed.",
}
_NO_RECORDING: Final = (
    "  no forecast of its start: that takes a recording of past jobs. Fix: --recording FILE --stack STACK; "
    "`muster record` writes one\n"
)
_OFF: Final = "off"
_NO_WAIT: Final = "  no forecast: it does not wait for quota\n"


@command(examples=_EXAMPLES, codes=_CODES)
@click.argument("job", metavar="[[NAMESPACE/]NAME]", default="")
@namespace_option
@click.option(
    "-A", "--all-namespaces", "is_everywhere", is_flag=True, help="Without a name: in every namespace."
)
@click.option(
    "--watch", "is_watching", is_flag=True, help="Go on showing it as it changes, until it has finished."
)
@kubeconfig_option
@context_option
@click.option(
    "--recording",
    type=FILE,
    metavar="FILE",
    help="Forecast when the job starts: from what runs and waits in the cluster now, and the durations and "
    "arrivals of this recording.",
)
@click.option(
    "--replay",
    type=FILE,
    metavar="RECORDING",
    help="Forecast without a cluster: from what ran and waited in this recording.",
)
@click.option("--stack", type=STACK, metavar="STACK", help="With a forecast: the stack whose quotas count.")
@click.option(
    "-f",
    "--file",
    type=FILE,
    metavar="FILE",
    help="With a forecast: a job that is not submitted yet, in place of NAMESPACE/NAME.",
)
@click.option("--all", "is_all", is_flag=True, help="With a forecast: every job that waits, in one table.")
@click.option("--team", type=TEAM, default="", metavar="TEAM", help="With -f: the team that would submit it.")
@click.option(
    "--at",
    metavar="TIME",
    help="With --replay: the moment to forecast from, such as 2026-11-23T10:00:00Z. Default: the "
    "recording's end.",
)
@click.option(
    "--runs",
    type=click.IntRange(10, 1000),
    metavar="N",
    help="With a forecast: how many futures are played. Default: 40, with KAI 20.",
)
@click.option(
    "--days",
    type=click.IntRange(1, 60),
    default=7,
    show_default=True,
    metavar="N",
    help="With a forecast: how far a future reaches.",
)
@click.option(
    "--provisioning",
    multiple=True,
    metavar="POOL=TIME",
    help="With a forecast: how long nodes of a pool take after the reservation of quota, such as h100=8m. "
    "May be repeated. `off` alone: all nodes are there at once. Default: as long as in the recording.",
)
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    metavar="N",
    help="With a forecast: equal seeds give equal answers, with KAI nearly so.",
)
@click.option(
    "--alternatives/--no-alternatives",
    "with_alternatives",
    default=True,
    help="With -f: also play other sizes, pools and higher priorities, and report those that start sooner. "
    "Each takes as long as the forecast itself.",
)
@json_option
def cli(
    job: str,
    *,
    namespace: str,
    is_everywhere: bool,
    is_watching: bool,
    kubeconfig: Path | None,
    context: str,
    recording: Path | None,
    replay: Path | None,
    stack: str | None,
    file: Path | None,
    is_all: bool,
    team: str,
    at: str | None,
    runs: int | None,
    days: int,
    provisioning: tuple[str, ...],
    seed: int,
    with_alternatives: bool,
    as_json: bool,
) -> ExitCode | None:
    """Explain what a job is waiting for, and with a recording, when it may start.

    Shows its place in the queue, the quota that it lacks, its requests for capacity, deadlines, what keeps
    its pods from running with the last lines of their logs, and the last events. NAME is a job of any kind
    that is queued, or a Workload. Without a name every job that waits is listed. Reads only.

    With --recording, the stack's own scheduler plays what may follow, with durations and arrivals drawn from
    the recording: an 80 % interval of the start, who is ahead, what must end, whom the job preempts. What
    runs and waits is read from the cluster; -f asks about a job before it is submitted, --all about every
    job that waits.

    With --replay no cluster is read. The job is one that waits in the recording, by its id or recorded name,
    or the one of -f.
    """
    _check(job, recording=recording, replay=replay, stack=stack, file=file, is_all=is_all, team=team, at=at)
    if is_everywhere and (job or recording or replay):
        raise MusterError(
            "--all-namespaces lists what waits now.", fix="leave the job and the recording out."
        )
    if is_watching and (as_json or recording or replay):
        raise MusterError("--watch shows text without a forecast.", fix="leave the other option out.")
    if replay is not None and (kubeconfig or context):
        raise MusterError("--replay reads no cluster.", fix="leave --kubeconfig and --context out.")
    config = kubeconfig_path(kubeconfig)
    api = None if replay else connect(config, context=context)
    if job and api is not None:
        job = "/".join(job_place(job, namespace, config, context))
    if is_watching and api is not None and job:
        _status(api, job)  # a wrong name is an error at once
        return follow_job(api, *job.split("/"))
    if api is not None and recording is None and not job:
        where = "" if is_everywhere else job_place("", namespace, config, context)[0]
        _show_waiting(api, where, is_watching=is_watching, as_json=as_json)
        return None
    described = None if stack is None else _load(stack)
    status = _status(api, job) if api is not None and not file and not is_all else None
    found: Prediction | Outlook | None = None
    source = recording or replay
    if described and source and (status is None or _is_waiting(status)):
        from muster.cli.forecast import Asked, predict, predict_all
        from muster.replay.assumptions import parse_provisioning
        from muster.replay.forecast import Settings

        asked = Asked(
            stack=described,
            recording=source,
            runs=runs,
            api=api,
            at=_time(at),
            settings=Settings(
                seconds=days * 86_400,
                seed=seed,
                provisioning=None if provisioning == (_OFF,) else parse_provisioning(provisioning),
            ),
            job=f"{status.namespace}/{status.name}" if status is not None and status.workload else job,
            file=file,
            team=team,
            with_alternatives=with_alternatives,
        )
        found = predict_all(asked) if is_all else predict(asked)
    if as_json:
        put_json(_to_json(status, found))
    else:
        put(STDOUT, _to_text(status, found, is_asked=recording is not None))
    return None


def _show_waiting(api: Client, namespace: str, *, is_watching: bool, as_json: bool) -> None:
    if as_json:
        put_json({"version": 1, "waiting": [to_json(each) for each in fetch_waiting(api, namespace)]})
    elif not is_watching:
        put(STDOUT, format_waiting(fetch_waiting(api, namespace), now=datetime.now(UTC)))
    else:
        changes = changes_of_work(api, namespace)
        with pictures() as show:
            while True:
                show(lambda now: format_waiting(fetch_waiting(api, namespace), now=now))
                changes.wait()


def _check(
    job: str,
    *,
    recording: Path | None,
    replay: Path | None,
    stack: str | None,
    file: Path | None,
    is_all: bool,
    team: str,
    at: str | None,
) -> None:
    if recording is not None and replay is not None:
        raise MusterError("--recording and --replay exclude each other.", fix="--replay reads no cluster.")
    if recording is None and replay is None and (file or is_all or team or at or stack):
        raise MusterError(
            "-f, --all, --team, --at and --stack need a recording.",
            fix="--recording FILE, or --replay RECORDING without a cluster. `muster why` alone "
            "lists what waits now.",
        )
    if at is not None and replay is None:
        raise MusterError("--at names a moment of a recording.", fix="--replay RECORDING.")
    if (recording or replay) and not stack:
        raise MusterError("a forecast needs the quotas.", fix="name the stack: --stack STACK.")
    if (recording or replay) and sum((bool(job), file is not None, is_all)) != 1:
        raise MusterError(
            "a forecast is made of one job, or of all that wait.",
            fix="name NAMESPACE/NAME, -f FILE or --all.",
        )
    if (file is None) != (not team):
        raise MusterError("-f and --team go together.", fix="give both or neither.")


def _load(stack: str) -> Stack:
    # What a forecast needs takes longer to import than `--help` may.
    from muster.cli.forecast import load

    return load(existing_stack(stack))


def _status(api: Client, job: str) -> JobStatus:
    namespace, name = job.split("/")
    status = fetch_status(api, namespace, name)
    if status is None:
        message = f"{job}: there is no job and no Workload of this name."
        fix = "`muster why -A` lists what waits, and kubectl get workloads -A all."
        raise MusterError(message, fix=fix, exit_code=ExitCode.FOUND)
    return status


def _is_waiting(status: JobStatus) -> bool:
    """For quota, or with KAI for nodes."""
    if status.workload is None:
        return status.pods is not None and not status.pods.ready and not status.is_finished
    return status.workload.state is State.PENDING


def _to_json(status: JobStatus | None, found: Prediction | Outlook | None) -> object:
    forecast = None
    if found is not None:
        from muster.preview.replay import forecast_text

        forecast = forecast_text.to_json(found)
    return forecast if status is None else {**to_json(status), "forecast": forecast}


def _to_text(status: JobStatus | None, found: Prediction | Outlook | None, *, is_asked: bool) -> str:
    """The status, then the forecast or what keeps it from being made."""
    text = "" if status is None else format_status(status, now=datetime.now(UTC))
    if found is not None:
        from muster.preview.replay import forecast_text

        return f"{text}\n{forecast_text.format_forecast(found)}".lstrip("\n")
    if status is not None and _is_waiting(status):
        return text if status.note else text + _NO_RECORDING
    return text + _NO_WAIT if is_asked else text


def _time(written: str | None) -> datetime | None:
    if written is None:
        return None
    try:
        found = datetime.fromisoformat(written)
    except ValueError:
        raise MusterError(f"--at {written}: is no time.", fix="write 2026-11-23T10:00:00Z.") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
