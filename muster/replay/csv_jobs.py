"""Makes a recording from a CSV file with one job a line. docs/replay.md lists the columns.

Pure: text in, recording out. Where a list has a duration and no start, nothing is known of waits: the job is
recorded as if it had started when it was submitted.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from muster.model import names
from muster.model.quantities import parse_cpu, parse_memory
from muster.model.stack import Scheduler
from muster.replay.errors import RecordingError
from muster.replay.recording import End, Header, Job, PodSet, Recording, Run

COLUMNS: Final = (
    *("submitted", "team", "duration", "started", "ended", "gpus", "pods", "cpu", "memory", "pool"),
    *("queue", "priority", "priority_class", "end", "id"),
)
REQUIRED: Final = ("submitted", "team")
_ENDS: Final = {each.value: each for each in (End.FINISHED, End.FAILED, End.DELETED)}
# Smaller numbers count from the start that the user names: 10^9 is September 2001.
_EPOCH_FROM: Final = 1_000_000_000.0
_LEFT_OUT: Final = (
    "Preemptions and evictions, tolerations and node selectors: the list does not have them.",
)
_NO_WAITS: Final = "Waits: the list has durations only, so each job is recorded as started when submitted."


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvOptions:
    """`columns`: column of ours -> heading in the file, where they differ. `start`: what small numbers count
    from.
    """

    source: str
    columns: Mapping[str, str] = field(default_factory=dict)
    start: float = 0.0


def parse_csv(text: str, options: CsvOptions) -> Recording:
    """The recording of a list; RecordingError names the line that cannot be read."""
    reader = csv.DictReader(io.StringIO(text, newline=""))
    found, rows = read_rows(reader, options.source)
    headings = _headings(found, options)
    jobs = [
        _job({ours: row.get(theirs) or "" for ours, theirs in headings.items()}, number, options)
        for number, row in enumerate(rows, start=2)
    ]
    _refuse_repeated(jobs, options.source)
    if not jobs:
        raise RecordingError(f"{options.source}: there is no job in it.", fix="write one line for each job.")
    has_waits = "started" in headings
    ordered = sorted(jobs, key=lambda job: (job.created, job.tie, job.id))
    ends = [at for job in jobs for at in (job.created, job.left) if at is not None]
    header = Header(
        scheduler=Scheduler.KUEUE,
        start=ordered[0].created,
        end=max(ends),
        source="csv",
        left_out=_LEFT_OUT if has_waits else (*_LEFT_OUT, _NO_WAITS),
    )
    return Recording(header=header, jobs=tuple(ordered))


def read_rows(
    reader: "csv.DictReader[str]", source: str
) -> tuple[Sequence[str], list[dict[str | Any, str | Any]]]:
    """The headings and the rows; RecordingError names the line that is no CSV. A row that is too long has the
    key None, one that is too short the value None.
    """
    try:
        return reader.fieldnames or (), [*reader]
    except csv.Error as error:
        raise RecordingError(
            f"{source}, line {reader.line_num + 1}: it is no CSV: {error}.", fix="correct the line."
        ) from None


def _refuse_repeated(jobs: Sequence[Job], source: str) -> None:
    """A recording keeps the last state of each id, so two jobs of one id would be one."""
    first: dict[str, int] = {}
    for row, job in enumerate(jobs, start=1):
        if first.setdefault(job.id, row) != row:
            raise RecordingError(
                f"{source}: jobs {first[job.id]} and {row} have the same id.",
                fix="give each job an id of its own, or leave the column out.",
            )


def _headings(found: object, options: CsvOptions) -> dict[str, str]:
    """Ours -> theirs, of the columns that the file has."""
    there = {str(each).strip(): str(each) for each in found} if isinstance(found, list | tuple) else {}
    wanted = {ours: options.columns.get(ours, ours) for ours in COLUMNS}
    missing = [wanted[each] for each in REQUIRED if wanted[each] not in there]
    missing += [
        theirs for theirs in options.columns.values() if theirs not in there and theirs not in missing
    ]
    if not {wanted["duration"], wanted["started"]} & there.keys():
        missing.append(f"{wanted['duration']} (or {wanted['started']})")
    if missing:
        raise RecordingError(
            f"{options.source}, line 1: no column {', '.join(missing)}; the file has: "
            f"{', '.join(there)[:200] or 'none'}.",
            fix="name the file's own columns, such as --column submitted=submit_s. A CSV file begins with "
            "its headings, such as submitted,team,gpus,duration.",
        )
    return {ours: there[theirs] for ours, theirs in wanted.items() if theirs in there}


def _job(row: Mapping[str, str], number: int, options: CsvOptions) -> Job:
    place = f"{options.source}, line {number}"
    try:
        return _parse(row, number, options)
    except ValueError as error:
        raise RecordingError(
            f"{place}: {error}.", fix="correct the line; docs/replay.md lists the columns."
        ) from None


def _parse(row: Mapping[str, str], number: int, options: CsvOptions) -> Job:
    if not row["team"]:
        raise ValueError("team is empty")
    created = _time(row["submitted"], options, "submitted")
    run = _run(row, created, options)
    pods = _count(row.get("pods") or "1", "pods")
    end = None if run is None else run.end
    return Job(
        id=row.get("id") or f"line-{number}",
        team=row["team"],
        queue=row.get("queue", ""),
        created=created,
        priority=_whole(row.get("priority") or "0", "priority"),
        priority_class=row.get("priority_class", ""),
        tie=0,
        pod_sets=(
            PodSet(
                name="main",
                count=pods,
                requests=_requests(row, pods),
                pools=(row["pool"],) if row.get("pool") else (),
            ),
        ),
        runs=() if run is None else (run,),
        left=None if run is None else run.ended,
        outcome=end,
    )


def _run(row: Mapping[str, str], created: float, options: CsvOptions) -> Run | None:
    started = _time(row["started"], options, "started") if row.get("started") else None
    if "started" in row and started is None:
        return None
    begin = created if started is None else started
    if begin < created:
        raise ValueError(f"started {row['started']} is before submitted {row['submitted']}")
    ended = _ended(row, begin, options)
    end = None if ended is None else _end(row.get("end") or End.FINISHED)
    return Run(reserved=begin, admitted=begin, ended=ended, end=end)


def _ended(row: Mapping[str, str], begin: float, options: CsvOptions) -> float | None:
    if row.get("ended"):
        ended = _time(row["ended"], options, "ended")
    elif row.get("duration"):
        ended = begin + _number(row["duration"], "duration")
    else:
        return None
    if ended < begin:
        raise ValueError("the job ends before it starts")
    return ended


def _end(word: str) -> End:
    if word not in _ENDS:
        raise ValueError(f"end {word!r}; allowed: {', '.join(_ENDS)}")
    return _ENDS[word]


def _requests(row: Mapping[str, str], pods: int) -> dict[str, int]:
    """Of one pod: the file has the amounts of the whole job."""
    found = {
        "cpu": int(parse_cpu(row["cpu"])) if row.get("cpu") else 0,
        "memory": int(parse_memory(row["memory"])) if row.get("memory") else 0,
        names.GPU_RESOURCE: _whole(row["gpus"], "gpus") if row.get("gpus") else 0,
    }
    if found[names.GPU_RESOURCE] < 0 or found[names.GPU_RESOURCE] % pods:
        raise ValueError(f"gpus {row['gpus']} cannot be shared evenly by {pods} pods")
    return {resource: -(-amount // pods) for resource, amount in found.items() if amount}


def _time(text: str, options: CsvOptions, column: str) -> float:
    """Seconds since the epoch, seconds since `start`, or an ISO 8601 time (UTC without a zone)."""
    try:
        at = _number(text, column)
    except ValueError:
        try:
            found = datetime.fromisoformat(text)
        except ValueError:
            raise ValueError(f"{column} {text[:40]!r} is neither seconds nor a time") from None
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    return at if at >= _EPOCH_FROM else options.start + at


def _number(text: str, column: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < 1e11:
        raise ValueError(f"{column} {text[:40]!r} is not a number of seconds")
    return found


def _whole(text: str, column: str) -> int:
    try:
        return int(text[:20])
    except ValueError:
        raise ValueError(f"{column} {text[:40]!r} is not a whole number") from None


def _count(text: str, column: str) -> int:
    found = _whole(text, column)
    if found < 1:
        raise ValueError(f"{column} {text[:40]!r} is less than 1")
    return found
