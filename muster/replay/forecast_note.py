"""What is written on a waiting Workload about its start: the words, and when they are worth a write. Pure."""

import re
from datetime import UTC, datetime
from math import ceil, floor
from typing import Final

from muster.replay.figures import NEVER
from muster.replay.forecast import Forecast

LEAST_SECONDS: Final = 600
"""Between two writes of a note."""

_STALE_SECONDS: Final = 3600
_STEP: Final = 600
_AS_OF: Final = ", as of "
_NOTE: Final = re.compile(rf"(?P<words>.*){_AS_OF}(?P<at>\S+)", re.DOTALL)


def to_note(found: Forecast) -> str:
    """Times are UTC, the interval's rounded outwards to ten minutes."""
    return f"{_start(found)}, place {found.place} of {found.waiting}{_AS_OF}{_time(found.at)}"


def next_note(before: str | None, after: str | None, *, now: float) -> str | None:
    """What the Workload is to have. `after` is None where nothing could be said in this round."""
    if before is None:
        return after
    words, at = _parsed(before)
    age = now - at
    if after is None:
        return before if age < _STALE_SECONDS else None
    is_news = _parsed(after)[0] != words or age >= _STALE_SECONDS
    # A round may begin a little early.
    return after if is_news and age >= LEAST_SECONDS - _STEP / 10 else before


def _start(found: Forecast) -> str:
    if found.latest == 0:
        return "starts at once"
    if found.earliest == NEVER:
        return f"starts after {_time(found.at + found.seconds)} (80 %)"
    earliest = _time(floor((found.at + found.earliest) / _STEP) * _STEP)
    if found.latest == NEVER:
        return f"starts {earliest} or later (80 %)"
    return f"starts {earliest} to {_time(ceil((found.at + found.latest) / _STEP) * _STEP)} (80 %)"


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%MZ}"


def _parsed(note: str) -> tuple[str, float]:
    """The words and the time of a note. One that is not ours is very old."""
    found = _NOTE.fullmatch(note)
    try:
        return (
            (note, 0.0)
            if found is None
            else (found["words"], datetime.fromisoformat(found["at"]).timestamp())
        )
    except ValueError:
        return note, 0.0
