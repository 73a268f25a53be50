"""`muster record`, `record show` and `record import`."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from muster.cli.command import command
from muster.cli.options import (
    FILE,
    MemberType,
    context_option,
    json_option,
    kubeconfig_option,
    kubeconfig_path,
)
from muster.cli.output import STDOUT, note, put, put_json, terminal_columns
from muster.columns import format_columns
from muster.errors import ExitCode, MusterError
from muster.kubernetes.client import Client, connect
from muster.model.quantities import format_duration, many, parse_duration
from muster.model.stack import Scheduler
from muster.printable import sanitize_line
from muster.replay.csv_jobs import COLUMNS, COMMAND, CsvOptions, parse_csv, parse_sacct
from muster.replay.figures import TeamSummary, summarize
from muster.replay.recording import Recording, RecordingError
from muster.replay.recording_file import load_recording, write_recording
from muster.whole_file import read_at_most

if TYPE_CHECKING:
    from muster.controller.kube.connection import Connection

_SHOW_EXAMPLES = """
muster record show month.jsonl.gz
muster record show month.jsonl.gz --json
"""
_HEADINGS = (
    "team",
    "jobs",
    "started",
    "GPU-hours",
    "lost",
    "wait p50",
    "p95",
    "preempted",
    "evicted",
    "deleted",
)


@command(examples=_SHOW_EXAMPLES)
@click.argument("file", type=FILE, metavar="FILE")
@json_option
def record_show(file: Path, *, as_json: bool) -> None:
    """Show a recording by team: jobs, GPU-hours, waits and evictions.

    A wait is the time from a job's creation until it was admitted first, of the jobs that started. GPU-hours
    count from when quota was reserved until it was free again, within the time that was recorded; `lost` is
    the part of runs that were preempted or evicted.
    """
    recording = load_recording(file)
    for warning in recording.warnings:
        note(warning)
    teams = summarize(recording)
    if as_json:
        put_json(_to_json(recording, teams))
    else:
        put(STDOUT, _text(recording, teams))


def _text(recording: Recording, teams: Sequence[TeamSummary]) -> str:
    header = recording.header
    lines = [
        f"{_date(header.start)} to {_date(header.end)}, {header.scheduler}, "
        f"source: {sanitize_line(header.source)}, {many(len(recording.jobs), 'job')}",
        *(f"Nothing was recorded from {_date(gap.start)} to {_date(gap.end)}." for gap in recording.gaps),
        "",
        *format_columns(_HEADINGS, list(map(_row, teams)), right=_HEADINGS[1:], room=terminal_columns()),
    ]
    if header.left_out:
        lines += ["", "Not in the recording:", *(f"- {sanitize_line(each)}" for each in header.left_out)]
    return "\n".join(lines) + "\n"


def _row(team: TeamSummary) -> tuple[str, ...]:
    return (
        team.team,
        str(team.jobs),
        str(team.started),
        f"{team.gpu_hours:,.1f}",
        f"{team.lost_gpu_hours:,.1f}",
        _length(team.wait_p50),
        _length(team.wait_p95),
        str(team.preempted),
        str(team.evicted),
        str(team.deleted),
    )


def _to_json(recording: Recording, teams: Sequence[TeamSummary]) -> object:
    header = recording.header
    return {
        "scheduler": header.scheduler,
        "source": header.source,
        "start": header.start,
        "end": header.end,
        "jobs": len(recording.jobs),
        "left_out": list(header.left_out),
        "gaps": [asdict(gap) for gap in recording.gaps],
        "warnings": list(recording.warnings),
        "teams": [asdict(team) for team in teams],
    }


def _length(seconds: float | None) -> str:
    return "-" if seconds is None else format_duration(timedelta(seconds=round(seconds)))


def _date(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


_IMPORT_EXAMPLES = """
muster record import jobs.csv --out month.jsonl.gz
muster record import trace.csv --column submitted=submit_s --column duration=duration_s --out a.jsonl
muster record import sacct.txt --from sacct --zone Europe/Berlin --out month.jsonl.gz
"""
_START: Final = "2026-01-01T00:00:00Z"
_MAX_BYTES: Final = 512 * 1024 * 1024
# An answer of Prometheus names its type in its first lines.
_HEAD: Final = 4096


@command(examples=_IMPORT_EXAMPLES)
@click.argument("file", type=FILE, metavar="FILE")
@click.option(
    "--from",
    "kind",
    type=click.Choice(["csv", "sacct"]),
    default="csv",
    show_default=True,
    help="What FILE is. Plain text, or gzip.",
)
@click.option(
    "--out", required=True, type=FILE, metavar="OUT", help="The recording; gzip where it ends with .gz."
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME=HEADING",
    help=f"CSV: the heading of a column in FILE. NAME is one of {', '.join(COLUMNS)}. May be repeated.",
)
@click.option(
    "--start",
    default=_START,
    show_default=True,
    metavar="TIME",
    help="CSV: what times below 10^9 seconds count from.",
)
@click.option(
    "--zone", default="UTC", show_default=True, metavar="ZONE", help="sacct: the time zone of the cluster."
)
def record_import(
    file: Path, *, kind: str, out: Path, columns: tuple[str, ...], start: str, zone: str
) -> None:
    """Make a recording from a CSV file, or from Slurm's sacct.

    A CSV file has a line of headings and one line for each job. `submitted` and `team` are needed, and
    `duration` or `started` and `ended`; amounts are those of the whole job. Prometheus' metrics of Kueue
    cannot be imported: they hold counts and histograms by queue, and no job's size, order or duration.
    """
    text = _read(file)
    if kind == "csv":
        recording = parse_csv(
            text, CsvOptions(source=str(file), columns=_columns(columns), start=_time(start))
        )
    else:
        recording = parse_sacct(text, source=str(file), zone=_zone(zone))
    write_recording(out, recording)
    _report(out, recording)


def _report(out: Path, recording: Recording) -> None:
    note(f"{out}: {many(len(recording.jobs), 'job')}. Not in the recording:")
    for each in recording.header.left_out:
        note(f"- {each}")


def _read(file: Path) -> str:
    try:
        content = read_at_most(file, _MAX_BYTES)
        if content is not None and content.startswith(b"\x1f\x8b"):
            content = _unpacked(content)
        if content is None:
            raise RecordingError(
                f"{file}: more than {_MAX_BYTES // 2**20} MiB of text.", fix="import one month after another."
            )
        text = content.decode("utf-8-sig")
    except EOFError:
        raise RecordingError(f"{file}: its gzip data ends early.", fix="copy or export it again.") from None
    except (zlib.error, gzip.BadGzipFile, UnicodeDecodeError):
        raise RecordingError(
            f"{file}: neither text in UTF-8 nor gzip of it.", fix="export it again."
        ) from None
    except OSError as error:
        raise RecordingError(
            f"{file}: cannot be read: {error.strerror or error}.", fix="name a file."
        ) from None
    if not text.strip():
        raise RecordingError(f"{file}: the file is empty.", fix="export it again.")
    if _is_metrics(text):
        raise RecordingError(
            f"{file}: Prometheus' metrics are not imported. Kueue's are sums by queue: one job of 8 GPUs and "
            "eight jobs of one are the same series, so no job's size, order or duration can be read.",
            fix="write a CSV file of single jobs, record the cluster with `muster record` or "
            f"`muster:recording` from now on, or export them from Slurm: {COMMAND}",
        )
    if text.startswith('{"header":'):
        raise RecordingError(
            f"{file}: is a recording already.", fix=f"use it as it is: muster record show {file}"
        )
    if text.lstrip().startswith(("{", "[")):
        raise RecordingError(
            f"{file}: JSON is not imported.",
            fix=f"write a CSV file with a line for each job, or export them from Slurm: {COMMAND}",
        )
    return text


def _unpacked(packed: bytes) -> bytes | None:
    with gzip.open(io.BytesIO(packed)) as file:
        content: bytes = file.read(_MAX_BYTES + 1)
    return content if len(content) <= _MAX_BYTES else None


def _is_metrics(text: str) -> bool:
    """An answer of Prometheus' API, or the text that a program serves to it."""
    return text.lstrip().startswith(("# HELP ", "# TYPE ", "kueue_")) or (
        text.lstrip().startswith("{") and '"resultType"' in text[:_HEAD]
    )


def _columns(given: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in given:
        name, mark, heading = each.partition("=")
        if not mark or not heading or name not in COLUMNS:
            raise MusterError(
                f"--column {each}: not NAME=HEADING.", fix=f"NAME is one of {', '.join(COLUMNS)}."
            )
        found[name] = heading
    return found


def _time(text: str) -> float:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise MusterError(f"--start {text}: not a time.", fix=f"write it like {_START}.") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise MusterError(f"--zone {name}: not a time zone.", fix="write it like Europe/Berlin.") from None


_BEARER: Final = "Bearer "

_START_EXAMPLES = """
muster record --out month.jsonl.gz
muster record --context prod --out day.jsonl.gz --for 24h
muster record show day.jsonl.gz
"""
_START_CODES = {
    ExitCode.DONE: "The time is over, or Ctrl-C ended the recording; the file is complete.",
    ExitCode.OUTSIDE: "The cluster cannot be read, or the file cannot be written.",
}


@command(examples=_START_EXAMPLES, codes=_START_CODES)
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
