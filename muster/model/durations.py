"""Durations as GangPolicy writes them: `1h30m`, `45s`."""

import re
from datetime import timedelta
from typing import Final

DURATION_PATTERN: Final = r"^([0-9]+h)?([0-9]+m)?([0-9]+s)?$"
_PARTS = re.compile(r"^(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?$")
_LONGEST: Final = timedelta(days=366)


def parse_duration(text: str) -> timedelta:
    """`1h30m`, `45s`: hours, minutes, seconds, in this order. ValueError on anything else, and on nothing."""
    match = _PARTS.match(text)
    if match is None or not text:
        raise ValueError(f"{text!r} is not a duration such as 30m, 1h30m or 45s")
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    if hours * 3600 + minutes * 60 + seconds > _LONGEST.total_seconds():
        raise ValueError(f"{text!r} is longer than {format_duration(_LONGEST)}")
    return timedelta(hours=hours, minutes=minutes, seconds=seconds)


def format_duration(duration: timedelta) -> str:
    """The shortest text that `parse_duration` reads back to the same whole seconds."""
    minutes, seconds = divmod(int(duration.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{number}{unit}" for number, unit in ((hours, "h"), (minutes, "m"), (seconds, "s")) if number]
    return "".join(parts) or "0s"
