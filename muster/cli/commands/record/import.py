"""`muster record import`."""

import gzip
import io
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from muster.cli.command import command
from muster.cli.options import FILE
from muster.cli.output import note
from muster.errors import MusterError
from muster.model.quantities import many
from muster.replay.csv_jobs import COLUMNS, COMMAND, CsvOptions, parse_csv, parse_sacct
from muster.replay.recording import Recording, RecordingError
from muster.replay.writer import write_recording
from muster.whole_file import read_at_most

_EXAMPLES = """
muster record import jobs.csv --out month.jsonl.gz
muster record import trace.csv --column submitted=submit_s --column duration=duration_s --out a.jsonl
muster record import sacct.txt --from sacct --zone Europe/Berlin --out month.jsonl.gz
"""
_START: Final = "2026-01-01T00:00:00Z"
_MAX_BYTES: Final = 512 * 1024 * 1024
# An answer of Prometheus names its type in its first lines.
_HEAD: Final = 4096


@command(examples=_EXAMPLES)
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
def cli(file: Path, *, kind: str, out: Path, columns: tuple[str, ...], start: str, zone: str) -> None:
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
