"""The pause between two attempts, and when there is no further one.

Decides how long a gang waits outside the quota and what its object (a Workload, a gated pod) carries
meanwhile. The pause follows from a uid and the number of tries alone: a crash half way decides the same
again, and gangs that failed together still come back apart.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from muster.controller.gangs.lease import moment, written
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
    RETRY_AT_ANNOTATION,
    TRIES_ANNOTATION,
    UNCLAIMED_ANNOTATION,
)

RETRY_AT: Final = RETRY_AT_ANNOTATION
"""On an inactive Workload: we deactivated it, and until when. Without it, somebody else did, and we stay
away. To stop a gang that waits here for good, remove this annotation.
"""
TRIES: Final = TRIES_ANNOTATION
FIRST_TRY: Final = f"{GROUP}/first-try"
LAST_FAILURE: Final = LAST_FAILURE_ANNOTATION
REFUSED: Final = REFUSED_ANNOTATION
"""On an inactive Workload: why we deactivated it for good. Whoever activates it again starts afresh."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What earlier attempts of the gang left on its object."""

    tries: int = 0
    first_try: datetime | None = None
    retry_at: datetime | None = None
    last_failure: str = ""
    refused: str = ""
    refused_for: str = ""
    """Of a growth, which nobody has to activate: what the refusal is about. It ends when that changes."""
    grows: bool = False
    """The next try is that of a growth, which waits in the quota: who deactivates it meanwhile is not us."""
    avoid: tuple[str, ...] = ()
    """Flavors that were out of stock and that it keeps away from."""
    in_turn: str = ""
    """The attempt whose pieces are asked for one after another, because the last came too early."""
    nodes_missing: datetime | None = None
    """While it runs: since when it lacks nodes."""
    lease_ends: datetime | None = None
    """While it runs: the end of its lease, once that has been announced."""
    unclaimed: str = ""
    """While an elastic one runs: the attempt whose claims have been taken off its templates, and all of whose
    pods may be scheduled.
    """


_NOTHING: Final = History()
_WRITTEN: Final = timedelta(seconds=1)
"""Moments are written in whole seconds."""


def history(held: Object) -> History:
    """Read from annotations. Anybody may edit those, so what cannot be read counts as not there."""
    notes = held.metadata.annotations
    if not notes:
        return _NOTHING
    return History(
        tries=_count(notes.get(TRIES, "")),
        first_try=moment(notes.get(FIRST_TRY, "")),
        retry_at=moment(notes.get(RETRY_AT, "")),
        last_failure=notes.get(LAST_FAILURE, ""),
        refused=notes.get(REFUSED, ""),
        refused_for=notes.get(REFUSED_FOR_ANNOTATION, ""),
        grows=GROWS_ANNOTATION in notes,
        avoid=tuple(name for name in notes.get(AVOID_ANNOTATION, "").split(",") if name),
        in_turn=notes.get(IN_TURN_ANNOTATION, ""),
        nodes_missing=moment(notes.get(NODES_MISSING_ANNOTATION, "")),
        lease_ends=moment(notes.get(LEASE_ENDS_ANNOTATION, "")),
        unclaimed=notes.get(UNCLAIMED_ANNOTATION, ""),
    )


def annotations(past: History) -> Mapping[str, str | None]:
    """The history as annotations; None removes one."""
    return {
        TRIES: str(past.tries) if past.tries else None,
        FIRST_TRY: _write(past.first_try),
        RETRY_AT: _write(past.retry_at),
        LAST_FAILURE: past.last_failure or None,
        REFUSED: past.refused or None,
        REFUSED_FOR_ANNOTATION: past.refused_for or None,
        GROWS_ANNOTATION: "true" if past.grows else None,
        AVOID_ANNOTATION: ",".join(past.avoid) or None,
        IN_TURN_ANNOTATION: past.in_turn or None,
        NODES_MISSING_ANNOTATION: _write(past.nodes_missing),
        LEASE_ENDS_ANNOTATION: _write(past.lease_ends),
        UNCLAIMED_ANNOTATION: past.unclaimed or None,
    }


def next_try(
    past: History, *, uid: str, began: datetime, failure: str, now: datetime, policy: RetryPolicy
) -> History | None:
    """The history with one more failed try in it and the time of the next one; None when that is past the
    deadline.
    """
    first = min(past.first_try or began, now)  # An annotation may say anything, the year 9999 too.
    retry_at = now + pause(uid, past.tries, policy)
    if retry_at > first + policy.deadline:
        return None
    return History(
        tries=past.tries + 1, first_try=first, retry_at=whole(retry_at), last_failure=failure[:1000]
    )


def moved(past: History, *, began: datetime, failure: str, exhausted: str, now: datetime) -> History:
    """The history of a gang that tries the next flavor at once."""
    return History(
        tries=past.tries,
        first_try=min(past.first_try or began, now),
        retry_at=whole(now),
        last_failure=failure[:1000],
        avoid=(*past.avoid, exhausted),
    )


def pause(uid: str, tries: int, policy: RetryPolicy) -> timedelta:
    """base * 2^tries up to max, moved by up to +-jitter percent."""
    grown = min(policy.max, policy.base * 2 ** min(tries, 32))
    draw = int.from_bytes(hashlib.sha256(f"{uid}/{tries}".encode()).digest()[:4], "big") / 0xFFFFFFFF
    moved = 1 + (2 * draw - 1) * policy.jitter_percent / 100
    return timedelta(seconds=grown.total_seconds() * moved)


def corrected(past: History, *, now: datetime, policy: RetryPolicy) -> History:
    """The history as it is, or with a next try now where it is further ahead than any pause reaches: a clock
    that was ahead of ours has written that (or the policy's pauses were longer), and nobody waits for it.
    """
    longest = policy.max * (1 + policy.jitter_percent / 100) + _WRITTEN
    is_ahead = past.retry_at is not None and past.retry_at > now + longest
    return replace(past, retry_at=whole(now)) if is_ahead else past


def whole(at: datetime) -> datetime:
    """Without fractions of a second, as it is written and read back."""
    return at.replace(microsecond=0)


def _write(at: datetime | None) -> str | None:
    return written(at) if at else None


def _count(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 7 else 0
