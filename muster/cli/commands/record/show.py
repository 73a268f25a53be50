"""`muster record show`."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from muster.cli.command import command
from muster.cli.options import FILE, json_option
from muster.cli.output import STDOUT, note, put, put_json
from muster.live.fields import format_columns
from muster.model.quantities import format_duration, many
from muster.printable import sanitize_line
from muster.replay.figures import TeamSummary, summarize
from muster.replay.reader import load_recording
from muster.replay.recording import Recording

_EXAMPLES = """
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


@command(examples=_EXAMPLES)
@click.argument("file", type=FILE, metavar="FILE")
@json_option
def cli(file: Path, *, as_json: bool) -> None:
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
        *format_columns(_HEADINGS, list(map(_row, teams)), right=_HEADINGS[1:]),
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
