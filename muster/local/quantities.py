"""Reads Kubernetes quantities, durations and timestamps, and writes timestamps.

Quantities are whole thousandths, so that 100m of CPU is an integer. Durations
are seconds. Timestamps are seconds since the epoch. Every reader raises
ValueError naming what it could not read; callers decide what that costs.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from math import ceil
from typing import Final

from muster.model.quantities import parse_signed_quantity

_DURATION: Final = re.compile(r"(?:([0-9]{1,6})h)?(?:([0-9]{1,8})m)?(?:([0-9]{1,10}(?:\.[0-9]{1,6})?)s)?")


def milli(quantity: object) -> int:
    """Thousandths of the quantity, rounded up as the API server does: milli("100m") == 100."""
    return ceil(parse_signed_quantity(str(quantity)) * 1000)


def seconds(duration: object) -> float:
    """seconds("1h30m") == 5400.0; a bare number is refused because its unit is a guess."""
    text = str(duration)
    match = _DURATION.fullmatch(text)
    if match is None or not text:
        raise ValueError(f"{text[:60]!r} is no duration; write hours, minutes and seconds as in 1h30m or 10s")
    hours, minutes, rest = match.groups()
    return int(hours or 0) * 3600.0 + int(minutes or 0) * 60.0 + float(rest or 0)


def timestamp(text: object) -> float:
    """Seconds since the epoch of an RFC 3339 time."""
    try:
        moment = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{str(text)[:60]!r} is no RFC 3339 time") from error


def rfc3339(moment: float) -> str:
    """As conditions have it, to the second and never in the future."""
    return datetime.fromtimestamp(int(moment), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
