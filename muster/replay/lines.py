"""The lines of a recording's file: JSON Lines, each an object with one key.

    {"header": {"version": 1, "scheduler": "kueue", "start": 1764000000.0, ...}}   the first line
    {"job": {"id": "5f1c...", "team": "vision", "runs": [...], ...}}   a job, as it is known so far
    {"mark": 1764000300.0}             everything until this time is recorded
    {"gap": {"start": ..., "end": ...}}   nothing was recorded in this time

A job's later line replaces its earlier ones, so that a recorder only appends and a line that is written twice
changes nothing. Fields that have their default value are left out.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from muster.live.dataclass_json import MisfitError, from_json, to_json
from muster.live.sanitize import sanitize_line
from muster.replay.errors import RecordingError
from muster.replay.recording import Gap, Header, Job, Recording

VERSION: Final = 1
_DIGITS: Final = 3
# The first second of the year 10000, which no date can show.
_TOO_LATE: Final = 253_402_300_800.0
NO_RECORDING: Final = "write one with `muster record`, or with `muster record import`."


@dataclass(frozen=True, slots=True)
class Mark:
    """Everything until this time is recorded."""

    at: float


Line = Header | Job | Gap | Mark


def format_line(line: Line) -> bytes:
    """One line, with its line break."""
    match line:
        case Header():
            found: object = {"header": {"version": VERSION, **to_json(line, omits_defaults=True)}}
        case Job():
            found = {"job": to_json(line, omits_defaults=True)}
        case Gap():
            found = {"gap": to_json(line)}
        case Mark():
            found = {"mark": line.at}
    return json.dumps(_rounded(found), separators=(",", ":")).encode() + b"\n"


def parse_line(text: bytes, *, place: str) -> Line:
    """The line in a text; RecordingError when it is none. `place` is the file and the number of the line."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise _misfit(place, "not JSON") from None
    if not isinstance(found, dict) or len(found) != 1:
        raise _misfit(place, 'expected an object with one key, such as {"job": ...}')
    ((key, value),) = found.items()
    try:
        line = _parse(key, value, place)
    except MisfitError as error:
        raise _misfit(place, sanitize_line(str(error)).rstrip(".")) from None
    # Not a number is in no range.
    if not all(0 <= each < _TOO_LATE for each in _times(line)):
        raise _misfit(place, "a time is not between 1970 and 9999, in seconds since 1970")
    return line


def fold(lines: Iterable[Line], *, source: str) -> Recording:
    """The recording that the lines describe; RecordingError where there is none. The first is a header."""
    header: Header | None = None
    jobs: dict[str, Job] = {}
    gaps: list[Gap] = []
    for line in lines:
        match line:
            case Header():
                header = line if header is None else replace(header, end=max(header.end, line.end))
            case Job():
                jobs[line.id] = line
            case Gap():
                gaps.append(line)
            case Mark(at) if header is not None:
                header = replace(header, end=max(header.end, at))
    if header is None:
        raise RecordingError(f"{source}: the file is empty.", fix=NO_RECORDING)
    ordered = sorted(jobs.values(), key=lambda job: (job.created, job.tie, job.id))
    return Recording(header=header, jobs=tuple(ordered), gaps=tuple(gaps))


def _parse(key: str, value: object, place: str) -> Line:
    match key:
        case "header":
            return _parse_header(value, place)
        case "job":
            return from_json(Job, value, "job")
        case "gap":
            return from_json(Gap, value, "gap")
        case "mark":
            return from_json(Mark, {"at": value}, "mark")
    raise _misfit(place, f"unknown key {sanitize_line(key, longest=40)!r}; allowed: header, job, mark, gap")


def _times(line: Line) -> Iterator[float]:
    match line:
        case Header() | Gap():
            yield from (line.start, line.end)
        case Mark():
            yield line.at
        case Job():
            runs = ((run.reserved, run.admitted, run.evicted, run.ended) for run in line.runs)
            found = (line.created, line.arrived, line.left, *(each for run in runs for each in run))
            yield from (each for each in found if each is not None)


def _parse_header(value: object, place: str) -> Header:
    if not isinstance(value, dict):
        raise MisfitError("header: expected Header.")
    version = value.get("version")
    if version != VERSION:
        raise RecordingError(
            f"{place}: version {sanitize_line(str(version), longest=20)} of the format; this Muster reads "
            f"version {VERSION}.",
            fix="use the Muster that wrote it, or record again.",
        )
    return from_json(Header, {name: each for name, each in value.items() if name != "version"}, "header")


def _misfit(place: str, what: str) -> RecordingError:
    return RecordingError(f"{place}: {what}.", fix="remove the line, or record again.")


def _rounded(value: object) -> object:
    """Times to the millisecond: more digits are noise, and cost room."""
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return round(value, _DIGITS) if isinstance(value, float) else value
