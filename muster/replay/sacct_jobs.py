"""Makes a recording from `sacct --parsable2` of Slurm (https://slurm.schedmd.com/sacct.html).

Pure: text in, recording out. Steps (`123.batch`) are skipped. Several lines of one job, as `--duplicates`
prints them for a job that was requeued, are its runs. A node becomes a pod.
"""

import csv
import io
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Final

from muster.model import names
from muster.model.stack import Scheduler
from muster.replay.csv_jobs import read_rows
from muster.replay.errors import RecordingError
from muster.replay.recording import End, Header, Job, PodSet, Recording, Run

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
