"""The wall clock, in the zone of the API server's timestamps."""

from datetime import UTC, datetime


def utc_now() -> datetime:
    return datetime.now(UTC)
