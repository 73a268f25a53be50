"""Today's date, which a build can set."""

import os
from datetime import UTC, date, datetime
from typing import Final

from muster.errors import ExitCode, MusterError

VARIABLE: Final = "MUSTER_TODAY"
"""A date such as 2026-11-23: a build of an old commit gives the warnings of its day."""


def today() -> date:
    """The date in UTC, or that of MUSTER_TODAY."""
    text = os.environ.get(VARIABLE, "")
    try:
        return date.fromisoformat(text) if text else datetime.now(UTC).date()
    except ValueError:
        raise MusterError(
            f"{VARIABLE}={text} is no date.",
            fix="write it like 2026-11-23, or unset it.",
            exit_code=ExitCode.UNUSABLE,
        ) from None
