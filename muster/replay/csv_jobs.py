"""Makes a recording from a CSV file with one job a line. docs/replay.md lists the columns.

Pure: text in, recording out. Where a list has a duration and no start, nothing is known of waits: the job is
recorded as if it had started when it was submitted.
"""

import csv
import io
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import Any, Final

from muster.model import names
from muster.model.quantities import parse_cpu, parse_memory
from muster.model.stack import Scheduler
from muster.replay.recording import End, Header, Job, PodSet, Recording, RecordingError, Run

COLUMNS: Final = (
    *("submitted", "team", "duration", "started", "ended", "gpus", "pods", "cpu", "memory", "pool"),
    *("queue", "priority", "priority_class", "end", "id", "user"),
)
REQUIRED: Final = ("submitted", "team")
_CSV_JOBS_ENDS: Final = {each.value: each for each in (End.FINISHED, End.FAILED, End.DELETED)}
# Smaller numbers count from the start that the user names: 10^9 is September 2001.
_EPOCH_FROM: Final = 1_000_000_000.0
_CSV_JOBS_LEFT_OUT: Final = (
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
        _csv_jobs_job({ours: row.get(theirs) or "" for ours, theirs in headings.items()}, number, options)
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
        left_out=_CSV_JOBS_LEFT_OUT if has_waits else (*_CSV_JOBS_LEFT_OUT, _NO_WAITS),
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
    if missing and len(there) == 1 and (separator := next(iter({";", "\t", "|"} & set(*there)), "")):
        raise RecordingError(
            f"{options.source}, line 1: the separator is {separator!r}.", fix="separate columns with commas."
        )
    if missing:
        raise RecordingError(
            f"{options.source}, line 1: no column {', '.join(missing)}; the file has: "
            f"{', '.join(there)[:200] or 'none'}.",
            fix="name the file's own columns, such as --column submitted=submit_s. A CSV file begins with "
            "its headings, such as submitted,team,gpus,duration.",
        )
    return {ours: there[theirs] for ours, theirs in wanted.items() if theirs in there}


def _csv_jobs_job(row: Mapping[str, str], number: int, options: CsvOptions) -> Job:
    place = f"{options.source}, line {number}"
    try:
        return _parse(row, number, options)
    except ValueError as error:
        raise RecordingError(
            f"{place}: {error}.", fix=f"correct the line; its columns may be {', '.join(COLUMNS)}."
        ) from None


def _parse(row: Mapping[str, str], number: int, options: CsvOptions) -> Job:
    if not row["team"]:
        raise ValueError("team is empty")
    created = _csv_jobs_time(row["submitted"], options, "submitted")
    run = _csv_jobs_run(row, created, options)
    pods = _count(row.get("pods") or "1", "pods")
    end = None if run is None else run.end
    return Job(
        id=row.get("id") or f"line-{number}",
        team=row["team"],
        queue=row.get("queue", ""),
        user=row.get("user", ""),
        created=created,
        priority=_csv_jobs_whole(row.get("priority") or "0", "priority"),
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


def _csv_jobs_run(row: Mapping[str, str], created: float, options: CsvOptions) -> Run | None:
    started = _csv_jobs_time(row["started"], options, "started") if row.get("started") else None
    if "started" in row and started is None:
        return None
    begin = created if started is None else started
    if begin < created:
        raise ValueError(f"started {row['started']} is before submitted {row['submitted']}")
    ended = _ended(row, begin, options)
    end = None if ended is None else _csv_jobs_end(row.get("end") or End.FINISHED)
    return Run(reserved=begin, admitted=begin, ended=ended, end=end)


def _ended(row: Mapping[str, str], begin: float, options: CsvOptions) -> float | None:
    if row.get("ended"):
        ended = _csv_jobs_time(row["ended"], options, "ended")
    elif row.get("duration"):
        ended = begin + _number(row["duration"], "duration")
    else:
        return None
    if ended < begin:
        raise ValueError("the job ends before it starts")
    return ended


def _csv_jobs_end(word: str) -> End:
    if word not in _CSV_JOBS_ENDS:
        raise ValueError(f"end {word!r}; allowed: {', '.join(_CSV_JOBS_ENDS)}")
    return _CSV_JOBS_ENDS[word]


def _requests(row: Mapping[str, str], pods: int) -> dict[str, int]:
    """Of one pod: the file has the amounts of the whole job."""
    found = {
        "cpu": int(parse_cpu(row["cpu"])) if row.get("cpu") else 0,
        "memory": int(parse_memory(row["memory"])) if row.get("memory") else 0,
        names.GPU_RESOURCE: _csv_jobs_whole(row["gpus"], "gpus") if row.get("gpus") else 0,
    }
    if found[names.GPU_RESOURCE] < 0 or found[names.GPU_RESOURCE] % pods:
        raise ValueError(f"gpus {row['gpus']} cannot be shared evenly by {pods} pods")
    return {resource: -(-amount // pods) for resource, amount in found.items() if amount}


def _csv_jobs_time(text: str, options: CsvOptions, column: str) -> float:
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


def _csv_jobs_whole(text: str, column: str) -> int:
    try:
        return int(text[:20])
    except ValueError:
        raise ValueError(f"{column} {text[:40]!r} is not a whole number") from None


def _count(text: str, column: str) -> int:
    found = _csv_jobs_whole(text, column)
    if found < 1:
        raise ValueError(f"{column} {text[:40]!r} is less than 1")
    return found


# Makes a recording from `sacct --parsable2` of Slurm (https://slurm.schedmd.com/sacct.html).
# Pure: text in, recording out. Steps (`123.batch`) are skipped. Several lines of one job, as `--duplicates`
# prints them for a job that was requeued, are its runs. A node becomes a pod.

FIELDS: Final = ("JobID", "Account", "Submit", "Start", "End", "State", "ReqTRES", "NNodes")
OPTIONAL: Final = ("Partition", "QOS")
COMMAND: Final = f"sacct --allusers --duplicates --parsable2 --format={','.join((*FIELDS, *OPTIONAL))}"
_MISSING: Final = ("", "Unknown", "None", "N/A")
_ENDS: Final[Mapping[str, End]] = {
    "COMPLETED": End.FINISHED,
    "CANCELLED": End.DELETED,
    "PREEMPTED": End.PREEMPTED,
    "REQUEUED": End.EVICTED,
    **dict.fromkeys(
        ("FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL", "DEADLINE", "REVOKED"), End.FAILED
    ),
}
_LAST: Final = (End.FINISHED, End.FAILED, End.DELETED)
_UNITS: Final = {"": 2**20, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
_MEMORY: Final = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)([KMGTP]?)[nc]?\Z")
_LEFT_OUT: Final = (
    "Priorities as numbers: Slurm's change while a job waits. The QOS is kept as the priority's name.",
    "Which job preempted which.",
    "Features, licenses and reservations that a job asked for. The partition is kept as its pool.",
)


def parse_sacct(text: str, *, source: str, zone: tzinfo) -> Recording:
    """The recording of a list; RecordingError names the line that cannot be read. `zone`: of times without
    one, as sacct prints them.
    """
    rows: dict[str, list[tuple[int, Mapping[str, str]]]] = defaultdict(list)
    reader = csv.DictReader(io.StringIO(text), delimiter="|", quoting=csv.QUOTE_NONE)
    headings, lines = read_rows(reader, source)
    missing = [each for each in FIELDS if each not in headings]
    if missing:
        raise RecordingError(f"{source}, line 1: no field {', '.join(missing)}.", fix=f"run: {COMMAND}")
    for number, row in enumerate(lines, start=2):
        id = row["JobID"] or ""
        if id and "." not in id:
            rows[id].append(
                (number, {key: value or "" for key, value in row.items() if isinstance(key, str)})
            )
    jobs = [_job(id, found, source, zone) for id, found in rows.items()]
    if not jobs:
        raise RecordingError(f"{source}: there is no job in it.", fix=f"run: {COMMAND}")
    ends = [at for job in jobs for run in job.runs for at in (run.reserved, run.ended) if at is not None]
    header = Header(
        scheduler=Scheduler.KUEUE,
        start=min(job.created for job in jobs),
        end=max([*ends, *(job.created for job in jobs)]),
        source="sacct",
        left_out=_LEFT_OUT,
    )
    return Recording(header=header, jobs=tuple(sorted(jobs, key=lambda job: (job.created, job.tie, job.id))))


def _job(id: str, rows: Sequence[tuple[int, Mapping[str, str]]], source: str, zone: tzinfo) -> Job:
    runs: list[Run] = []
    first, created = rows[0][1], None
    for number, row in rows:
        try:
            submitted = _time(row["Submit"], zone)
            run = _run(row, zone)
            pods = _pod_set(first)
        except ValueError as error:
            raise RecordingError(
                f"{source}, line {number}: {error}.", fix=f"correct it, or run: {COMMAND}"
            ) from None
        created = submitted if created is None else min(created, submitted or created)
        runs += [run] if run is not None else []
    if created is None:
        raise RecordingError(f"{source}, line {rows[0][0]}: no time in Submit.", fix=f"run: {COMMAND}")
    last = rows[-1][1]
    outcome = _end(last)
    left = _time(last["End"], zone) if outcome in _LAST else None
    return Job(
        id=id,
        team=first["Account"] or "none",
        created=created,
        pod_sets=(pods,),
        priority_class=first.get("QOS", ""),
        user=first.get("User", ""),
        runs=tuple(sorted(runs, key=lambda run: run.reserved)),
        left=left,
        outcome=outcome if left is not None else None,
    )


def _run(row: Mapping[str, str], zone: tzinfo) -> Run | None:
    """The run of a line; None where the job never started."""
    started, ended, end = _time(row["Start"], zone), _time(row["End"], zone), _end(row)
    if started is None or row["State"].startswith("PENDING") or (ended is not None and ended < started):
        return None
    if end is None:
        return Run(reserved=started, admitted=started)
    return Run(
        reserved=started,
        admitted=started,
        evicted=ended if end not in _LAST else None,
        ended=ended,
        end=end if ended is not None else None,
        reason=row["State"].split(" ")[0],
    )


def _end(row: Mapping[str, str]) -> End | None:
    return _ENDS.get(row["State"].split(" ")[0])


def _pod_set(row: Mapping[str, str]) -> PodSet:
    nodes = max(int(row["NNodes"]) if row["NNodes"].isdecimal() else 1, 1)
    amounts = _tres(row["ReqTRES"])
    partition = row.get("Partition", "")
    return PodSet(
        name="main",
        count=nodes,
        requests={resource: -(-amount // nodes) for resource, amount in amounts.items() if amount},
        pools=tuple(each for each in partition.split(",") if each),
    )


def _tres(text: str) -> dict[str, int]:
    """`cpu=8,gres/gpu=4,gres/gpu:a100=4,mem=64G` of the whole job. A kind of GPU is part of `gres/gpu`."""
    found = dict(each.split("=", 1) for each in text.split(",") if "=" in each)
    typed = sum(_whole(value) for key, value in found.items() if key.startswith("gres/gpu:"))
    return {
        "cpu": _whole(found.get("cpu", "0")) * 1000,
        "memory": _memory(found.get("mem", "0")),
        names.GPU_RESOURCE: _whole(found["gres/gpu"]) if "gres/gpu" in found else typed,
    }


def _whole(text: str) -> int:
    if not text.isdecimal() or len(text) > 15:
        raise ValueError(f"ReqTRES: {text[:40]!r} is not a whole number")
    return int(text)


def _memory(text: str) -> int:
    match = _MEMORY.match(text)
    if match is None:
        raise ValueError(f"ReqTRES: mem {text[:40]!r} is not an amount such as 64G")
    return round(float(match[1]) * _UNITS[match[2]])


def _time(text: str, zone: tzinfo) -> float | None:
    """Seconds since the epoch (SLURM_TIME_FORMAT=%s), or a time; None where sacct knows none."""
    if text in _MISSING:
        return None
    if text.isdecimal() and len(text) < 12:
        return float(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is not a time") from None
    return (found if found.tzinfo else found.replace(tzinfo=zone)).timestamp()
