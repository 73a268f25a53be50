"""A standing in words, and for programs.

Decides the order: what it waits for first, then what was written about it. Leaves the words of waiting to
whoever wrote them on the Workload.
"""

from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

from muster.live.sanitize import sanitize_line
from muster.live.snapshot import State, Workload
from muster.live.why.job_status import JobStatus, StatusEntry
from muster.model.waiting import clock, rounded


def format_status(standing: JobStatus, *, now: datetime) -> str:
    """What a person reads: every line ends with a line end."""
    return "".join(f"{_sanitize(line)}\n" for line in _format_lines(standing, now))


def _sanitize(line: str) -> str:
    """Its indent, and the rest without what a terminal would obey."""
    words = line.lstrip(" ")
    return " " * (len(line) - len(words)) + sanitize_line(words, longest=1200)


def to_json(standing: JobStatus) -> dict[str, Any]:
    """The same for programs; times in ISO 8601."""
    return {"version": 1, "state": format_state(standing), **_jsonable(asdict(standing))}


def format_state(standing: JobStatus) -> str:
    """One word or two: `finished`, `not queued`, `inactive`, `pending`, `reserved` or `admitted`."""
    if standing.is_finished:
        return "finished"
    return "not queued" if standing.workload is None else str(standing.workload.state)


def _format_lines(standing: JobStatus, now: datetime) -> Iterator[str]:
    workload = standing.workload
    if workload is None:
        yield f"{standing.namespace}/{standing.name}: {format_state(standing)}"
        yield from _format_entry("", standing.condition("Finished"), now) if standing.is_finished else ()
        if standing.unqueued:
            yield f"  {standing.unqueued}"
        return
    yield f"{workload.namespace}/{workload.name}: {_format_headline(standing, workload)}"
    yield f"  {_format_job(standing, workload, now)}"
    yield from _format_waiting(standing, workload, now)
    for check in standing.checks:
        yield from _format_entry(f"check {check.name}: ", check, now)
    for request in standing.requests:
        yield from _format_entry(f"request {request.name}: ", request, now)
    if standing.events:
        yield "  last events:"
        for event in standing.events:
            yield f"    {_format_age(event.since, now)}{event.name}: {event.message}"


_HEADLINES: Final = {
    State.INACTIVE: "waits outside the quota",
    State.PENDING: "waits for quota",
    State.RESERVED: "has quota, waits for capacity",
    State.ADMITTED: "admitted: its pods may start",
}


def _format_headline(standing: JobStatus, workload: Workload) -> str:
    if workload.state is State.INACTIVE and standing.retry_at is None:
        return "refused" if standing.outside else "deactivated: nothing tries it again"
    return _HEADLINES[workload.state]


def _format_job(standing: JobStatus, workload: Workload, now: datetime) -> str:
    job = f"{workload.job.kind} {workload.job.name}, " if workload.job else ""
    rank = f"priority {workload.priority}{f' ({workload.priority_class})' if workload.priority_class else ''}"
    queue = f"queue {workload.queue or 'none'}"
    queue += (
        f" of ClusterQueue {standing.cluster_queue}" if standing.cluster_queue else ", which is not there"
    )
    return f"{job}{rank}, {queue}, created {_format_age(workload.created, now).rstrip(': ')}"


def _format_waiting(standing: JobStatus, workload: Workload, now: datetime) -> Iterator[str]:
    if workload.is_holding:
        return
    if standing.outside:
        yield f"  {standing.outside}"
    elif standing.retry_at is not None:
        yield f"  next try at {clock(standing.retry_at, far=True)}"
    if standing.retry_at is not None and standing.retry_at > now:
        yield f"  which is in {rounded(standing.retry_at - now)}"
    if standing.line is not None:
        ahead = f", behind {', '.join(standing.line.ahead)}" if standing.line.ahead else ""
        yield f"  position {standing.line.position} of {standing.line.of} in its queue{ahead}"
    # Of a deactivated Workload the conditions say just that.
    for what, name in () if standing.outside else (("quota", "QuotaReserved"), ("sent back", "Evicted")):
        found = standing.condition(name)
        if found is not None and found.message and (name == "QuotaReserved" or found.state == "True"):
            yield from _format_entry(f"{what}: ", found, now)


def _format_entry(what: str, said: StatusEntry | None, now: datetime) -> Iterator[str]:
    if said is None:
        return
    shown = "" if said.state in ("True", "False") else said.state
    message = f"{': ' if shown else ''}{said.message}" if said.message else ""
    since = _format_age(said.since, now).rstrip(": ")
    yield f"  {what}{shown}{message}{f' ({since})' if since else ''}"


def _format_age(since: datetime | None, now: datetime) -> str:
    return "" if since is None else f"{rounded(now - since)} ago: "


def _jsonable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _jsonable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(each) for each in value]
    return value.isoformat() if isinstance(value, datetime) else value
