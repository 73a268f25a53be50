"""What the days were like: GPU-minutes by cause, service levels, and whether memory stays flat."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from bench.virtual_days.service_levels import Quantiles, quantiles
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


@dataclass(frozen=True, slots=True)
class Summary:
    """Of several stories. Hours are those of GPU nodes; seconds are virtual."""

    days: Mapping[int, int]
    """By seed."""
    failed: Mapping[int, str]
    """Why, by seed."""
    finished: int
    refused: int
    starts: int
    starts_on_taken_nodes: int
    controllers: int
    faults: Mapping[str, int]
    start_seconds: Quantiles | None
    quota_after_failure_seconds: Quantiles | None
    bought_hours: float
    used_hours: float
    unused_hours: Mapping[str, float]
    """By cause, the largest first."""


def summarize(stories: Sequence[Story], *, failed: Mapping[int, str]) -> Summary:
    """Of a story that failed there are no GPU-hours: its books are closed at its end."""
    last = [story.days[-1] for story in stories if story.days]
    faults, unused = Counter[str](), Counter[str]()
    for story in stories:
        faults.update(story.happened)
        unused.update(story.minutes.unused())
    return Summary(
        days={story.seed: len(story.days) for story in stories},
        failed=dict(failed),
        finished=sum(day.finished for day in last),
        refused=sum(day.refused for day in last),
        starts=sum(day.starts for day in last),
        starts_on_taken_nodes=sum(story.levels.on_taken_nodes for story in stories),
        controllers=sum(day.lives for day in last),
        faults=dict(faults.most_common()),
        start_seconds=quantiles([each for story in stories for each in story.levels.starts]),
        quota_after_failure_seconds=quantiles(
            [each for story in stories for each in story.levels.quota_after_failure]
        ),
        bought_hours=round(sum(story.minutes.bought for story in stories) / 3600, 1),
        used_hours=round(sum(story.minutes.used for story in stories) / 3600, 1),
        unused_hours={cause: round(minutes / 60, 1) for cause, minutes in unused.most_common()},
    )
