"""A standing in words, and for programs.

Decides the order: what it waits for first, then what was written about it. Leaves the words of waiting to
whoever wrote them on the Workload.
"""

from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

from muster.live.sanitize import plain
from muster.live.snapshot import State, Workload
from muster.live.why.job_status import Said, Standing
from muster.model.waiting import clock, rounded


def text(standing: Standing, *, now: datetime) -> str:
    """What a person reads: every line ends with a line end."""
    return "".join(f"{_shown(line)}\n" for line in _lines(standing, now))


def _shown(line: str) -> str:
    """Its indent, and the rest without what a terminal would obey."""
    words = line.lstrip(" ")
    return " " * (len(line) - len(words)) + plain(words, longest=1200)


def record(standing: Standing) -> dict[str, Any]:
    """The same for programs; times in ISO 8601."""
    return {"version": 1, "state": state(standing), **_plain(asdict(standing))}


def state(standing: Standing) -> str:
    """One word or two: `finished`, `not queued`, `inactive`, `pending`, `reserved` or `admitted`."""
    if standing.is_finished:
        return "finished"
    return "not queued" if standing.workload is None else str(standing.workload.state)


def _lines(standing: Standing, now: datetime) -> Iterator[str]:
    workload = standing.workload
    if workload is None:
        yield f"{standing.namespace}/{standing.name}: {state(standing)}"
        yield from _said("", standing.condition("Finished"), now) if standing.is_finished else ()
        if standing.unqueued:
            yield f"  {standing.unqueued}"
        return
    yield f"{workload.namespace}/{workload.name}: {_headline(standing, workload)}"
    yield f"  {_who(standing, workload, now)}"
    yield from _waiting(standing, workload, now)
    for check in standing.checks:
        yield from _said(f"check {check.name}: ", check, now)
    for request in standing.requests:
        yield from _said(f"request {request.name}: ", request, now)
    if standing.events:
        yield "  last events:"
        for event in standing.events:
            yield f"    {_ago(event.since, now)}{event.name}: {event.message}"


_HEADLINES: Final = {
    State.INACTIVE: "waits outside the quota",
    State.PENDING: "waits for quota",
    State.RESERVED: "has quota, waits for capacity",
    State.ADMITTED: "admitted: its pods may start",
}


def _headline(standing: Standing, workload: Workload) -> str:
    if workload.state is State.INACTIVE and standing.retry_at is None:
        return "refused" if standing.outside else "deactivated: nothing tries it again"
    return _HEADLINES[workload.state]


def _who(standing: Standing, workload: Workload, now: datetime) -> str:
    job = f"{workload.job.kind} {workload.job.name}, " if workload.job else ""
    rank = f"priority {workload.priority}{f' ({workload.priority_class})' if workload.priority_class else ''}"
    queue = f"queue {workload.queue or 'none'}"
    queue += (
        f" of ClusterQueue {standing.cluster_queue}" if standing.cluster_queue else ", which is not there"
    )
    return f"{job}{rank}, {queue}, created {_ago(workload.created, now).rstrip(': ')}"


def _waiting(standing: Standing, workload: Workload, now: datetime) -> Iterator[str]:
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
            yield from _said(f"{what}: ", found, now)


def _said(what: str, said: Said | None, now: datetime) -> Iterator[str]:
    if said is None:
        return
    shown = "" if said.state in ("True", "False") else said.state
    message = f"{': ' if shown else ''}{said.message}" if said.message else ""
    since = _ago(said.since, now).rstrip(": ")
    yield f"  {what}{shown}{message}{f' ({since})' if since else ''}"


def _ago(since: datetime | None, now: datetime) -> str:
    return "" if since is None else f"{rounded(now - since)} ago: "


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value.isoformat() if isinstance(value, datetime) else value
