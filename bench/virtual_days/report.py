"""What the days were like: GPU-minutes by cause, and whether memory stays flat."""

from collections.abc import Sequence
from statistics import median
from typing import Final

from bench.virtual_days.story import Day, Story

_WARM: Final = 5
"""Days after which everything has been in memory once."""
_GROWTH_MIB: Final = 16.0


def causes(story: Story) -> str:
    """A table. Raises AssertionError where a minute has no cause."""
    minutes = story.minutes
    minutes.check()
    lines = ["| GPU-minutes | of what was bought | spent on |", "|---:|---:|---|"]
    total = minutes.bought / 60
    rows = {"bought": total, "used": minutes.used / 60, **minutes.unused()}
    lines += [f"| {spent:,.0f} | {100 * spent / total:.2f} % | {cause} |" for cause, spent in rows.items()]
    what = ", ".join(f"{name}: {count}" for name, count in sorted(story.happened.items()))
    return "\n".join([*lines, "", f"Happened: {what}."])


def memory_grows(days: Sequence[Day]) -> str:
    """Why it is not flat; empty where it is, or where there are too few days to tell. The first days fill
    caches of bounded size.
    """
    warm = days[_WARM:]
    if len(warm) < 2 * _WARM:
        return ""
    third = len(warm) // 3
    early, late = (median(day.rss_mib for day in part) for part in (warm[:third], warm[-third:]))
    return f"memory grows: {early:.1f} to {late:.1f} MiB" if late - early > _GROWTH_MIB else ""
