"""When a cloud may upgrade a cluster's control plane and nodes by itself."""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import Final

# A Monday in the past: a window that recurs has to begin somewhere, and the same at each `up`.
_MONDAY: Final = date(2026, 1, 5)
_START: Final = re.compile(r"([01]\d|2[0-3]):[0-5]\d\Z")


class Day(StrEnum):
    """Days of the week, in their order."""

    MON = "mon"
    TUE = "tue"
    WED = "wed"
    THU = "thu"
    FRI = "fri"
    SAT = "sat"
    SUN = "sun"


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceWindow:
    """A window of `hours` that begins on each of `days` at `start`, HH:MM in UTC."""

    days: tuple[Day, ...] = tuple(Day)
    start: str = "02:00"
    hours: int = 8

    @property
    def has_start(self) -> bool:
        """Whether `start` is a time."""
        return bool(_START.match(self.start))

    @property
    def hours_in_32_days(self) -> int:
        """What it has at least in any 32 days, in which each day of the week comes four times."""
        return 4 * len(set(self.days)) * self.hours

    @property
    def first(self) -> tuple[str, str]:
        """Begin and end of the first one, as RFC 3339 in UTC."""
        order = list(Day)
        day = _MONDAY + timedelta(days=min(order.index(each) for each in self.days))
        begin = datetime.combine(day, time.fromisoformat(self.start), UTC)
        return _written(begin), _written(begin + timedelta(hours=self.hours))

    @property
    def recurrence(self) -> str:
        """As RFC 5545 has it."""
        days = ",".join(each.value[:2].upper() for each in Day if each in self.days)
        return f"FREQ=WEEKLY;BYDAY={days}"


def _written(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
