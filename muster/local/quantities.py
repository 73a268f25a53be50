"""Reads Kubernetes quantities, durations and timestamps, and writes timestamps.

Quantities are whole thousandths, so that 100m of CPU is an integer. Durations
are seconds. Timestamps are seconds since the epoch. Every reader raises
ValueError naming what it could not read; callers decide what that costs.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from typing import Final

_SUFFIXES: Final = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}
_QUANTITY: Final = re.compile(
    r"([+-]?[0-9]{1,40}(?:\.[0-9]{0,40})?|[+-]?\.[0-9]{1,40})(?:([eE][+-]?[0-9]{1,3})|([numkMGTPE]|[KMGTPE]i)?)"
)
_DURATION: Final = re.compile(r"(?:([0-9]{1,6})h)?(?:([0-9]{1,8})m)?(?:([0-9]{1,10}(?:\.[0-9]{1,6})?)s)?")


def milli(quantity: object) -> int:
    """Thousandths of the quantity, rounded up as the API server does: milli("100m") == 100."""
    match = _QUANTITY.fullmatch(str(quantity))
    if match is None:
        raise ValueError(
            f"{str(quantity)[:60]!r} is no Kubernetes quantity; write for example 500m, 2 or 2Gi"
        )
    number, exponent, suffix = match.groups()
    try:
        value = Decimal(number + (exponent or "")) * _SUFFIXES[suffix or ""] * 1000
        return int(value.to_integral_value(rounding=ROUND_CEILING))
    except (InvalidOperation, OverflowError) as error:
        raise ValueError(f"{str(quantity)[:60]!r} is beyond any quantity") from error


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
