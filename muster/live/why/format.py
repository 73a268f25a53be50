"""Formats a job status for people and for programs.

Responsible for the order: first what the job waits for, then the details. The reasons for waiting are shown
as they are on the Workload.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from muster.columns import format_columns
from muster.live import fields
from muster.live.snapshot import State, Workload
from muster.live.why.job_status import JobStatus, StatusEntry
from muster.live.why.pods import PodReason, PodStatus
from muster.model.quantities import many
from muster.model.waiting import clock, how_to_stop, rounded
from muster.printable import sanitize_indented


def format_status(status: JobStatus, now: datetime) -> str:
    """The status as text. Every line ends with a newline."""
    return "".join(f"{sanitize_indented(line, longest=1200)}\n" for line in _format_lines(status, now))


def format_waiting(statuses: Sequence[JobStatus], *, now: datetime) -> str:
    """A line for each job that waits, and how many there are."""
    rows = [
        (
            job_label(each),
            format_headline(each),
            rounded(now - each.workload.created) if each.workload else "",
            format_reason(each),
        )
        for each in statuses
    ]
    lines = format_columns(("Job", "State", "Since", "Reason"), rows) if rows else ()
    count = many(len(rows), "job")
    return "".join(f"{line}\n" for line in (*lines, f"{count} wait{'s' * (len(rows) == 1)}."))


def job_label(status: JobStatus) -> str:
    """Namespace and name of the job, or of a Workload without one."""
    job = status.workload.job if status.workload is not None else None
    return f"{status.namespace}/{job.name if job is not None else status.name}"


def to_json(status: JobStatus) -> dict[str, Any]:
    """The same for programs; times in ISO 8601."""
    return {"version": 1, "state": format_state(status), **fields.to_json(status)}


def format_state(status: JobStatus) -> str:
    """One word or two: `finished`, `not queued`, `inactive`, `pending`, `reserved` or `admitted`."""
    if status.is_finished:
        return "finished"
    if status.workload is not None:
        return str(status.workload.state)
    if status.pods is None:
        return "not queued"
    return str(State.ADMITTED if status.pods.is_running else State.PENDING)


def _format_lines(status: JobStatus, now: datetime) -> Iterator[str]:
    workload = status.workload
    if workload is None:
        yield f"{status.namespace}/{status.name}: {format_headline(status)}"
        if status.outside and not status.is_finished:
            yield f"  {status.outside}"
        yield from _format_entry("", status.condition("Finished"), now) if status.is_finished else ()
        yield from _format_pods(status)
        yield from (f"  {line}" for line in status.stock)
        if status.unqueued:
            yield f"  {status.unqueued}"
        return
    yield f"{workload.namespace}/{workload.name}: {format_headline(status)}"
    yield f"  {_format_job(status, workload, now)}"
    for line in status.queue_inactivity:
        yield f"  {line}"
    if status.idle:
        yield f"  {status.idle}"
    yield from _format_waiting(status, workload, now)
    for check in status.checks:
        yield from _format_entry(f"check {check.name}: ", check, now)
    for request in status.requests:
        yield from _format_entry(f"request {request.name}: ", request, now)
    yield from _format_pods(status)
    yield from (f"  {line}" for line in status.stock)
    if status.events:
        yield "  last events:"
        for event in status.events:
            yield f"    {_format_age(event.since, now)}{event.name}: {event.message}"


HEADLINES: Final = {
    State.INACTIVE: "waits outside the quota",
    State.PENDING: "waits for quota",
    State.RESERVED: "has quota, waits for capacity",
    State.ADMITTED: "admitted: its pods may start",
}


def format_headline(status: JobStatus) -> str:
    """What the job waits for, in a few words."""
    workload, pods = status.workload, status.pods
    if pods is not None and not status.is_finished:
        return _format_pod_counts(pods, is_admitted=workload is not None)
    if workload is None:
        return format_state(status)
    if workload.state is State.INACTIVE and status.is_stopped:
        return "stopped"
    if workload.state is State.INACTIVE and status.retry_at is None:
        return "refused" if status.outside else "deactivated: it is not retried"
    return HEADLINES[workload.state]


def _format_pod_counts(pods: PodStatus, *, is_admitted: bool) -> str:
    if pods.is_running:
        return f"runs: {many(pods.expected, 'pod')}"
    done = f", {pods.done} completed" if pods.done else ""
    begun = "started" if is_admitted or pods.ready or pods.is_placed else "waits"
    return f"{begun}: {pods.ready} of {many(pods.expected, 'pod')} ready{done}"


def format_reason(status: JobStatus) -> str:
    """Why the job waits, in one line; "" where nothing says it."""
    reasons = status.pods.reasons if status.pods is not None else ()
    if reasons and not (status.outside and {each.reason for each in reasons} == {"SchedulingGated"}):
        return "; ".join(_format_pod_reason(each) for each in reasons)
    quota = status.condition("QuotaReserved")
    is_pending = quota is not None and quota.state == "False"
    messages = (
        status.outside,
        _format_budget(status),
        *(
            f"check {each.name}: {each.message}"
            for each in status.checks
            if each.state != "Ready" and each.message
        ),
        quota.message if quota is not None and is_pending else "",
    )
    return next(filter(None, messages), "")


def _format_budget(status: JobStatus) -> str:
    return f"budget of the team: {status.budget}" if status.budget else ""


def _format_pods(status: JobStatus) -> Iterator[str]:
    for found in status.pods.reasons if status.pods is not None else ():
        yield f"  {_format_pod_reason(found)}"
        yield from (f"    | {line}" for line in found.log)


def _format_pod_reason(found: PodReason) -> str:
    """`2 pods (head, h100): ErrImagePull: example.com/ray:1: not found`."""
    which = ", ".join(found.roles if found.roles else found.pods[:3])
    message = f": {found.message}" if found.message else ""
    return f"{many(len(found.pods), 'pod')} ({which}): {found.reason}{message}"


def _format_job(status: JobStatus, workload: Workload, now: datetime) -> str:
    job = f"{workload.job.kind} {workload.job.name}, " if workload.job else ""
    rank = f"priority {workload.priority}{f' ({workload.priority_class})' if workload.priority_class else ''}"
    queue = f"queue {workload.queue or 'none'}"
    queue += f" of ClusterQueue {status.cluster_queue}" if status.cluster_queue else ", which does not exist"
    return f"{job}{rank}, {queue}, created {_format_age(workload.created, now).rstrip(': ')}"


def _format_waiting(status: JobStatus, workload: Workload, now: datetime) -> Iterator[str]:
    if workload.is_holding:
        return
    if status.outside:
        yield f"  {status.outside}"
    elif status.retry_at is not None:
        yield f"  next attempt at {clock(status.retry_at, far=True)}"
    if status.retry_at is not None and status.retry_at > now and not status.is_stopped:
        yield f"  in {rounded(status.retry_at - now)}"
    if workload.state is State.INACTIVE and status.retry_at is not None and not status.is_stopped:
        yield f"  {how_to_stop(namespace=status.namespace, workload=workload.name)}"
    if status.line is not None:
        ahead = f", behind {', '.join(status.line.ahead)}" if status.line.ahead else ""
        yield f"  position {status.line.position} of {status.line.of} in its queue{ahead}"
    if status.budget:
        yield f"  {_format_budget(status)}"
    if status.note:
        yield f"  {status.note}, by the cluster's own recorder"
    # The conditions of a deactivated Workload only repeat that it is deactivated.
    for what, name in () if status.outside else (("quota", "QuotaReserved"), ("evicted", "Evicted")):
        found = status.condition(name)
        if found is not None and found.message and (name == "QuotaReserved" or found.state == "True"):
            yield from _format_entry(f"{what}: ", found, now)


def _format_entry(what: str, entry: StatusEntry | None, now: datetime) -> Iterator[str]:
    if entry is None:
        return
    shown = "" if entry.state in ("True", "False") else entry.state
    message = f"{': ' if shown else ''}{entry.message}" if entry.message else ""
    since = _format_age(entry.since, now).rstrip(": ")
    yield f"  {what}{shown}{message}{f' ({since})' if since else ''}"


def _format_age(since: datetime | None, now: datetime) -> str:
    return "" if since is None else f"{rounded(now - since)} ago: "
