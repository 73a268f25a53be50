"""Backoff between attempts, and when there is no further attempt.

Computes how long a gang waits without quota, and what its object (a Workload, a gated pod) carries meanwhile.
The backoff follows from a uid and the number of attempts alone: after a crash the same delay results, and
gangs that failed together retry at different times.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from muster.controller.gangs.lease import format_time, parse_time
from muster.controller.kube.resource import Object
from muster.model.gangpolicy import RetryPolicy
from muster.model.names import (
    AVOID_ANNOTATION,
    GROUP,
    GROWS_ANNOTATION,
    IN_TURN_ANNOTATION,
    LAST_FAILURE_ANNOTATION,
    LEASE_ENDS_ANNOTATION,
    NODES_MISSING_ANNOTATION,
    REFUSED_ANNOTATION,
    REFUSED_FOR_ANNOTATION,
    REPLACED_ANNOTATION,
    RETRY_AT_ANNOTATION,
    TRIES_ANNOTATION,
    UNCLAIMED_ANNOTATION,
)
from muster.model.quantities import format_duration, read_count

RETRY_AT: Final = RETRY_AT_ANNOTATION
"""On an inactive Workload: this controller deactivated it, and until when. Without this annotation another
client did, and the controller does not reactivate it.
"""
TRIES: Final = TRIES_ANNOTATION
FIRST_TRY: Final = f"{GROUP}/first-try"
LAST_FAILURE: Final = LAST_FAILURE_ANNOTATION
REFUSED: Final = REFUSED_ANNOTATION
"""On an inactive Workload: why it was refused. After a person activates it, it starts afresh."""

FEWEST_TRIES: Final = 3
"""A gang is not given up before. One try may take as long as retry.deadline: the timeouts are set
independently, the cloud may accept a request and keep it for days, and our own outage takes time as well.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryHistory:
    """What earlier attempts of the gang left on its object."""

    tries: int = 0
    first_try: datetime | None = None
    retry_at: datetime | None = None
    last_failure: str = ""
    refused: str = ""
    refused_for: str = ""
    """Of a scale-up, which stays active: what the refusal depends on. It ends when that changes."""
    grows: bool = False
    """The next attempt is a scale-up's, which keeps its quota: a deactivation meanwhile is not ours."""
    avoid: tuple[str, ...] = ()
    """Flavors that were out of stock and that it keeps away from."""
    in_turn: str = ""
    """The attempt in which a request came too early. From then on its requests are made one after another,
    also in later attempts.
    """
    replaced: tuple[str, ...] = ()
    """The uids of its requests that had a broken node and were released to be made again, once."""
    nodes_missing: datetime | None = None
    """While it runs: since when it lacks nodes."""
    lease_ends: datetime | None = None
    """While it runs: the end of its lease, once that has been announced."""
    unclaimed: str = ""
    """While an elastic one runs: the attempt whose claims have been taken off its templates, and all of whose
    pods may be scheduled.
    """


_EMPTY: Final = RetryHistory()
_WRITTEN: Final = timedelta(seconds=1)
"""Times are written in whole seconds."""


def parse_history(held: Object, *, part: str = "") -> RetryHistory:
    """Read from annotations. Other clients may edit those, so what cannot be read counts as not there.
    `part`: which of its gangs, of an object that has several.
    """
    notes = held.metadata.annotations
    if part:
        end = f".{part}"
        notes = {key.removesuffix(end): value for key, value in notes.items() if key.endswith(end)}
    if not notes:
        return _EMPTY
    return RetryHistory(
        tries=_count(notes.get(TRIES, "")),
        first_try=parse_time(notes.get(FIRST_TRY, "")),
        retry_at=parse_time(notes.get(RETRY_AT, "")),
        last_failure=notes.get(LAST_FAILURE, ""),
        refused=notes.get(REFUSED, ""),
        refused_for=notes.get(REFUSED_FOR_ANNOTATION, ""),
        grows=GROWS_ANNOTATION in notes,
        avoid=_names(notes.get(AVOID_ANNOTATION, "")),
        in_turn=notes.get(IN_TURN_ANNOTATION, ""),
        replaced=_names(notes.get(REPLACED_ANNOTATION, "")),
        nodes_missing=parse_time(notes.get(NODES_MISSING_ANNOTATION, "")),
        lease_ends=parse_time(notes.get(LEASE_ENDS_ANNOTATION, "")),
        unclaimed=notes.get(UNCLAIMED_ANNOTATION, ""),
    )


def to_annotations(history: RetryHistory, *, part: str = "") -> Mapping[str, str | None]:
    """The history as annotations; None removes one."""
    if part:
        return {f"{key}.{part}": value for key, value in to_annotations(history).items()}
    return {
        TRIES: str(history.tries) if history.tries else None,
        FIRST_TRY: _format(history.first_try),
        RETRY_AT: _format(history.retry_at),
        LAST_FAILURE: history.last_failure or None,
        REFUSED: history.refused or None,
        REFUSED_FOR_ANNOTATION: history.refused_for or None,
        GROWS_ANNOTATION: "true" if history.grows else None,
        AVOID_ANNOTATION: ",".join(history.avoid) or None,
        IN_TURN_ANNOTATION: history.in_turn or None,
        REPLACED_ANNOTATION: ",".join(history.replaced) or None,
        NODES_MISSING_ANNOTATION: _format(history.nodes_missing),
        LEASE_ENDS_ANNOTATION: _format(history.lease_ends),
        UNCLAIMED_ANNOTATION: history.unclaimed or None,
    }


def next_attempt(
    history: RetryHistory,
    *,
    uid: str,
    began: datetime,
    failure: str,
    now: datetime,
    policy: RetryPolicy,
    in_turn: str = "",
) -> RetryHistory:
    """The history with one more failed try in it and the time of the next one; refused when that is past the
    deadline, and enough tries have failed. `in_turn`: what the next try is to know of requests that came too
    early.
    """
    first = min(history.first_try or began, now)  # An annotation may say anything, the year 9999 too.
    retry_at = now + backoff(uid, history.tries, policy)
    tries = history.tries + 1
    if retry_at > first + policy.deadline and tries >= FEWEST_TRIES:
        deadline = format_duration(policy.deadline)
        given_up = f"gave up after {tries} tries, retry.deadline of {deadline} is over; last: {failure}"
        return RetryHistory(refused=given_up)
    return RetryHistory(
        tries=tries,
        first_try=first,
        retry_at=truncate_seconds(retry_at),
        last_failure=failure[:1000],
        in_turn=in_turn,
    )


def switch_flavor(
    history: RetryHistory, *, began: datetime, failure: str, exhausted: str, now: datetime
) -> RetryHistory:
    """The history of a gang that tries the next flavor at once."""
    return RetryHistory(
        tries=history.tries,
        first_try=min(history.first_try or began, now),
        retry_at=truncate_seconds(now),
        last_failure=failure[:1000],
        avoid=(*history.avoid, exhausted),
    )


def backoff(uid: str, tries: int, policy: RetryPolicy) -> timedelta:
    """base * 2^tries up to max, moved by up to +-jitter percent."""
    grown = min(policy.max, policy.base * 2 ** min(tries, 32))
    draw = int.from_bytes(hashlib.sha256(f"{uid}/{tries}".encode()).digest()[:4], "big") / 0xFFFFFFFF
    moved = 1 + (2 * draw - 1) * policy.jitter_percent / 100
    return timedelta(seconds=grown.total_seconds() * moved)


def clamp_to_clock(history: RetryHistory, *, now: datetime, policy: RetryPolicy) -> RetryHistory:
    """The history as it is, or with a next try now where it is further ahead than any pause reaches: a clock
    that was ahead of ours has written that (or the policy's backoff was longer), and it is not waited for.
    """
    longest = policy.max * (1 + policy.jitter_percent / 100) + _WRITTEN
    is_ahead = history.retry_at is not None and history.retry_at > now + longest
    return replace(history, retry_at=truncate_seconds(now)) if is_ahead else history


def truncate_seconds(at: datetime) -> datetime:
    """Without fractions of a second, as it is written and read back."""
    return at.replace(microsecond=0)


def _format(at: datetime | None) -> str | None:
    return format_time(at) if at else None


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def _count(text: str) -> int:
    return read_count(text, most_digits=6) or 0
