"""When a cloud may upgrade a cluster's control plane and nodes by itself."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import Any, Final

from muster.model.keys import declared
from muster.model.section import Section

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


class UpgradeScope(StrEnum):
    """Which upgrades an exclusion holds back; the members have the API's names.

    Control planes get their patches with all but `noUpgrades`. A critical vulnerability is patched in spite
    of any exclusion.

    Source: container.v1 MaintenanceExclusionOptions at revision 20261027 and
    https://cloud.google.com/kubernetes-engine/docs/concepts/maintenance-windows-and-exclusions, read
    2026-11-27
    """

    NO_UPGRADES = "noUpgrades"
    NO_MINOR_UPGRADES = "noMinorUpgrades"
    NO_MINOR_OR_NODE_UPGRADES = "noMinorOrNodeUpgrades"


END_OF_SUPPORT: Final = "endOfSupport"
"""Of the cluster's minor version: after that day GKE upgrades it all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceExclusion:
    """Upgrades that GKE does not make by itself from the day `begin` until the day `until`, both like
    2026-11-27 and in UTC. `begin` may be left out with END_OF_SUPPORT alone.
    """

    scope: UpgradeScope = declared(
        "Which upgrades: all; of the minor version; of the minor version and of all nodes.",
        example=UpgradeScope.NO_MINOR_OR_NODE_UPGRADES.value,
    )
    begin: str | None = declared(
        "The first day, in UTC and in quotes; required with a day in `until`.",
        None,
        key="from",
        example="2026-12-14",
    )
    until: str = declared(
        "The day on which it ends, in UTC and in quotes; or endOfSupport, of the minor version.",
        END_OF_SUPPORT,
    )

    @property
    def first(self) -> str:
        """Its begin, as RFC 3339 in UTC. Without a day of its own one in the past, the same at each `up`."""
        day = _MONDAY if self.begin is None else date.fromisoformat(self.begin)
        return _written(datetime.combine(day, time(), UTC))

    @property
    def last(self) -> str | None:
        """Its end, as RFC 3339 in UTC; None at the end of support."""
        if self.until == END_OF_SUPPORT:
            return None
        return _written(datetime.combine(date.fromisoformat(self.until), time(), UTC))


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceWindow:
    """A window of `hours` that begins on each of `days` at `start`, HH:MM in UTC. `exclusions`: name -> what
    is not upgraded in it.
    """

    days: tuple[Day, ...] = declared(
        "The days on which a window begins.",
        tuple(Day),
        read=lambda section, key: section.choices(key, Day, noun="day", is_of_list=True),
        default_text="every day",
        example=["sat", "sun"],
    )
    start: str = declared("When it begins, as HH:MM in UTC, in quotes.", "02:00")
    hours: int = declared("How many hours it lasts.", 8, minimum=4, maximum=24)
    exclusions: Mapping[str, MaintenanceExclusion] = declared(
        "Name: upgrades that GKE does not make by itself.",
        {},
        default_text="none",
        example={"gangs": {"scope": UpgradeScope.NO_MINOR_OR_NODE_UPGRADES.value}},
    )

    @staticmethod
    def complete(_section: Section, values: dict[str, Any]) -> dict[str, Any]:
        return {**values, "days": values["days"] or tuple(Day)}

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


def is_day(text: str) -> bool:
    """Whether it is a day like 2026-11-27."""
    with suppress(ValueError):
        return bool(date.fromisoformat(text).isoformat() == text)
    return False


def _written(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
